/*
 * How the collectives' stand-in puts work on a stream that waits for other ranks. The
 * runtime offers stream_append_awaiting to it; it is no function of CUDA.
 */
#ifndef STANDIN_ARRIVAL_H
#define STANDIN_ARRIVAL_H

#include <stdint.h>

/* How many came, and when the last of them did (standin_now). Written by others while it is read. */
struct arrival {
	volatile uint32_t count;
	volatile uint64_t latest;
};

/* Work that begins when `wanted` came; on no arrival, when all before it is done. */
void standin_stream_append(void *stream, uint64_t duration, struct arrival *arrival, uint32_t wanted);

#endif
