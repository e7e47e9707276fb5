/*
 * Stand-in for libcublasLt.so.12: descriptors, and a heuristic that always finds one
 * algorithm, without which PyTorch gives a product up. The descriptors of the library's
 * header are structures of the caller that an Init function fills: these need nothing.
 */
#include <string.h>

#include "standin.h"

#define HEURISTIC_RESULT_BYTES 96

EXPORT int cublasLtCreate(void **handle)
{
	*handle = STANDIN_HANDLE;
	return 0;
}

EXPORT int cublasLtMatmulDescCreate(void **descriptor, int compute_type, int scale_type)
{
	*descriptor = STANDIN_HANDLE;
	return 0;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **preference)
{
	*preference = STANDIN_HANDLE;
	return 0;
}

EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
	*layout = STANDIN_HANDLE;
	return 0;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d,
	void *preference, int wanted, void *results, int *found)
{
	memset(results, 0, HEURISTIC_RESULT_BYTES);
	*found = 1;
	return 0;
}
