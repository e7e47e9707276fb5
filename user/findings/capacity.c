// SPDX-License-Identifier: BSD-2-Clause
/* What a device must have: what the allocator held beyond its blocks, and whether the job fits on another device. */
#include "survey.h"

#include <stdlib.h>

#include "containers/containers.h"
#include "words.h"

/*
 * Held beyond the peak of blocks: so much of it, and more than the last segments of an allocator that is in order.
 * CUDA's takes 2 MiB for small blocks and 20 MiB for others at a time (PyTorch, c10/cuda/CUDACachingAllocator.cpp).
 */
#define FRAGMENTATION_SHARE 0.1
#define FRAGMENTATION_BYTES (22ull << 20)

void find_fragmentation(struct scene *scene, struct finding **findings)
{
	const struct device *device = scene->device;
	uint64_t more =
		device->reserved_peak_bytes > device->peak_bytes ? device->reserved_peak_bytes - device->peak_bytes : 0;
	char held[SIZE_TEXT_BYTES], beyond[SIZE_TEXT_BYTES], peak[SIZE_TEXT_BYTES];
	struct finding *finding;

	if (!device->has_totals || more < FRAGMENTATION_BYTES ||
		(double)more < FRAGMENTATION_SHARE * (double)device->peak_bytes)
		return;
	finding = finding_add(findings, FINDING_FRAGMENTATION, scene);
	finding->bytes = more;
	finding->severity = SEVERITY_WARNING;
	/* That memory was held is certain; why is not. */
	finding->confidence = finding->confidence == CONFIDENCE_HIGH ? CONFIDENCE_MEDIUM : finding->confidence;
	finding->text =
		sentence("The allocator held up to %s, %s more than the %s that were ever allocated at once: blocks of "
			 "other sizes could not use what was free, or it was kept for later.",
			size_format(held, device->reserved_peak_bytes), size_format(beyond, more),
			size_format(peak, device->peak_bytes));
	finding->advice =
		sentence("Let segments grow (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), pad inputs to few "
			 "different sizes, or call torch.cuda.empty_cache() where one phase ends.");
	finding_number(finding, "peak_bytes", device->peak_bytes);
	finding_number(finding, "reserved_peak_bytes", device->reserved_peak_bytes);
}

/* --- another device --------------------------------------------------------------------------- */

/* Lines that hold most at the peak, until together they have what is missing. */
static void lines_tell(const struct scene *scene, struct finding *finding)
{
	struct tally lines = {0};

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];

		if (block->device == scene->index && block_alive_at(block, scene->device->peak_order))
			tally_add(&lines, survey_line(scene->survey, block), block, block_held_bytes(block), 0);
	}
	tally_tell_lines(&lines, scene->survey, finding);
}

static void fit_tell(struct finding *finding, uint64_t least, uint64_t held, uint64_t size)
{
	char need[SIZE_TEXT_BYTES], have[SIZE_TEXT_BYTES], rest[SIZE_TEXT_BYTES];

	size_format(have, size);
	size_format(need, held);
	if (size >= held) {
		finding->severity = SEVERITY_NOTE;
		finding->text = sentence("It fits on a device of %s: at most %s were held, %s are left.", have, need,
			size_format(rest, size - held));
		finding->advice = sentence("Nothing has to be done.");
		return;
	}
	if (size >= least) {
		finding->severity = SEVERITY_WARNING;
		finding->text =
			sentence("On a device of %s it is tight: the blocks fit, with %s left, but what the allocator "
				 "held (%s) does not.",
				have, size_format(rest, size - least), need);
		finding->advice =
			sentence("An allocator gives back what it holds when memory runs out; less fragmentation "
				 "(expandable_segments:True) makes it likelier to fit.");
		return;
	}
	finding->severity = SEVERITY_CRITICAL;
	finding->text = sentence("It does not fit on a device of %s: %s are missing at the peak.", have,
		size_format(rest, least - size));
	finding->advice =
		sentence("So much would have to go of what is alive at the peak; the lines below hold most of it.");
}

void find_fit(struct scene *scene, uint64_t device_bytes, struct finding **findings)
{
	const struct device *device = scene->device;
	uint64_t least = device->peak_bytes + device->outside_peak_bytes;
	uint64_t held =
		device->reserved_peak_bytes > device->peak_bytes ? device->reserved_peak_bytes : device->peak_bytes;
	struct finding *finding;

	if (!device_bytes)
		return;
	held += device->outside_peak_bytes;
	finding = finding_add(findings, FINDING_FIT, scene);
	finding->bytes = least > device_bytes ? least - device_bytes : 0;
	fit_tell(finding, least, held, device_bytes);
	if (least > device_bytes)
		lines_tell(scene, finding);
	finding_number(finding, "blocks_bytes", device->peak_bytes);
	finding_number(finding, "device_bytes", device_bytes);
	finding_number(finding, "fits", device_bytes >= held);
	finding_number(finding, "held_bytes", held);
	finding_number(finding, "least_bytes", least);
	finding_number(finding, "outside_bytes", device->outside_peak_bytes);
}
