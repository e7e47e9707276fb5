/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many ranks that call a library of collectives at a steady rate.
 *
 *	library_rate LIBRARY RANKS CALLS PAUSE_US
 *
 * Starts itself once for each rank, with RANK and WORLD_SIZE in its environment. A
 * rank loads the library, waits some seconds so that a tracer can find it, makes a
 * communicator, and begins an all-reduce of CALLS different lengths: 1, 2, 3, …
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_SECONDS 8
#define FLOAT 7
#define SUM 0

struct unique_id {
	char bytes[128]; /* by value, as in nccl.h */
};

typedef int (*make_function)(uint64_t *communicator, int size, struct unique_id id, int rank);
typedef int (*reduce_function)(
	const void *input, void *output, size_t count, int type, int operation, uint64_t communicator, void *stream);

static int play(char **arguments, int rank, int size)
{
	void *library = dlopen(arguments[1], RTLD_NOW);
	make_function make = library ? (make_function)dlsym(library, "ncclCommInitRank") : NULL;
	reduce_function reduce = library ? (reduce_function)dlsym(library, "ncclAllReduce") : NULL;
	uint64_t communicator = 0;
	static float data[4];

	if (!make || !reduce)
		return 1;
	sleep(WAIT_SECONDS);
	make(&communicator, size, (struct unique_id){{0}}, rank);
	for (int call = 1; call <= atoi(arguments[3]); call++) {
		reduce(data, data, (size_t)call, FLOAT, SUM, communicator, NULL);
		usleep((useconds_t)atoi(arguments[4]));
	}
	return 0;
}

int main(int count, char **arguments)
{
	const char *rank = getenv("RANK");
	int size = count > 4 ? atoi(arguments[2]) : 0, failed = 0, status;
	char text[16];

	if (rank && size)
		return play(arguments, atoi(rank), size);
	setenv("WORLD_SIZE", arguments[2], 1);
	for (int i = 0; i < size; i++) {
		snprintf(text, sizeof(text), "%d", i);
		setenv("RANK", text, 1);
		if (!fork()) {
			execv("/proc/self/exe", arguments);
			_exit(127);
		}
	}
	while (wait(&status) > 0)
		failed += status != 0;
	return failed || !size;
}
