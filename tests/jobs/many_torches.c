/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes, one after the other, that map what looks like PyTorch, stay for a moment and are gone:
 *
 *     many_torches COUNT LIBRARY MILLISECONDS
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child does is done anew: a process that forked has its parent's libraries, and is followed in another way. */
static int stay(const char *library, const char *milliseconds)
{
	if (!dlopen(library, RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	usleep((useconds_t)atoi(milliseconds) * 1000);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 3)
		return stay(argv[1], argv[2]);
	if (argc != 4)
		return 2;
	for (int number = atoi(argv[1]); number > 0 && !failed; number--) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(execl("/proc/self/exe", argv[0], argv[2], argv[3], (char *)NULL) + 2);
		failed = waitpid(pid, &status, 0) != pid || status;
	}
	return failed;
}
