// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/*
 * Life of the process. Its start, its exec and its exit are followed from user
 * space; only the moment at which the interpreter starts to tear down its
 * objects must be exactly in the order of events.
 */
#include "emit.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Py_FinalizeEx() */
SEC("uprobe.multi")
int interpreter_finalized(struct pt_regs *context)
{
	struct event record;
	struct hit hit;

	if (!hit_begin(&hit, context, bpf_get_attach_cookie(context)))
		return 0;
	event_fill(&record, &hit, EVENT_FINALIZE, sizeof(record), 0);
	event_send(&hit, &record, sizeof(record));
	return 0;
}
