/* Stand-in for libcusparse.so.12: a handle. */
#include "standin.h"

EXPORT int cusparseCreate(void **handle)
{
	*handle = STANDIN_HANDLE;
	return 0;
}

EXPORT const char *cusparseGetErrorString(int error)
{
	return "error of the stand-in cuSPARSE";
}
