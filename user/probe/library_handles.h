/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the handles of libraries of collectives mean: types of elements, reduce
 * operations, the communicators that are always there. Those of NCCL, HCCL and
 * MPICH are numbers, those of Open MPI addresses of objects that it exports.
 */
#ifndef HDTRACE_PROBE_LIBRARY_HANDLES_H
#define HDTRACE_PROBE_LIBRARY_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hdtrace/event.h>

/* Whose handles. */
enum handle_family { HANDLES_NCCL, HANDLES_HCCL, HANDLES_MPICH, HANDLES_OPEN_MPI };

enum handle_kind { HANDLE_TYPE, HANDLE_OPERATION, HANDLE_WORLD, HANDLE_SELF };

struct library_handle {
	const char *symbol; /* of HANDLES_OPEN_MPI */
	uint32_t number;    /* of the others */
	uint8_t kind;       /* enum handle_kind */
	uint8_t meaning;    /* enum collective_element or collective_operation */
	uint8_t bytes;      /* of an element */
};

const struct library_handle *library_handles(enum handle_family family, size_t *count);

/* The handle of that kind and number, NULL: unknown. Not for HANDLES_OPEN_MPI. */
const struct library_handle *library_handle_find(enum handle_family family, enum handle_kind kind, uint64_t number);

/* Bytes of one element of a type of MPICH that is none of the table's; 0: unknown. */
uint8_t library_mpich_bytes(uint64_t type);

/* An object that only Open MPI exports. */
#define OPEN_MPI_SYMBOL "ompi_mpi_comm_world"

#endif
