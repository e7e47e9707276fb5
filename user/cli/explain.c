// SPDX-License-Identifier: BSD-2-Clause
/* `hdtrace explain`: what stands out in a trace, in words, and whether the job fits on another device. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cli/cli.h"
#include "containers/containers.h"
#include "report/findings_json.h"
#include "report/findings_text.h"

enum option_key { KEY_JSON = 'j', KEY_DEVICE_MEMORY = KEY_VERB };

struct arguments {
	struct model_options model;
	struct finding_options findings;
	const char **inputs; /* stb_ds */
	bool json;
};

static error_t option_parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_JSON:
		arguments->json = true;
		return 0;
	case KEY_DEVICE:
		if (!device_choice_parse(text, &arguments->model.devices))
			argp_error(state, "--device is auto, all or a list as cpu,cuda:1,npu,pinned, not %s", text);
		return 0;
	case KEY_DEVICE_MEMORY:
		if (!size_parse(text, &arguments->findings.device_bytes) || !arguments->findings.device_bytes)
			argp_error(state, "--device-memory is a size as 40G or 24576M, not %s", text);
		return 0;
	case ARGP_KEY_ARG:
		arrput(arguments->inputs, text);
		return 0;
	case ARGP_KEY_END:
		if (!arrlenu(arguments->inputs))
			argp_error(state, "which trace? give its capture, or the folder that holds it");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int json_print(const struct finding *findings)
{
	struct json json;
	int error = json_begin(&json, stdout);

	if (error)
		return error;
	put_explanation(&json, findings);
	return json_end(&json);
}

static void ranks_tell(const struct rank *const *ranks)
{
	for (size_t i = 0; i < arrlenu(ranks); i++)
		if (!report_has_data(ranks[i]))
			fprintf(stderr, "hdtrace: rank %d: no memory was seen, nothing can be said of it\n",
				ranks[i]->rank);
}

static int explain(const struct arguments *arguments, char **captures)
{
	int status, error;
	struct model *model =
		captures_read((const char *const *)captures, arrlenu(captures), &arguments->model, &status);
	const struct rank **ranks;
	struct finding *findings;

	if (!model)
		return status;
	ranks = model_ranks(model);
	findings = findings_find(ranks, arrlenu(ranks), &arguments->findings);
	ranks_tell(ranks);
	error = arguments->json ? json_print(findings) : findings_write(stdout, findings);
	if (status == STATUS_LOST)
		fprintf(stderr, "hdtrace: the trace is incomplete: what is said of it may be wrong\n");
	findings_free(findings);
	arrfree(ranks);
	model_free(model);
	/* main tells what went wrong with standard output. */
	return error && errno != EPIPE ? STATUS_FAILED : status;
}

int verb_explain(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", KEY_JSON, NULL, 0, "for programs", 0},
		{"device", KEY_DEVICE, "LIST", 0, "devices to explain: auto, all, or names as cuda:0,cpu", 0},
		{"device-memory", KEY_DEVICE_MEMORY, "SIZE", 0, "does it fit on devices of that size (40G)?", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.args_doc = "CAPTURE|FOLDER...",
		.doc = "Tell what stands out in a trace: what makes the peak, what is held for nothing, what grows.",
	};
	struct arguments arguments = {0};
	int status = STATUS_FAILED;
	char **captures;

	argv[0] = "hdtrace explain";
	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments)) {
		arrfree(arguments.inputs);
		return STATUS_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	captures = captures_name(arguments.inputs, arrlenu(arguments.inputs));
	if (captures)
		status = explain(&arguments, captures);
	captures_free(captures);
	arrfree(arguments.inputs);
	return status;
}
