/* The insides of the driver's stand-in: error codes. */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include "../standin.h"

/* CUresult */
enum {
	SUCCESS = 0,
	ERROR_INVALID_VALUE = 1,
	ERROR_OUT_OF_MEMORY = 2,
	ERROR_NO_DEVICE = 100,
	ERROR_INVALID_DEVICE = 101,
	ERROR_NOT_FOUND = 500,
	ERROR_NOT_SUPPORTED = 801,
};

#endif
