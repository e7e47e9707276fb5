// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables. Sources: nccl.h (2.28), hccl_types.h (CANN 8), mpi.h of MPICH 4.0 and
 * Open MPI 4.1. Bytes are those of the data, without padding between elements.
 * A Fortran type is what compilers make of it without options.
 */
#include "probe/library_handles.h"

/* c10::ScalarType (c10/core/ScalarType.h), of those that libraries have too. */
enum scalar {
	UINT8 = 0,
	INT8 = 1,
	INT16 = 2,
	INT32 = 3,
	INT64 = 4,
	FLOAT16 = 5,
	FLOAT32 = 6,
	FLOAT64 = 7,
	COMPLEX64 = 9,
	COMPLEX128 = 10,
	BOOL = 11,
	BFLOAT16 = 15,
	FLOAT8_E5M2 = 23,
	FLOAT8_E4M3 = 24,
	UINT16 = 27,
	UINT32 = 28,
	UINT64 = 29,
};

#define TYPE(number_, meaning_, bytes_)                                                                                \
	{                                                                                                              \
		.number = (number_), .kind = HANDLE_TYPE, .meaning = (meaning_), .bytes = (bytes_)                     \
	}
#define OPERATION(number_, meaning_)                                                                                   \
	{                                                                                                              \
		.number = (number_), .kind = HANDLE_OPERATION, .meaning = OPERATION_##meaning_                         \
	}
#define NAMED_TYPE(name, meaning_, bytes_)                                                                             \
	{                                                                                                              \
		.symbol = "ompi_mpi_" name, .kind = HANDLE_TYPE, .meaning = (meaning_), .bytes = (bytes_)              \
	}
#define NAMED_OPERATION(name, meaning_)                                                                                \
	{                                                                                                              \
		.symbol = "ompi_mpi_op_" name, .kind = HANDLE_OPERATION, .meaning = OPERATION_##meaning_               \
	}

/* Any other operation was made by the program (ncclRedOpCreatePreMulSum). */
static const struct library_handle nccl[] = {
	TYPE(0, INT8, 1),
	TYPE(1, UINT8, 1),
	TYPE(2, INT32, 4),
	TYPE(3, UINT32, 4),
	TYPE(4, INT64, 8),
	TYPE(5, UINT64, 8),
	TYPE(6, FLOAT16, 2),
	TYPE(7, FLOAT32, 4),
	TYPE(8, FLOAT64, 8),
	TYPE(9, BFLOAT16, 2),
	TYPE(10, FLOAT8_E4M3, 1),
	TYPE(11, FLOAT8_E5M2, 1),
	OPERATION(0, SUM),
	OPERATION(1, PRODUCT),
	OPERATION(2, MAX),
	OPERATION(3, MIN),
	OPERATION(4, AVERAGE),
};

static const struct library_handle hccl[] = {
	TYPE(0, INT8, 1),
	TYPE(1, INT16, 2),
	TYPE(2, INT32, 4),
	TYPE(3, FLOAT16, 2),
	TYPE(4, FLOAT32, 4),
	TYPE(5, INT64, 8),
	TYPE(6, UINT64, 8),
	TYPE(7, UINT8, 1),
	TYPE(8, UINT16, 2),
	TYPE(9, UINT32, 4),
	TYPE(10, FLOAT64, 8),
	TYPE(11, BFLOAT16, 2),
	TYPE(12, ELEMENT_INT128, 16),
	OPERATION(0, SUM),
	OPERATION(1, PRODUCT),
	OPERATION(2, MAX),
	OPERATION(3, MIN),
};

static const struct library_handle mpich[] = {
	TYPE(0x4c00010d, UINT8, 1),
	TYPE(0x4c00010f, UINT8, 1),
	TYPE(0x4c000101, INT8, 1),
	TYPE(0x4c000118, INT8, 1),
	TYPE(0x4c000102, UINT8, 1),
	TYPE(0x4c00040e, INT32, 4),
	TYPE(0x4c000203, INT16, 2),
	TYPE(0x4c000204, UINT16, 2),
	TYPE(0x4c000405, INT32, 4),
	TYPE(0x4c000406, UINT32, 4),
	TYPE(0x4c000807, INT64, 8),
	TYPE(0x4c000808, UINT64, 8),
	TYPE(0x4c000809, INT64, 8),
	TYPE(0x4c000819, UINT64, 8),
	TYPE(0x4c00040a, FLOAT32, 4),
	TYPE(0x4c00080b, FLOAT64, 8),
	TYPE(0x4c00100c, ELEMENT_LONG_DOUBLE, 16),
	TYPE(0x4c000137, INT8, 1),
	TYPE(0x4c000238, INT16, 2),
	TYPE(0x4c000439, INT32, 4),
	TYPE(0x4c00083a, INT64, 8),
	TYPE(0x4c00013b, UINT8, 1),
	TYPE(0x4c00023c, UINT16, 2),
	TYPE(0x4c00043d, UINT32, 4),
	TYPE(0x4c00083e, UINT64, 8),
	TYPE(0x4c000843, INT64, 8),
	TYPE(0x4c000844, INT64, 8),
	TYPE(0x4c000845, INT64, 8),
	TYPE(0x4c00013f, BOOL, 1),
	TYPE(0x4c000133, BOOL, 1),
	TYPE(0x4c000840, COMPLEX64, 8),
	TYPE(0x4c001041, COMPLEX128, 16),
	TYPE(0x4c002042, ELEMENT_LONG_DOUBLE_COMPLEX, 32),
	TYPE(0x4c000834, COMPLEX64, 8),
	TYPE(0x4c001035, COMPLEX128, 16),
	TYPE(0x4c002036, ELEMENT_LONG_DOUBLE_COMPLEX, 32),
	TYPE(0x8c000000, ELEMENT_FLOAT_INT, 8),
	TYPE(0x8c000001, ELEMENT_DOUBLE_INT, 12),
	TYPE(0x8c000002, ELEMENT_LONG_INT, 12),
	TYPE(0x8c000003, ELEMENT_SHORT_INT, 6),
	TYPE(0x4c000816, ELEMENT_INT_INT, 8),
	TYPE(0x8c000004, ELEMENT_LONG_DOUBLE_INT, 20),
	TYPE(0x4c00011a, INT8, 1),
	TYPE(0x4c00041b, INT32, 4),
	TYPE(0x4c00041c, FLOAT32, 4),
	TYPE(0x4c00081f, FLOAT64, 8),
	TYPE(0x4c00081e, COMPLEX64, 8),
	TYPE(0x4c001022, COMPLEX128, 16),
	TYPE(0x4c00041d, INT32, 4),
	TYPE(0x4c000820, ELEMENT_INT_INT, 8),
	TYPE(0x4c000821, ELEMENT_FLOAT_FLOAT, 8),
	TYPE(0x4c001023, ELEMENT_DOUBLE_DOUBLE, 16),
	TYPE(0x4c00012d, INT8, 1),
	TYPE(0x4c00022f, INT16, 2),
	TYPE(0x4c000430, INT32, 4),
	TYPE(0x4c000831, INT64, 8),
	TYPE(0x4c000427, FLOAT32, 4),
	TYPE(0x4c000829, FLOAT64, 8),
	TYPE(0x4c000828, COMPLEX64, 8),
	TYPE(0x4c00102a, COMPLEX128, 16),
	TYPE(0x4c000246, FLOAT16, 2),
	OPERATION(0x58000001, MAX),
	OPERATION(0x58000002, MIN),
	OPERATION(0x58000003, SUM),
	OPERATION(0x58000004, PRODUCT),
	OPERATION(0x58000005, LAND),
	OPERATION(0x58000006, BAND),
	OPERATION(0x58000007, LOR),
	OPERATION(0x58000008, BOR),
	OPERATION(0x58000009, LXOR),
	OPERATION(0x5800000a, BXOR),
	OPERATION(0x5800000b, MINLOC),
	OPERATION(0x5800000c, MAXLOC),
	OPERATION(0x5800000d, REPLACE),
	OPERATION(0x5800000e, NO_OP),
	{.number = 0x44000000, .kind = HANDLE_WORLD},
	{.number = 0x44000001, .kind = HANDLE_SELF},
};

static const struct library_handle open_mpi[] = {
	NAMED_TYPE("byte", UINT8, 1),
	NAMED_TYPE("packed", UINT8, 1),
	NAMED_TYPE("char", INT8, 1),
	NAMED_TYPE("signed_char", INT8, 1),
	NAMED_TYPE("unsigned_char", UINT8, 1),
	NAMED_TYPE("wchar", INT32, 4),
	NAMED_TYPE("short", INT16, 2),
	NAMED_TYPE("unsigned_short", UINT16, 2),
	NAMED_TYPE("int", INT32, 4),
	NAMED_TYPE("unsigned", UINT32, 4),
	NAMED_TYPE("long", INT64, 8),
	NAMED_TYPE("unsigned_long", UINT64, 8),
	NAMED_TYPE("long_long_int", INT64, 8),
	NAMED_TYPE("unsigned_long_long", UINT64, 8),
	NAMED_TYPE("float", FLOAT32, 4),
	NAMED_TYPE("double", FLOAT64, 8),
	NAMED_TYPE("long_double", ELEMENT_LONG_DOUBLE, 16),
	NAMED_TYPE("int8_t", INT8, 1),
	NAMED_TYPE("int16_t", INT16, 2),
	NAMED_TYPE("int32_t", INT32, 4),
	NAMED_TYPE("int64_t", INT64, 8),
	NAMED_TYPE("uint8_t", UINT8, 1),
	NAMED_TYPE("uint16_t", UINT16, 2),
	NAMED_TYPE("uint32_t", UINT32, 4),
	NAMED_TYPE("uint64_t", UINT64, 8),
	NAMED_TYPE("aint", INT64, 8),
	NAMED_TYPE("offset", INT64, 8),
	NAMED_TYPE("count", INT64, 8),
	NAMED_TYPE("c_bool", BOOL, 1),
	NAMED_TYPE("cxx_bool", BOOL, 1),
	NAMED_TYPE("c_complex", COMPLEX64, 8),
	NAMED_TYPE("c_float_complex", COMPLEX64, 8),
	NAMED_TYPE("c_double_complex", COMPLEX128, 16),
	NAMED_TYPE("c_long_double_complex", ELEMENT_LONG_DOUBLE_COMPLEX, 32),
	NAMED_TYPE("cxx_cplex", COMPLEX64, 8),
	NAMED_TYPE("cxx_dblcplex", COMPLEX128, 16),
	NAMED_TYPE("cxx_ldblcplex", ELEMENT_LONG_DOUBLE_COMPLEX, 32),
	NAMED_TYPE("float_int", ELEMENT_FLOAT_INT, 8),
	NAMED_TYPE("double_int", ELEMENT_DOUBLE_INT, 12),
	NAMED_TYPE("long_int", ELEMENT_LONG_INT, 12),
	NAMED_TYPE("short_int", ELEMENT_SHORT_INT, 6),
	NAMED_TYPE("2int", ELEMENT_INT_INT, 8),
	NAMED_TYPE("longdbl_int", ELEMENT_LONG_DOUBLE_INT, 20),
	NAMED_TYPE("character", INT8, 1),
	NAMED_TYPE("integer", INT32, 4),
	NAMED_TYPE("real", FLOAT32, 4),
	NAMED_TYPE("dblprec", FLOAT64, 8),
	NAMED_TYPE("cplex", COMPLEX64, 8),
	NAMED_TYPE("dblcplex", COMPLEX128, 16),
	NAMED_TYPE("logical", INT32, 4),
	NAMED_TYPE("2integer", ELEMENT_INT_INT, 8),
	NAMED_TYPE("2real", ELEMENT_FLOAT_FLOAT, 8),
	NAMED_TYPE("2dblprec", ELEMENT_DOUBLE_DOUBLE, 16),
	NAMED_TYPE("integer1", INT8, 1),
	NAMED_TYPE("integer2", INT16, 2),
	NAMED_TYPE("integer4", INT32, 4),
	NAMED_TYPE("integer8", INT64, 8),
	NAMED_TYPE("real4", FLOAT32, 4),
	NAMED_TYPE("real8", FLOAT64, 8),
	NAMED_TYPE("complex8", COMPLEX64, 8),
	NAMED_TYPE("complex16", COMPLEX128, 16),
	NAMED_OPERATION("max", MAX),
	NAMED_OPERATION("min", MIN),
	NAMED_OPERATION("sum", SUM),
	NAMED_OPERATION("prod", PRODUCT),
	NAMED_OPERATION("land", LAND),
	NAMED_OPERATION("band", BAND),
	NAMED_OPERATION("lor", LOR),
	NAMED_OPERATION("bor", BOR),
	NAMED_OPERATION("lxor", LXOR),
	NAMED_OPERATION("bxor", BXOR),
	NAMED_OPERATION("minloc", MINLOC),
	NAMED_OPERATION("maxloc", MAXLOC),
	NAMED_OPERATION("replace", REPLACE),
	NAMED_OPERATION("no_op", NO_OP),
	{.symbol = OPEN_MPI_SYMBOL, .kind = HANDLE_WORLD},
	{.symbol = "ompi_mpi_comm_self", .kind = HANDLE_SELF},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

const struct library_handle *library_handles(enum handle_family family, size_t *count)
{
	switch (family) {
	case HANDLES_NCCL:
		*count = COUNT(nccl);
		return nccl;
	case HANDLES_HCCL:
		*count = COUNT(hccl);
		return hccl;
	case HANDLES_MPICH:
		*count = COUNT(mpich);
		return mpich;
	case HANDLES_OPEN_MPI:
		*count = COUNT(open_mpi);
		return open_mpi;
	}
	*count = 0;
	return NULL;
}

const struct library_handle *library_handle_find(enum handle_family family, enum handle_kind kind, uint64_t number)
{
	size_t count;
	const struct library_handle *handles = library_handles(family, &count);

	for (size_t index = 0; family != HANDLES_OPEN_MPI && index < count; index++)
		if (handles[index].kind == kind && handles[index].number == number)
			return &handles[index];
	return NULL;
}

/* A basic type has 0x4c in the highest byte, and its bytes in the second lowest. */
uint8_t library_mpich_bytes(uint64_t type)
{
	return type >> 24 == 0x4c ? (uint8_t)(type >> 8) : 0;
}
