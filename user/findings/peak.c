// SPDX-License-Identifier: BSD-2-Clause
/* What makes the peak of a device: operator, line, module, who holds most of it, and what would lower it most. */
#include "survey.h"

#include <stdlib.h>

#include "containers/containers.h"
#include "words.h"

#define MODULES_SHOWN 3
#define ACTIVATIONS_SHARE 0.3 /* of the peak: then it is worth while to recompute them */

/* --- evidence ------------------------------------------------------------------------------------- */

static void categories_tell(const struct scene *scene, struct finding *finding)
{
	for (int i = 0; i < CATEGORIES; i++)
		if (scene->device->peak.category[i])
			finding_evidence(finding, EVIDENCE_CATEGORY, sentence("%s", category_name((enum category)i)),
				scene->device->peak.category[i]);
}

/* By how much the peak would be lower without the blocks of a line. */
static uint64_t line_saves(const struct scene *scene, uint32_t line)
{
	struct gap *gaps = NULL;
	uint64_t saves;

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		struct gap gap = {block->first_order, block->last_order, block_held_bytes(block)};

		if (block->device == scene->index && survey_line(scene->survey, block) == line)
			arrput(gaps, gap);
	}
	saves = scene_saves(scene, gaps);
	arrfree(gaps);
	return saves;
}

struct module_share {
	const char *name;
	uint64_t bytes, blocks, activations;
};

static int module_compare(const void *left, const void *right)
{
	const struct module_share *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Modules by what they hold at the peak: stb_ds, largest first. */
static struct module_share *modules_find(const struct scene *scene)
{
	struct {
		const char *key;
		size_t value;
	} *index = NULL;
	struct module_share *modules = NULL;

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];
		const char *name = scene->rank->runs[block->producer].module;
		uint64_t bytes = block_held_bytes(block);
		size_t place;
		ptrdiff_t at;

		if (block->device != scene->index || !*name || !block_alive_at(block, scene->device->peak_order))
			continue;
		at = hmgeti(index, name);
		place = at < 0 ? arrlenu(modules) : index[at].value;
		if (at < 0) {
			struct module_share fresh = {.name = name};

			hmput(index, name, place);
			arrput(modules, fresh);
		}
		if (place >= arrlenu(modules))
			continue;
		modules[place].bytes += bytes;
		modules[place].blocks++;
		modules[place].activations += block->category == CATEGORY_ACTIVATION ? bytes : 0;
	}
	hmfree(index);
	if (modules)
		qsort(modules, arrlenu(modules), sizeof(*modules), module_compare);
	return modules;
}

static void lines_tell(const struct scene *scene, struct finding *finding)
{
	struct tally lines = {0};
	size_t told;

	for (size_t i = 0; i < arrlenu(scene->rank->blocks); i++) {
		const struct block *block = &scene->rank->blocks[i];

		if (block->device == scene->index && block_alive_at(block, scene->device->peak_order))
			tally_add(&lines, survey_line(scene->survey, block), block, block_held_bytes(block), 0);
	}
	told = tally_sort(&lines);
	for (size_t i = 0; i < told; i++)
		share_tell(&lines.shares[i], scene->survey, finding)->saves_bytes =
			line_saves(scene, lines.shares[i].key);
	tally_free(&lines);
}

/* --- words ------------------------------------------------------------------------------------------ */

static char *peak_text(const struct scene *scene)
{
	const struct device *device = scene->device;
	const struct operator_run *run = device->peak_run == RUN_NONE ? NULL : &scene->rank->runs[device->peak_run];
	const struct frame *frame = run ? stack_line(run_origin(scene->rank, run)) : NULL;
	char size[SIZE_TEXT_BYTES];
	char *place, *text;

	size_format(size, device->peak_bytes);
	if (!run)
		return sentence("The peak of %s was reached by an allocation outside operators.", size);
	place = frame ? sentence(" at %s:%u", frame->file, frame->line) : sentence("%s", "");
	text = sentence("The peak of %s was reached by %s%s (%s, step %u)%s%s.", size,
		scene->rank->operator_names[run->name], place, phase_name(run->phase), run->step,
		*run->module ? ", in module " : "", run->module);
	arrfree(place);
	return text;
}

/* Of the findings of this device, the one that lowers the peak most; NULL: none does. */
static const struct finding *best_of(const struct scene *scene, const struct finding *findings)
{
	const struct finding *best = NULL;

	for (size_t i = 0; i < arrlenu(findings); i++)
		if (findings[i].device == scene->device && findings[i].saves_bytes != SAVES_UNKNOWN &&
			(!best || findings[i].saves_bytes > best->saves_bytes))
			best = &findings[i];
	return best;
}

static bool has_recomputation(const struct rank *rank)
{
	for (size_t i = 0; i < arrlenu(rank->runs); i++)
		if (rank->runs[i].phase == PHASE_RECOMPUTE)
			return true;
	return false;
}

/* What a person may do about a peak that none of the findings explains. */
static char *category_advice(const struct scene *scene, const struct module_share *modules)
{
	const struct snapshot *peak = &scene->device->peak;
	uint64_t model = peak->category[CATEGORY_PARAMETER] + peak->category[CATEGORY_GRADIENT] +
	                 peak->category[CATEGORY_OPTSTATE];
	uint64_t activations = peak->category[CATEGORY_ACTIVATION];
	const struct module_share *most = NULL;
	char size[SIZE_TEXT_BYTES];

	for (size_t i = 0; i < arrlenu(modules); i++)
		if (!most || modules[i].activations > most->activations)
			most = &modules[i];
	if (most && most->activations && (double)activations >= ACTIVATIONS_SHARE * (double)peak->total &&
		!has_recomputation(scene->rank))
		return sentence("Activations are %.0f %% of it: a smaller batch, or checkpointing of modules such as "
				"%s (%s), lowers "
				"it most.",
			percent_of(activations, peak->total), most->name, size_format(size, most->activations));
	if (activations >= model)
		return sentence("Activations are %.0f %% of it: a smaller batch or shorter sequences lower it most.",
			percent_of(activations, peak->total));
	return sentence("Parameters, gradients and optimizer state are %.0f %% of it: sharding them over ranks, or "
			"smaller types "
			"for them, lowers it most.",
		percent_of(model, peak->total));
}

static char *peak_advice(const struct scene *scene, const struct finding *best, const struct module_share *modules)
{
	char peak[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];

	if (!best || !scene_is_told(scene, best->saves_bytes))
		return category_advice(scene, modules);
	return sentence("What the finding %s tells of lowers it most: by %s, to %s.", finding_kind_name(best->kind),
		size_format(saved, best->saves_bytes), size_format(peak, scene->peak_bytes - best->saves_bytes));
}

static void numbers_tell(const struct scene *scene, const struct finding *best, struct finding *finding)
{
	const struct device *device = scene->device;
	const struct operator_run *run = device->peak_run == RUN_NONE ? NULL : &scene->rank->runs[device->peak_run];

	if (best)
		finding_number(finding, "best_saves_bytes", best->saves_bytes);
	finding_number(finding, "reserved_peak_bytes", device->reserved_peak_bytes);
	if (run)
		finding_number(finding, "step", run->step);
	if (run && run->task != TASK_NONE)
		finding_number(finding, "task", (uint64_t)run->task);
	finding_number(finding, "time_ns", device->peak_time_ns);
}

void find_peak(struct scene *scene, struct finding **findings)
{
	struct module_share *modules = modules_find(scene);
	const struct finding *best = best_of(scene, *findings);
	char *advice = peak_advice(scene, best, modules);
	struct finding best_copy = best ? *best : (struct finding){0};
	struct finding *finding = finding_add(findings, FINDING_PEAK, scene);

	finding->bytes = scene->device->peak_bytes;
	finding->severity = SEVERITY_NOTE;
	finding->text = peak_text(scene);
	finding->advice = advice;
	lines_tell(scene, finding);
	for (size_t i = 0; i < arrlenu(modules) && i < MODULES_SHOWN; i++)
		finding_evidence(finding, EVIDENCE_MODULE, sentence("%s", modules[i].name), modules[i].bytes)->blocks =
			modules[i].blocks;
	categories_tell(scene, finding);
	numbers_tell(scene, best ? &best_copy : NULL, finding);
	arrfree(modules);
}
