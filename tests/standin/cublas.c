/* Stand-in for libcublas.so.12: handles; products are not computed. */
#include "standin.h"

EXPORT int cublasCreate_v2(void **handle)
{
	*handle = STANDIN_HANDLE;
	return 0;
}

EXPORT int cublasGetMathMode(void *handle, int *mode)
{
	*mode = 0; /* CUBLAS_DEFAULT_MATH */
	return 0;
}

EXPORT int cublasGetPointerMode_v2(void *handle, int *mode)
{
	*mode = 0; /* CUBLAS_POINTER_MODE_HOST */
	return 0;
}
