// SPDX-License-Identifier: BSD-2-Clause
/* An allocator that found no memory: who held what then, and what would have had to go. */
#include "survey.h"

#include <stdlib.h>

#include "containers/containers.h"
#include "words.h"

static int block_compare(const void *left, const void *right)
{
	const struct block *a = *(const struct block *const *)left, *b = *(const struct block *const *)right;
	uint64_t a_bytes = block_held_bytes(a), b_bytes = block_held_bytes(b);

	if (a_bytes != b_bytes)
		return a_bytes < b_bytes ? 1 : -1;
	return (a > b) - (a < b);
}

/* Blocks that are alive, largest first: stb_ds. */
static const struct block **alive_find(const struct scene *scene, uint32_t order)
{
	const struct block **alive = NULL;

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++)
		if (scene->rank->blocks[i].device == scene->index && block_alive_at(&scene->rank->blocks[i], order))
			arrput(alive, &scene->rank->blocks[i]);
	if (alive)
		qsort(alive, arrlenu(alive), sizeof(*alive), block_compare);
	return alive;
}

/* Lines, then the largest blocks. Returns how many of the largest together have so many bytes, 0: all have not. */
static size_t holders_tell(const struct scene *scene, uint32_t order, uint64_t missing, struct finding *finding)
{
	const struct block **alive = alive_find(scene, order);
	struct tally lines = {0};
	uint64_t sum = 0;
	size_t enough = 0, blocks = 0; /* without the remainder, which is none */

	for (size_t i = 0; i < arrlenu(alive); i++) {
		tally_add(&lines, survey_line(scene->survey, alive[i]), alive[i], block_held_bytes(alive[i]), 0);
		if (alive[i]->remainder)
			continue;
		alive[blocks++] = alive[i];
		sum += block_held_bytes(alive[i]);
		if (!enough && sum >= missing)
			enough = blocks;
	}
	tally_tell_lines(&lines, scene->survey, finding);
	for (size_t i = 0; i < blocks && i < EVIDENCE_SHOWN; i++) {
		const char *line = scene->survey->lines[survey_line(scene->survey, alive[i])];
		struct evidence *evidence = finding_evidence(finding, EVIDENCE_BLOCK,
			sentence("%s at %s", scene->rank->operator_names[alive[i]->name], line),
			block_held_bytes(alive[i]));

		evidence->block = (size_t)(alive[i] - scene->rank->blocks);
		evidence->blocks = 1;
		evidence->holder = alive[i]->owner;
	}
	arrfree(alive);
	return enough;
}

struct shortage {
	uint64_t free;    /* in the allocator's segments, in pieces */
	uint64_t missing; /* that would have had to be freed, in one piece where those are known */
	bool fragmented;  /* there was enough, in pieces */
};

static struct shortage shortage_of(const struct out_of_memory *event)
{
	struct shortage shortage = {.free = event->reserved_bytes > event->allocated_bytes
	                                            ? event->reserved_bytes - event->allocated_bytes
	                                            : 0};
	bool known = event->largest_gap != UINT64_MAX;

	shortage.missing = event->bytes > shortage.free ? event->bytes - shortage.free : 0;
	shortage.fragmented = !shortage.missing && known && event->largest_gap < event->bytes;
	return shortage;
}

static char *exhausted_text(const struct scene *scene, const struct out_of_memory *event, struct shortage shortage)
{
	const struct rank *rank = scene->rank;
	const struct frame *frame = stack_line(&rank->stacks[event->stack]);
	char *place = frame ? sentence(" at %s:%u", frame->file, frame->line) : sentence("%s", "");
	char asked[SIZE_TEXT_BYTES], allocated[SIZE_TEXT_BYTES], reserved[SIZE_TEXT_BYTES], free_[SIZE_TEXT_BYTES],
		gap[SIZE_TEXT_BYTES], missing[SIZE_TEXT_BYTES];
	char *pieces = event->largest_gap == UINT64_MAX
	                       ? sentence("%s", "")
	                       : sentence(", in pieces of at most %s", size_format(gap, event->largest_gap));
	char *cause =
		shortage.missing
			? sentence(" Even in one piece, %s would have been missing.",
				  size_format(missing, shortage.missing))
			: sentence("%s", shortage.fragmented
						 ? " In one piece it would have been enough: the memory was fragmented."
						 : "");
	char *text = sentence("Out of memory%s: %s asked for %s%s. %s were allocated of the %s that the allocator "
			      "held; %s were free%s.%s",
		rank->out_of_memory_count > 1 ? " several times, the last time" : "",
		event->name == UINT32_MAX ? "an allocation outside operators" : rank->operator_names[event->name],
		size_format(asked, event->bytes), place, size_format(allocated, event->allocated_bytes),
		size_format(reserved, event->reserved_bytes), size_format(free_, shortage.free),
		shortage.free ? pieces : "", cause);

	arrfree(place);
	arrfree(pieces);
	arrfree(cause);
	return text;
}

static char *exhausted_advice(const struct out_of_memory *event, struct shortage shortage, size_t enough)
{
	char needed[SIZE_TEXT_BYTES];
	char *text;

	size_format(needed, event->allocated_bytes + event->bytes);
	if (shortage.fragmented)
		return sentence(
			"Let segments grow (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), or allocate what "
			"stays before what goes. Without gaps this needs %s.",
			needed);
	text = enough ? sentence("Without the largest %zu block%s below it would have fitted; else the device must "
				 "have %s "
				 "for blocks alone.",
				enough, enough > 1 ? "s" : "", needed)
	              : sentence("No block of this report is large enough: the device must have %s for blocks alone.",
				needed);
	return text;
}

static const struct out_of_memory *last_of(const struct scene *scene, uint64_t *count)
{
	const struct out_of_memory *last = NULL;

	*count = 0;
	for (size_t i = 0; i < arrlenu(scene->rank->out_of_memories); i++) {
		if (scene->rank->out_of_memories[i].device != scene->index)
			continue;
		last = &scene->rank->out_of_memories[i];
		++*count;
	}
	return last;
}

void find_out_of_memory(struct scene *scene, struct finding **findings)
{
	uint64_t count;
	const struct out_of_memory *event = last_of(scene, &count);
	struct shortage shortage;
	struct finding *finding;
	size_t enough;

	if (!event)
		return;
	shortage = shortage_of(event);
	finding = finding_add(findings, FINDING_OUT_OF_MEMORY, scene);
	finding->severity = SEVERITY_CRITICAL;
	finding->bytes = event->bytes;
	enough = holders_tell(scene, event->order, shortage.missing ? shortage.missing : event->bytes, finding);
	finding->text = exhausted_text(scene, event, shortage);
	finding->advice = exhausted_advice(event, shortage, enough);
	finding_number(finding, "allocated_bytes", event->allocated_bytes);
	finding_number(finding, "blocks_enough", enough);
	finding_number(finding, "fragmented", shortage.fragmented);
	finding_number(finding, "free_bytes", shortage.free);
	if (event->largest_gap != UINT64_MAX)
		finding_number(finding, "largest_gap_bytes", event->largest_gap);
	finding_number(finding, "missing_bytes", shortage.missing);
	finding_number(finding, "needed_bytes", event->allocated_bytes + event->bytes);
	finding_number(finding, "requested_bytes", event->bytes);
	finding_number(finding, "reserved_bytes", event->reserved_bytes);
	finding_number(finding, "times", count);
}
