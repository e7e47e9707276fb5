/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of the JSON texts that a capture has of its targets. */
#ifndef HDTRACE_REPORT_TREE_H
#define HDTRACE_REPORT_TREE_H

#include <yajl/yajl_tree.h>

yajl_val tree_of(const char *text);                    /* NULL when it is NULL, or no JSON */
yajl_val tree_get(yajl_val tree, const char *key);     /* NULL when it is not there */
long long tree_number(yajl_val tree, const char *key); /* 0 unless it is an integer */
const char *tree_text(yajl_val tree, const char *key); /* NULL unless it is a string */

#endif
