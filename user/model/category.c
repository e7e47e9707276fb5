// SPDX-License-Identifier: BSD-2-Clause
/* What Python holds a block by counts more than what autograd did with it, and that more than when it was made. */
#include "category.h"

#include <hdtrace/capture.h>

enum category category_of(const struct category_facts *facts)
{
	if (facts->workspace)
		return CATEGORY_WORKSPACE;
	switch (facts->holder) {
	case OWNER_PARAMETER:
		return CATEGORY_PARAMETER;
	case OWNER_BUFFER:
		return CATEGORY_BUFFER;
	case OWNER_GRADIENT:
		return CATEGORY_GRADIENT;
	case OWNER_OPTIMIZER:
		return CATEGORY_OPTSTATE;
	default:
		break;
	}
	if (facts->parameter)
		return CATEGORY_PARAMETER;
	if (facts->gradient)
		return CATEGORY_GRADIENT;
	if (facts->holder == OWNER_SAVED)
		return CATEGORY_ACTIVATION;
	if (facts->phase == PHASE_OPTIMIZER)
		return CATEGORY_OPTSTATE;
	if (facts->phase == PHASE_BACKWARD)
		return CATEGORY_TEMP;
	return facts->preexisting ? CATEGORY_OTHER : CATEGORY_ACTIVATION;
}
