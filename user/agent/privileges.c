// SPDX-License-Identifier: BSD-2-Clause
/* capabilities(7) by libcap-ng; PR_SET_NO_NEW_PRIVS of prctl(2). */
#include "agent/privileges.h"

#include <cap-ng.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>

/* What each is for is in docs/operations.md; the unit keeps the same. */
static const unsigned int kept[] = {
	CAP_BPF,
	CAP_PERFMON,
	CAP_SYS_PTRACE,
	CAP_DAC_READ_SEARCH,
	CAP_CHECKPOINT_RESTORE,
	CAP_SYS_NICE,
};

static bool is_kept(unsigned int capability)
{
	for (size_t index = 0; index < sizeof(kept) / sizeof(kept[0]); index++)
		if (kept[index] == capability)
			return true;
	return false;
}

int privileges_drop(void)
{
	/* Only who may change its bounding set has it changed; ambient ones are left, which a user who is not root
	 * lives on. */
	capng_select_t sets = CAPNG_SELECT_CAPS;
	int error;

	if (capng_get_caps_process())
		return -EIO;
	if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		sets |= CAPNG_SELECT_BOUNDS;
	for (unsigned int capability = 0; capability <= CAP_LAST_CAP; capability++)
		if (!is_kept(capability))
			capng_update(CAPNG_DROP,
				CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE | CAPNG_BOUNDING_SET, capability);
	error = capng_apply(sets);
	if (error)
		return -EPERM;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0;
}
