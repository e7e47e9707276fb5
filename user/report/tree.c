/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree.h"

#include <stddef.h>

yajl_val tree_of(const char *text)
{
	return text ? yajl_tree_parse(text, NULL, 0) : NULL;
}

yajl_val tree_get(yajl_val tree, const char *key)
{
	const char *path[] = {key, NULL};

	return tree ? yajl_tree_get(tree, path, yajl_t_any) : NULL;
}

long long tree_number(yajl_val tree, const char *key)
{
	yajl_val value = tree_get(tree, key);

	return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : 0;
}

const char *tree_text(yajl_val tree, const char *key)
{
	return YAJL_GET_STRING(tree_get(tree, key));
}
