/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of modules in the memory report. */
#include "containers/containers.h"
#include "modules.h"
#include "text.h"

/* Bytes by category of the devices that are reported, without what is 0. */
static void put_state(struct json *json, const struct rank *rank, const struct snapshot *devices)
{
	json_object(json);
	for (size_t i = 0; i < arrlenu(rank->devices); i++) {
		if (!rank->devices[i].reported)
			continue;
		json_key(json, rank->devices[i].name);
		json_object(json);
		for (size_t category = 0; category < CATEGORIES; category++)
			if (devices[i].category[categories_sorted[category]])
				json_put_unsigned(json, category_name(categories_sorted[category]),
					devices[i].category[categories_sorted[category]]);
		json_object_end(json);
	}
	json_object_end(json);
}

static void put_states(struct json *json, const struct rank *rank, const struct module_total *module)
{
	json_key(json, "snapshots");
	json_object(json);
	for (int state = 0; state < MODULE_STATES; state++) {
		size_t count = arrlenu(module->snapshots[state]);

		if (!count)
			continue;
		json_key(json, module_state_name(state));
		json_array(json);
		for (size_t at = 0; at < count; at += arrlenu(rank->devices))
			put_state(json, rank, &module->snapshots[state][at]);
		json_array_end(json);
	}
	json_object_end(json);
}

void put_modules(struct json *json, const struct rank *rank)
{
	struct module_total *modules = modules_total(rank);

	json_key(json, "modules");
	if (!arrlenu(modules)) {
		json_raw(json, "[]", 2);
		return;
	}
	json_array(json);
	for (size_t i = 0; i < arrlenu(modules); i++) {
		json_object(json);
		json_put_unsigned(json, "buffer_bytes", modules[i].buffer_bytes);
		json_put_unsigned(json, "calls", modules[i].calls);
		json_put_text(json, "fqn", modules[i].name);
		json_put_unsigned_if(json, "input_bytes", modules[i].calls, modules[i].input_bytes);
		json_put_unsigned(json, "local_peak_bytes", modules[i].local_peak_bytes);
		json_put_unsigned(json, "operators", modules[i].operators);
		json_put_unsigned_if(json, "output_bytes", modules[i].calls, modules[i].output_bytes);
		json_put_unsigned(json, "parameter_bytes", modules[i].parameter_bytes);
		put_states(json, rank, &modules[i]);
		json_object_end(json);
	}
	json_array_end(json);
	modules_free(modules);
}
