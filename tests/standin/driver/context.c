/*
 * Contexts: one for each device, which is its primary one and any other too. A thread
 * has a stack of them, as deep as tests need it.
 */
#include "driver.h"

#define STACK_MAX 8

static char contexts[STANDIN_DEVICES_MAX];
static __thread int below[STACK_MAX], depth;

static int device_of(const void *context)
{
	ptrdiff_t device = (const char *)context - contexts;
	return device >= 0 && device < standin_device_count() ? (int)device : -1;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = &contexts[device];
	return SUCCESS;
}

static int push(const void *context)
{
	if (device_of(context) < 0 || depth == STACK_MAX)
		return ERROR_INVALID_VALUE;
	below[depth++] = standin_current_device();
	standin_set_current_device(device_of(context));
	return SUCCESS;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
	return push(context);
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
	if (!depth)
		return ERROR_INVALID_VALUE;
	*context = &contexts[standin_current_device()];
	standin_set_current_device(below[--depth]);
	return SUCCESS;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	*context = &contexts[device];
	return push(*context);
}

EXPORT int cuCtxSetCurrent(void *context)
{
	if (device_of(context) < 0)
		return ERROR_INVALID_VALUE;
	standin_set_current_device(device_of(context));
	return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context)
{
	*context = &contexts[standin_current_device()];
	return SUCCESS;
}
