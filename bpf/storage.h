/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/*
 * What a storage (c10::StorageImpl) says of its memory: where it is, how much,
 * on which device. DataPtr {data, deleter, context, device} and the number of
 * bytes behind it lie side by side in every version, so one read takes all.
 */
#ifndef HDTRACE_BPF_STORAGE_H
#define HDTRACE_BPF_STORAGE_H

#include "thread.h"

#define STORAGE_WORDS_MAX (STORAGE_SPAN_MAX / sizeof(__u64))
#define STORAGE_DATA 0
#define STORAGE_DELETER 1

/* Memory of the CPU that a deleter in the code of a device's kernels frees is pinned. */
static __always_inline void device_of(
	const struct target_settings *settings, __u64 device, __u64 deleter, struct tensor_argument *argument)
{
	argument->device_type = device & 0xff;
	argument->device_index = device >> 8 & 0xff;
	if (argument->device_type != DEVICE_CPU)
		return;
	argument->device_index = 0;
	if (deleter >= settings->device_code_start && deleter < settings->device_code_end)
		argument->device_type = DEVICE_PINNED;
}

/* Returns false, with data 0, when there is no memory or it cannot be read. */
static __always_inline bool storage_read(
	const struct target_settings *settings, __u64 storage, struct tensor_argument *argument)
{
	__u64 words[STORAGE_WORDS_MAX], last = settings->storage_bytes / sizeof(__u64);

	argument->data = 0;
	/* Keeps the check next to the use, for the verifier. */
	asm volatile("" : "+r"(last));
	if (!storage || last >= STORAGE_WORDS_MAX || last <= STORAGE_DELETER ||
		bpf_probe_read_user(words, (last + 1) * sizeof(__u64), (void *)(storage + settings->storage_data)) ||
		!words[STORAGE_DATA])
		return false;
	argument->data = words[STORAGE_DATA];
	argument->bytes = words[last];
	/* The device is DataPtr's last word. */
	device_of(settings, words[last - 1], words[STORAGE_DELETER], argument);
	return true;
}

/* The same of the storage of a TensorImpl. */
static __always_inline bool tensor_storage_read(
	const struct target_settings *settings, __u64 tensor, struct tensor_argument *argument)
{
	__u64 storage = 0;

	argument->data = 0;
	if (!tensor || READ_USER(storage, tensor + settings->tensor_storage))
		return false;
	return storage_read(settings, storage, argument);
}

#endif
