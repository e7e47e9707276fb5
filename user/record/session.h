/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One recording: the programs, the capture, the targets. The parts of
 * user/record/ share it; the command line only sees recorder.h.
 */
#ifndef HDTRACE_RECORD_SESSION_H
#define HDTRACE_RECORD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <yajl/yajl_gen.h>

#include "attach/tracer.h"
#include "base/clock.h"
#include "model/model.h"
#include "probe/plan.h"
#include "python/code.h"
#include "record/recorder.h"
#include "replay/replay.h"
#include "stream/capture_writer.h"
#include "target/identity.h"
#include "target/maps.h"
#include "target/process.h"

/* A library file that was planned; processes that map the same inode share it. */
struct planned_library {
	uint64_t device, inode;
	int64_t size, changed_ns;  /* of the inode: its number may become another file's */
	struct library_plan *plan; /* NULL: it could not be planned */
	int first_hook[HOOK_SETS]; /* index of a set's first description, -1: not given to the programs yet */
};

/* A name of the guessed target, by its index there. */
struct guessed_name {
	uint16_t index;
	const char *name; /* of the catalogue */
};

/*
 * A command may start the program that it names as a child, which cannot be probed
 * before it is there. So what it is going to map is probed for all processes, of which
 * the programs take the descendants of the command: all comes under its target, and is
 * given to the one of its process (guess.c).
 */
struct guess {
	const struct library_plan **plans; /* stb_ds: probed so */
	struct guessed_name *names;        /* stb_ds */
	const struct target *root;         /* the command; NULL: there is no such guess */
	uint64_t dropped;                  /* records of processes that had ended */
	bool laying;                       /* what is probed now is for all */
};

/* What `self` is in the frames of a code object. */
enum code_role { CODE_PLAIN, CODE_MODULE_CALL, CODE_STEP };

/* A code object that the capture already has. */
struct known_code {
	uint64_t key; /* address */
	enum code_role value;
};

/* An operator that is known by the address of its definition: its index. */
struct invoked_operator {
	uint64_t key;
	uint16_t value;
};

/* A native address that the capture has the symbol of; value: a probe stands there. */
struct known_symbol {
	uint64_t key;
	bool value;
};

/* A handle of a library of collectives, by its value in the target. */
struct known_handle {
	uint64_t key;
	const struct library_handle *value;
};

struct target {
	struct process process;
	struct identity identity;
	int32_t parent; /* index of the target that started it, directly or not; -1: none */
	uint16_t index;
	uint16_t extra_names; /* names given out by target_name_add */
	bool candidate;       /* a child that may turn out to train; no target yet */
	bool forked;          /* without an exec since: it has PyTorch from its parent */
	bool trained;         /* it ran a backward pass or a collective */
	bool scanned;         /* its maps were read at least once */
	bool maps_stale;      /* something was mapped since */
	bool announced;       /* the capture has its CAPTURE_TARGET record */
	bool from_start;      /* what is traced was mapped after we came */
	bool ahead;           /* probes were set for what its exec will map */
	bool guessed;         /* that may be the exec after another one, or never come */
	bool ended;
	bool handles_read;  /* of LIBRARY_MPI */
	bool torch_ready;   /* PyTorch is mapped, and probed with its layouts */
	bool torch_checked; /* PyTorch was looked at in the process */
	bool torch_refused; /* it is not as its files say: no operators */
	bool probed[LIBRARY_ROLES];
	uint64_t driver_inode;            /* of the driver that was probed before it is mapped; 0: none */
	bool boxed_probed[LIBRARY_ROLES]; /* kernels with arguments on a stack, in that library */
	int return_probes;
	int operator_link; /* of tracer_attach */
	enum hook_set_kind hook_set;
	uint64_t awaited_inode; /* of the program that it was probed ahead for */
	uint64_t image_time_ns; /* what it executes was found out then: execs before are known, 0: not so */
	uint64_t scan_time_ns;  /* when its maps were read last; of a candidate: when it became one */
	uint64_t attach_time_ns, end_time_ns;
	uint64_t received; /* records from the ring */
	uint64_t lost_code, lost_capture;
	uint64_t inference_gap_ns; /* how long operators in inference mode were missed, 0: not at all */
	struct target_settings settings;
	const struct library_plan *libraries[LIBRARY_ROLES];
	char *library_paths[LIBRARY_ROLES];
	uint64_t bias[LIBRARY_ROLES];
	struct python_types types;
	int *links;                     /* stb_ds */
	int *host_links;                /* stb_ds: those for blocks of the host, which come and go (host.c) */
	int *hooks;                     /* stb_ds: descriptions of its own, of tracer_hooks_add */
	pid_t *fork_children;           /* stb_ds: children that did not exec; they have PyTorch, but are not traced */
	struct known_code *codes;       /* stb_ds hash map */
	struct target_objects *objects; /* of objects.c; NULL: none were met */
	struct target_inputs *inputs;   /* of inputs.c; NULL: no module was met */
	struct target_peak *peak;       /* of peaks.c; NULL: nothing was allocated */
	struct invoked_operator *invoked; /* stb_ds hash map */
	struct known_symbol *symbols;     /* stb_ds hash map */
	struct known_symbol *callers; /* stb_ds hash map: inodes that were looked at for calls of devices' libraries */
	struct known_handle *handles; /* stb_ds hash map: of Open MPI */
	uint16_t *guessed_names;      /* stb_ds: its own indices of guess.names, 0: none yet */
	struct mapped_file *files;    /* as they were when symbols.c looked last; NULL: never */
};

struct session {
	const struct record_options *options;
	struct tracer *tracer;
	struct capture_writer *capture;    /* NULL until there is something to keep: an older one stays until then */
	int capture_error;                 /* the first that writing met */
	struct planned_library *libraries; /* stb_ds */
	struct symbol_file *symbol_files;  /* stb_ds */
	struct target **targets;           /* stb_ds; targets[i]->index == i */
	struct guess guess;
	struct target **candidates; /* stb_ds: children of targets that do not train (yet) */
	/* Counting steps while recording, only where --steps asks for it. */
	struct model *model;
	struct replay *replay;
	int steps_error;         /* the first that counting met */
	uint64_t refused;        /* targets for which there was no place */
	uint64_t records, bytes; /* received from the ring */
	uint64_t wake_ups;       /* by the ring, of the reader */
};

/* What a sink knows a session by. */
struct recording {
	struct session *session;
	uint64_t read_ns; /* before the ring was read */
};

/* To a person, on stderr or to the sink; nothing when --quiet, but what is wrong. */
void session_tell(const struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));
void session_warn(const struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Note the first error that writing the capture met; the target's, unless it is NULL. */
void capture_check(struct session *session, struct target *target, int error);
/* Keep a record in the capture. */
void session_keep(struct session *session, struct target *target, const struct event *record);
void session_keep_code(struct session *session, struct target *target, const struct python_code *code);
void session_keep_losses(struct session *session);
/* Give a name that is no operator's of at::_ops an index of its own; a negative errno when there is no room. */
int target_name_add(struct session *session, struct target *target, const char *name, uint32_t flags);
int target_describe(struct session *session, struct target *target); /* CAPTURE_TARGET and the names */
/* The trace of a target ends here: what still comes does not count, and does not fill the ring. */
void target_quiet(struct session *session, struct target *target);
void target_end(struct session *session, struct target *target, const char *reason); /* CAPTURE_END */

/* python.c: what the programs must know of the target's interpreter; what does not fit is told and left out. */
void python_settings(const struct session *session, struct target *target);
/* Where its main thread stands, innermost frame first; stb_ds, to be given to recording_stand_free. */
struct frame *python_stand(struct target *target);
/* Is it a process that a data loader of its parent forked, to load data only? */
bool python_is_loader(const struct target *parent, struct target *child);

/* codes.c: the capture has every code object of a stack before the stack. */
void code_take(struct session *session, struct target *target, const struct code_event *copy, size_t size);
void codes_keep(struct session *session, struct target *target, const struct event *record);
void codes_forget(struct target *target);

/*
 * objects.c: the capture has the names of the modules of a stack before the stack, and what Python holds storages by.
 * objects_follow reads all objects where that is due, objects_walk_last does so now; owners_keep puts into the
 * capture what was read before `time_ns`, until when all events must be there.
 */
enum code_role code_role_of(const struct python_code *code);
void objects_meet(struct session *session, struct target *target, const struct event *record);
void objects_walk_last(struct session *session, struct target *target);
/* Read all objects while a record is at hand, since what they hold is about to go. */
void objects_walk_now(struct session *session, struct target *target);
/* More memory is held than ever before: who holds it is to be read soon. */
void objects_want_peak(struct target *target);
/* Was the last look at the objects whole? -1: there was none. */
int objects_whole(const struct target *target);
/* The same where the last record of a target is at hand, and what it held goes into the capture. */
void objects_walk_end(struct session *session, struct target *target);
void objects_follow(struct session *session, struct target *target);
void owners_keep(struct session *session, struct target *target, uint64_t time_ns);
void objects_forget(struct target *target);

/*
 * inputs.c: what the outermost modules are called with. A look is due now and then; what was found is put as the
 * member "inputs" of an open object.
 */
void inputs_add_root(struct target *target, uint64_t object, const char *class);
void inputs_look(struct target *target, uint64_t now);
/* Nothing is traced any more: look for what is not known yet of any target, for a second at most. */
void inputs_wait(struct session *session);
void inputs_put(yajl_gen json, const struct target *target);
void inputs_forget(struct target *target);

/* When those objects began to be read that the sink has all owners of, and nothing else; 0: never, or not all. */
uint64_t objects_told_ns(const struct target *target);
/* Read all objects as soon as that may be. */
void objects_want(struct target *target);

/* peaks.c: follows how much a target holds, and tells objects.c of a new peak. */
void peak_follow(struct target *target, const struct event *record);
void peak_forget(struct target *target);

/*
 * reuse.c, for a recording that stays: the place of a target that is gone for good, for another whose parent has that
 * index (-1: none), or NULL; and the hooks of libraries that no target has any more, which are planned again when they
 * come back.
 */
struct target *target_place_find(struct session *session, int32_t parent);
void libraries_reclaim(struct session *session);

/* symbols.c: the capture has what lies at the native addresses of a record. */
void symbols_keep(struct session *session, struct target *target, const struct event *record);
/* A kernel's name becomes the symbol of its handle. `size`: bytes of the record. */
void kernel_name_keep(struct session *session, struct target *target, const struct kernel_event *record, size_t size);
void symbols_forget(struct target *target);
/* No address is being looked up: files beyond a number are closed, where a recording stays. */
void symbol_files_trim(struct session *session);
void symbol_files_free(struct session *session);
/* A mapped file, kept open; NULL: it cannot be read. */
const struct elf_file *symbol_elf_of(struct session *session, pid_t pid, const struct mapped_file *file);

/*
 * library.c: what the handles of libraries of collectives mean. They are read while the library is being mapped, and
 * filled into a copy of each record; NULL: it is none.
 */
struct library_buffer {
	struct library_collective_event head;
	uint64_t splits[2 * EVENT_SPLITS_MAX];
	struct python_frame frames[EVENT_FRAMES_MAX];
};
int library_handles_read(struct session *session, struct target *target, const struct mapped_file *files);
void library_handles_forget(struct target *target);
const struct event *library_translate(
	const struct target *target, const struct library_collective_event *record, struct library_buffer *buffer);

/* invoked.c: an ordinary operator record made of one that names a definition, in `buffer`; NULL without a name. */
struct operator_buffer {
	struct operator_event head;
	struct python_frame frames[EVENT_FRAMES_MAX];
};
const struct event *invoked_translate(struct session *session, struct target *target,
	const struct invoked_event *record, struct operator_buffer *buffer);
void invoked_forget(struct target *target);

/*
 * targets.c. A target is added by its pid: 0, or a negative errno. Scanning
 * looks at what it has mapped and probes what is new.
 */
int target_add(struct session *session, pid_t pid, struct target **target);
/* A child, or grandchild, of that target. */
int candidate_add(struct session *session, pid_t pid, int32_t parent);
/* The index of the target that a process is or belongs to; -1: of none. */
int32_t family_find(struct session *session, pid_t pid);
/* Children that are there already become candidates, and targets where they have PyTorch; -1: of no target. */
int children_add(struct session *session, pid_t pid, int32_t parent);
struct target *target_find(struct session *session, pid_t pid);
int target_scan(struct session *session, struct target *target);
/* Is a process with a library of this role a target, without PyTorch too? */
bool library_makes_target(enum library_role role);
/*
 * Probe the libraries that make a target which a command is going to map, before its exec, by the words of it (words.h,
 * as below). 0 or a negative errno.
 */
int target_probe_ahead(struct session *session, struct target *target, char *const *words);
/* Is the target executing a program that it was probed ahead for? Its execs before now are known then. */
bool target_is_awaited(struct target *target);
/* torch_ahead.c: make the plans of the PyTorch that a command is likely to map. */
int torch_plan_ahead(struct session *session, char *const *words);
/* The plan for a file, by its path; NULL: there is none. */
struct library_plan *library_plan_ahead(struct session *session, const char *path, enum library_role role);
/* Probe behind the calls of devices' libraries that a file without a role has. */
int caller_probe(struct session *session, struct target *target, const struct mapped_file *file);
int library_probe_ahead(
	struct session *session, struct target *target, const struct mapped_file *file, enum library_role role);
/* Set the probes of a file that the target has not mapped; a file that cannot be read as a library has none. */
int library_probe_unmapped(
	struct session *session, struct target *target, const struct mapped_file *file, enum library_role role);
/* NVIDIA's driver, as the runtime and PyTorch load it. */
#define DRIVER_NAME "libcuda.so.1"
/* driver_ahead.c: probe the driver that the PyTorch of a target is going to load. */
int driver_probe_ahead(struct session *session, struct target *target);
/* A candidate that maps PyTorch becomes a target. */
void candidate_scan(struct session *session, struct target *candidate);
/* Whatever it has mapped: it does what targets do. false: it is none all the same, and gone. */
bool candidate_take(struct session *session, struct target *candidate);

/* guess.c. May it be? Not where processes have other numbers for the kernel. */
bool guess_is_possible(void);
/* Are the probes of this program, that are set now, for all processes? */
bool guess_is_for_all(const struct session *session, enum program_kind program);
/* Are those of the plan there already, for all? */
bool guess_has(const struct session *session, const struct library_plan *plan, enum program_kind program);
/* A record under the guessed target as one of its own process, in `buffer`; NULL: that process is gone. */
const struct event *guess_translate(
	struct session *session, const struct segment_event *record, struct segment_event *buffer);

/* Tell what was found out about a library and not told yet: what is bad, and all when --verbose. */
void findings_tell(const struct session *session, struct library_plan *plan, const char *path);
const struct mapped_file *library_file_of(
	const struct mapped_file *files, const struct target *target, enum library_role role);
/* The number of the link, or a negative errno. */
int probes_set(struct session *session, struct target *target, const struct mapped_file *file,
	enum program_kind program, const uint64_t *offsets, const uint64_t *cookies, size_t count);
/* Those of a plan's points for one program, by one link, since each takes its time to detach. */
int points_probe_program(struct session *session, struct target *target, const struct mapped_file *file,
	const struct library_plan *plan, enum program_kind program);
/* Take away the probes of all links of a list; of one of target->links. */
void links_drop(struct session *session, int **links);
void link_drop(struct session *session, struct target *target, int link);
/* Take the probes off, and forget what was known of the process image. */
void target_forget_image(struct session *session, struct target *target);
void targets_free(struct session *session);

/* host.c: is it about blocks of the host, whose probes may be taken away for a while (recording_follow_host)? */
bool program_is_of_host(enum program_kind program);

/* statistics.c: where the time went, for --stats */
void statistics_tell(const struct session *session);

/* hooks.c: the sparse or the plain set of operator hooks, and the change to the latter. */
/* The planned library behind one of a target's, and behind its libtorch_cpu; NULL: it has none. */
struct planned_library *library_of(struct session *session, const struct target *target, enum library_role role);
struct planned_library *torch_of(struct session *session, const struct target *target);
int hook_set_choose(struct session *session, struct target *target);
/*
 * Look at PyTorch in the process, once, when it is loaded. If it is not as its
 * files say, that is told, and operators are not followed; returns whether it is.
 */
bool target_torch_check(struct session *session, struct target *target);
/* Probe a set of hooks of one of the target's libraries, which is mapped there. Returns the link or a negative errno.
 */
int hook_set_probe(struct session *session, struct target *target, const struct mapped_file *file,
	enum library_role role, enum hook_set_kind kind);
int operators_probe(struct session *session, struct target *target, const struct mapped_file *file);
/* Inference mode began at that time: only the plain set of hooks sees its operators. */
void target_use_plain(struct session *session, struct target *target, uint64_t since_ns);
/* Reads a target's memory; `context` is the target. */
int target_memory_read(void *context, uint64_t address, void *buffer, size_t length);

/* boxed.c: kernels that are called with their arguments on a stack, once PyTorch is loaded and checked. */
void boxed_probe(struct session *session, struct target *target);
/* The same of one that is loading PyTorch, as soon as its binding has been initialized, behind all other libraries. */
void boxed_probe_started(struct session *session, struct target *target);

#endif
