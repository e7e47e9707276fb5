// SPDX-License-Identifier: BSD-2-Clause
/*
 * What `hdtrace explain` prints, and the part of the summary that is the same
 * in short. Names of a target are in these texts: nothing that would move the
 * cursor is printed.
 */
#include "findings_text.h"

#include <errno.h>
#include <string.h>

#include "containers/containers.h"
#include "findings/words.h"
#include "text.h"

#define COLUMNS 100
#define SHORT_MAX 3
#define INDENT 12

/* Columns of the next word, with the spaces before it. */
static int word_columns(const char *text, const char *end)
{
	int columns = 0;

	while (text < end && *text == ' ') {
		text++;
		columns++;
	}
	while (text < end && *text != ' ') {
		text_next(&text, end);
		columns++;
	}
	return columns;
}

/* From column `at` on, broken between words; what follows is indented. A word that is too long stays whole. */
static void wrapped_write(FILE *out, const char *text, int at, int indent)
{
	const char *end = text + strlen(text);

	while (text < end) {
		int columns = word_columns(text, end);

		if (at > indent && at + columns > COLUMNS) {
			fprintf(out, "\n%*s", indent, "");
			at = indent;
			while (text < end && *text == ' ')
				text++;
			continue;
		}
		for (int i = 0; i < columns && text < end; i++) {
			const char *from = text;
			uint32_t code = text_next(&text, end);

			text_write_character(out, from, text, code);
		}
		at += columns;
	}
	putc('\n', out);
}

static const char *holder_words(const struct evidence *evidence)
{
	if (!*evidence->holder)
		return "";
	return evidence->blocks > 1 ? ", the largest held by " : ", held by ";
}

static void evidence_write(FILE *out, const struct evidence *evidence)
{
	char size[SIZE_TEXT_BYTES], saved[SIZE_TEXT_BYTES];
	char *blocks = evidence->blocks > 1 ? sentence(", %llu blocks", (unsigned long long)evidence->blocks)
	                                    : sentence("%s", "");
	char *held = evidence->byte_tasks && evidence->bytes
	                     ? sentence(", held %llu tasks on average",
				       (unsigned long long)(evidence->byte_tasks / evidence->bytes))
	                     : sentence("%s", "");
	char *saves = evidence->saves_bytes == SAVES_UNKNOWN ? sentence("%s", "")
	                                                     : sentence("; without it the peak is %s lower",
								       size_format(saved, evidence->saves_bytes));
	char *text =
		sentence("%s%s%s%s%s%s", evidence->name, blocks, held, holder_words(evidence), evidence->holder, saves);

	fprintf(out, "%*s%10s  ", INDENT, "", evidence->bytes ? size_format(size, evidence->bytes) : "");
	wrapped_write(out, text, INDENT + 12, INDENT + 14);
	arrfree(blocks);
	arrfree(held);
	arrfree(saves);
	arrfree(text);
}

static void finding_write(FILE *out, const struct finding *finding)
{
	fprintf(out, "\n%-9s %s", finding_severity_name(finding->severity), finding_kind_name(finding->kind));
	if (finding->rank)
		fprintf(out, "  rank %d", finding->rank->rank);
	if (finding->device)
		fprintf(out, "  %s", finding->device->name);
	fprintf(out, "  (confidence: %s)\n%*s", finding_confidence_name(finding->confidence), INDENT, "");
	wrapped_write(out, finding->text, INDENT, INDENT);
	for (size_t i = 0; i < arrlenu(finding->evidence); i++)
		evidence_write(out, &finding->evidence[i]);
	fprintf(out, "%*s", INDENT, "");
	wrapped_write(out, finding->advice, INDENT, INDENT);
}

int findings_write(FILE *out, const struct finding *findings)
{
	const char *job = "";

	for (size_t i = 0; i < arrlenu(findings); i++) {
		if (strcmp(findings[i].job, job) != 0)
			fprintf(out, "%sjob  %s\n", i ? "\n" : "", findings[i].job);
		job = findings[i].job;
		finding_write(out, &findings[i]);
	}
	return ferror(out) ? -EIO : 0;
}

void findings_write_short(FILE *out, const struct finding *findings, const struct rank *rank)
{
	int told = 0;

	/* The peak stands above in the summary already, and what an exhausted device held. */
	for (size_t i = 0; i < arrlenu(findings) && told < SHORT_MAX; i++) {
		if (!finding_concerns(&findings[i], rank) || findings[i].kind == FINDING_PEAK ||
			findings[i].kind == FINDING_OUT_OF_MEMORY)
			continue;
		if (!told++)
			fputs("\nfindings (more: hdtrace explain)\n", out);
		fprintf(out, "  %-9s ", finding_severity_name(findings[i].severity));
		wrapped_write(out, findings[i].text, INDENT, INDENT);
	}
}
