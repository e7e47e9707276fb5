/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Takes probes away on threads of its own. The kernel waits for grace periods
 * when a link is closed, some 50 ms each time: a trace must not stand still for
 * that while other targets go on, and links that are closed together share the wait.
 */
#ifndef HDTRACE_ATTACH_DETACHER_H
#define HDTRACE_ATTACH_DETACHER_H

struct bpf_link;
struct detacher;

struct detacher *detacher_new(void); /* NULL: no memory */

/* Close a link soon. It belongs to the detacher from now on. */
void detacher_put(struct detacher *detacher, struct bpf_link *link);

/* Until every link is closed. */
void detacher_wait(struct detacher *detacher);

/* Waits first; accepts NULL. */
void detacher_free(struct detacher *detacher);

#endif
