// SPDX-License-Identifier: BSD-2-Clause
/* Reading a target's memory by process_vm_readv(2). */
#include "target/memory.h"

#include <errno.h>
#include <sys/uio.h>

int memory_read(pid_t pid, uint64_t address, void *buffer, size_t size)
{
	struct iovec local = {.iov_base = buffer, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
	ssize_t count = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (count < 0)
		return -errno;
	return (size_t)count == size ? 0 : -EFAULT;
}
