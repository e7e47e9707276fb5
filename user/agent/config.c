// SPDX-License-Identifier: BSD-2-Clause
/* Reading the agent's configuration: a table of settings, and what must hold between them. */
#include "base/size.h"
#include "agent/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/store.h"

enum setting_type { SETTING_TEXT, SETTING_NUMBER, SETTING_BYTES, SETTING_SECONDS, SETTING_PERCENT, SETTING_FLAG };

struct setting {
	const char *section, *name;
	enum setting_type type;
	size_t offset;
	const char *usual;  /* as it would stand in the file */
	double least, most; /* of numbers, bytes, seconds */
};

#define MEMBER(member) offsetof(struct agent_config, member)
#define DAY 86400.0
#define YEAR (366 * DAY)
#define BYTES_MAX 1152921504606846976.0 /* 2^60 */

static const struct setting settings[] = {
	{"agent", "node", SETTING_TEXT, MEMBER(node), "", 0, 0},
	{"agent", "interval", SETTING_SECONDS, MEMBER(interval), "5s", 0.1, 3600},
	{"agent", "ring-size", SETTING_BYTES, MEMBER(ring_bytes), "4M", 4096, 1073741824.0},
	{"agent", "device-memory", SETTING_BYTES, MEMBER(device_bytes), "0", 0, BYTES_MAX},
	{"agent", "growth-interval", SETTING_SECONDS, MEMBER(growth_interval), "1m", 1, 3600},
	{"agent", "owners", SETTING_FLAG, MEMBER(owners), "yes", 0, 0},
	{"agent", "host-cost", SETTING_PERCENT, MEMBER(host_percent), "5%", 0, 100},
	{"agent", "steps", SETTING_FLAG, MEMBER(steps), "yes", 0, 0},
	{"metrics", "address", SETTING_TEXT, MEMBER(address), "127.0.0.1", 0, 0},
	{"metrics", "port", SETTING_NUMBER, MEMBER(port), "9471", 0, 65535},
	{"metrics", "certificate", SETTING_TEXT, MEMBER(certificate), "", 0, 0},
	{"metrics", "key", SETTING_TEXT, MEMBER(key), "", 0, 0},
	{"metrics", "token", SETTING_TEXT, MEMBER(token), "", 0, 0},
	{"metrics", "ranks", SETTING_NUMBER, MEMBER(ranks), "64", 1, 10000},
	{"store", "url", SETTING_TEXT, MEMBER(store), STORE_DEFAULT, 0, 0},
	{"store", "spool", SETTING_TEXT, MEMBER(spool), SPOOL_DEFAULT, 0, 0},
	{"store", "spool-size", SETTING_BYTES, MEMBER(spool_bytes), "256M", 1048576, BYTES_MAX},
	{"store", "period", SETTING_SECONDS, MEMBER(period), "5m", 1, DAY},
	{"captures", "folder", SETTING_TEXT, MEMBER(captures), "/var/lib/hdtrace/captures", 0, 0},
	{"captures", "steps", SETTING_NUMBER, MEMBER(capture_steps), "3", 1, 1000000},
	{"captures", "seconds", SETTING_SECONDS, MEMBER(capture_seconds), "60s", 1, DAY},
	{"captures", "per-hour", SETTING_NUMBER, MEMBER(per_hour), "4", 0, CAPTURES_HOURLY_MAX},
	{"captures", "pause", SETTING_SECONDS, MEMBER(pause), "30m", 0, YEAR},
	{"captures", "quota", SETTING_BYTES, MEMBER(quota_bytes), "2G", 1048576, BYTES_MAX},
	{"captures", "age", SETTING_SECONDS, MEMBER(age), "14d", 60, 100 * YEAR},
	{"captures", "on-peak", SETTING_PERCENT, MEMBER(peak_percent), "95%", 0, 100},
	{"captures", "on-growth", SETTING_BYTES, MEMBER(growth_bytes), "0", 0, BYTES_MAX},
	{"captures", "on-out-of-memory", SETTING_FLAG, MEMBER(out_of_memory), "yes", 0, 0},
};
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

struct reading {
	struct agent_config *config;
	bool given[SETTING_COUNT];
	char *fault; /* "": none */
};

static void fault_set(struct reading *reading, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fault_set(struct reading *reading, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(reading->fault, CONFIG_FAULT_BYTES, format, values);
	va_end(values);
}

/* --- values -------------------------------------------------------------------------- */

/* "90", "90s", "5m", "2h", "14d" */
static bool seconds_parse(const char *text, double *seconds)
{
	static const struct {
		char unit;
		double seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', DAY}};
	char *end;

	errno = 0;
	*seconds = strtod(text, &end);
	if (errno || end == text)
		return false;
	for (size_t index = 0; *end && index < sizeof(units) / sizeof(units[0]); index++)
		if (end[0] == units[index].unit && !end[1]) {
			*seconds *= units[index].seconds;
			return true;
		}
	return !*end;
}

static bool unit_number_parse(const char *text, char unit, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(text, &end);
	return !errno && end != text && (!*end || (unit && *end == unit && !end[1]));
}

static bool flag_parse(const char *text, bool *flag)
{
	*flag = !strcasecmp(text, "yes") || !strcasecmp(text, "true") || !strcasecmp(text, "on");
	return *flag || !strcasecmp(text, "no") || !strcasecmp(text, "false") || !strcasecmp(text, "off");
}

static bool is_between(const struct setting *setting, double value)
{
	return value >= setting->least && value <= setting->most;
}

/* NULL, or what the value should be. */
static const char *value_store(const struct setting *setting, const char *text, struct agent_config *config)
{
	void *place = (char *)config + setting->offset;
	uint64_t bytes;
	double number;

	switch (setting->type) {
	case SETTING_TEXT:
		free(*(char **)place);
		*(char **)place = strdup(text);
		return *(char **)place ? NULL : "shorter: memory is out";
	case SETTING_FLAG:
		return flag_parse(text, place) ? NULL : "yes or no";
	case SETTING_BYTES:
		if (!size_parse(text, &bytes) || !is_between(setting, (double)bytes))
			return "a size as 256M or 2G, within its bounds";
		*(uint64_t *)place = bytes;
		return NULL;
	case SETTING_NUMBER:
		if (!unit_number_parse(text, '\0', &number) || !is_between(setting, number) ||
			number != (double)(uint64_t)number)
			return "a whole number within its bounds";
		*(uint64_t *)place = (uint64_t)number;
		return NULL;
	case SETTING_SECONDS:
		if (!seconds_parse(text, place) || !is_between(setting, *(double *)place))
			return "a time as 30s, 5m, 2h or 14d, within its bounds";
		return NULL;
	case SETTING_PERCENT:
		if (!unit_number_parse(text, '%', place) || !is_between(setting, *(double *)place))
			return "a percentage from 0 to 100";
		return NULL;
	}
	return "something else";
}

/* --- the file ---------------------------------------------------------------------------- */

/* Called for each setting; 0 ends the reading at its line. */
static int setting_take(void *context, const char *section, const char *name, const char *value)
{
	struct reading *reading = context;
	bool known_section = false;

	for (size_t index = 0; index < SETTING_COUNT; index++) {
		const struct setting *setting = &settings[index];
		const char *wanted;

		known_section |= !strcmp(setting->section, section);
		if (strcmp(setting->section, section) || strcmp(setting->name, name))
			continue;
		if (reading->given[index]) {
			fault_set(reading, "%s is given twice in [%s]", name, section);
			return 0;
		}
		reading->given[index] = true;
		wanted = value_store(setting, value, reading->config);
		if (wanted)
			fault_set(reading, "%s is %s, not %.100s", name, wanted, *value ? value : "nothing");
		return wanted == NULL;
	}
	if (known_section)
		fault_set(reading, "there is no setting %.100s in [%s]", name, section);
	else
		fault_set(
			reading, "there is no section [%.100s]; there are agent, metrics, store and captures", section);
	return 0;
}

bool address_is_loopback(const char *address)
{
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, address, &four) == 1)
		return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_address(const char *address)
{
	struct in6_addr six;
	struct in_addr four;

	return inet_pton(AF_INET, address, &four) == 1 || inet_pton(AF_INET6, address, &six) == 1;
}

/* NULL, or what does not go together. */
static const char *config_check(const struct agent_config *config)
{
	if (*config->address && !is_address(config->address))
		return "address in [metrics] is an address as 127.0.0.1 or ::1, or empty for no endpoint";
	if (!*config->certificate != !*config->key)
		return "certificate and key in [metrics] go together";
	if (*config->address && !address_is_loopback(config->address) && !(*config->certificate && *config->token))
		return "an address in [metrics] that other machines reach needs certificate, key and token";
	if (config->ring_bytes & (config->ring_bytes - 1))
		return "ring-size in [agent] is a power of two";
	if (*config->captures && config->captures[0] != '/')
		return "folder in [captures] is a path from / on, or empty for none";
	return NULL;
}

static int usual_fill(struct reading *reading)
{
	for (size_t index = 0; index < SETTING_COUNT; index++)
		if (value_store(&settings[index], settings[index].usual, reading->config))
			return -ENOMEM;
	return 0;
}

int agent_config_read(const char *path, struct agent_config *config, char fault[CONFIG_FAULT_BYTES])
{
	struct reading reading = {.config = config, .fault = fault};
	const char *wrong;
	char reason[CONFIG_FAULT_BYTES];
	FILE *file;
	int line;

	*config = (struct agent_config){0};
	fault[0] = '\0';
	if (usual_fill(&reading)) {
		fault_set(&reading, "%s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	file = fopen(path, "re");
	if (!file) {
		int error = errno;

		fault_set(&reading, "cannot read %s: %s", path, strerror(error));
		return -error;
	}
	line = ini_parse_file(file, setting_take, &reading);
	fclose(file);
	if (line) {
		snprintf(reason, sizeof(reason), "%s", *fault ? fault : "this is no section, setting or comment");
		fault_set(&reading, "%s:%d: %.400s", path, line, reason);
		return -EINVAL;
	}
	wrong = config_check(config);
	if (wrong)
		fault_set(&reading, "%s: %s", path, wrong);
	return wrong ? -EINVAL : 0;
}

void agent_config_clear(struct agent_config *config)
{
	for (size_t index = 0; index < SETTING_COUNT; index++)
		if (settings[index].type == SETTING_TEXT)
			free(*(char **)((char *)config + settings[index].offset));
	*config = (struct agent_config){0};
}
