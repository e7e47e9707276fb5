/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shapes of the batch as HyperDryRun names them, `model_inputs` by argument. What
 * the loss gets besides is not a module's, and not known.
 */
#include "batch.h"

#include <string.h>

#include "model/model.h"

/* The inputs of the model, else of the module that was met first. */
static yajl_val inputs_of(yajl_val end, const char *model)
{
	yajl_val inputs = tree_get(end, "inputs"), first = NULL;

	for (size_t i = 0; YAJL_IS_ARRAY(inputs) && i < inputs->u.array.len; i++) {
		yajl_val root = inputs->u.array.values[i], tensors = tree_get(root, "tensors");
		const char *class = tree_text(root, "module");

		if (!YAJL_IS_ARRAY(tensors) || !tensors->u.array.len)
			continue;
		if (model && class && !strcmp(class, model))
			return tensors;
		first = first ? first : tensors;
	}
	return first;
}

static void input_put(struct json *json, yajl_val input)
{
	long long type = tree_number(input, "element_type");
	yajl_val shape = tree_get(input, "shape");

	json_key(json, tree_text(input, "argument"));
	json_object(json);
	json_put_text(json, "dtype", type >= 0 && type < UINT8_MAX ? element_type_name((uint8_t)type) : NULL);
	json_put_text(json, "layout", "strided");
	json_put_tree(json, "shape", YAJL_IS_ARRAY(shape) ? shape : NULL);
	json_object_end(json);
}

void batch_put(struct json *json, yajl_val end, const char *model)
{
	yajl_val inputs = inputs_of(end, model);

	json_key(json, "batch_shapes");
	if (!inputs) {
		json_null(json);
		return;
	}
	json_object(json);
	json_put_text(json, "loss_inputs", NULL);
	json_key(json, "model_inputs");
	json_object(json);
	for (size_t i = 0; i < inputs->u.array.len; i++)
		if (tree_text(inputs->u.array.values[i], "argument"))
			input_put(json, inputs->u.array.values[i]);
	json_object_end(json);
	json_object_end(json);
}
