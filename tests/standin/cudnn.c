/* Stand-in for libcudnn.so.9: a version and a handle. Convolutions need torch.backends.cudnn.enabled = False. */
#include "standin.h"

#define CUDNN_VERSION 90000

EXPORT size_t cudnnGetVersion(void)
{
	return CUDNN_VERSION;
}

EXPORT size_t cudnnGetCudartVersion(void)
{
	return STANDIN_CUDA_VERSION;
}

EXPORT int cudnnCreate(void **handle)
{
	*handle = STANDIN_HANDLE;
	return 0;
}

EXPORT const char *cudnnGetErrorString(int error)
{
	return "error of the stand-in cuDNN";
}
