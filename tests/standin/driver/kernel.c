/* The driver's kernels: any module has a kernel of any name but the empty one. */
#include "driver.h"

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
	static char handles[1 << 16];
	static unsigned next;

	if (!name[0])
		return ERROR_NOT_FOUND;
	*function = &handles[__atomic_fetch_add(&next, 16, __ATOMIC_RELAXED) % sizeof(handles)];
	return SUCCESS;
}
