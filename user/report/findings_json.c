// SPDX-License-Identifier: BSD-2-Clause
/* Findings as JSON: the same object in the report of a rank, of a job, in the page and from `hdtrace explain`. */
#include "findings_json.h"

#include "containers/containers.h"

#define EXPLANATION_VERSION 1

static void put_evidence(struct json *json, const struct evidence *evidence)
{
	json_object(json);
	json_put_unsigned_if(json, "block", evidence->block != BLOCK_NONE, evidence->block);
	json_put_unsigned_if(json, "blocks", evidence->blocks, evidence->blocks);
	json_put_unsigned_if(json, "byte_tasks", evidence->byte_tasks, evidence->byte_tasks);
	json_put_unsigned(json, "bytes", evidence->bytes);
	json_put_text(json, "holder", *evidence->holder ? evidence->holder : NULL);
	json_put_text(json, "kind", evidence_kind_name(evidence->kind));
	json_put_text(json, "name", evidence->name);
	json_put_unsigned_if(json, "saves_bytes", evidence->saves_bytes != SAVES_UNKNOWN, evidence->saves_bytes);
	json_object_end(json);
}

static void put_numbers(struct json *json, const struct finding *finding)
{
	json_key(json, "numbers");
	json_object(json);
	for (size_t i = 0; i < arrlenu(finding->numbers); i++)
		json_put_unsigned(json, finding->numbers[i].name, finding->numbers[i].value);
	json_object_end(json);
}

static void put_finding(struct json *json, const struct finding *finding)
{
	json_object(json);
	json_put_text(json, "advice", finding->advice);
	json_put_unsigned(json, "bytes", finding->bytes);
	json_put_text(json, "confidence", finding_confidence_name(finding->confidence));
	json_put_text(json, "device", finding->device ? finding->device->name : NULL);
	if (json_list(json, "evidence", arrlenu(finding->evidence))) {
		for (size_t i = 0; i < arrlenu(finding->evidence); i++)
			put_evidence(json, &finding->evidence[i]);
		json_array_end(json);
	}
	json_put_text(json, "id", finding->id);
	json_put_text(json, "job", *finding->job ? finding->job : NULL);
	json_put_text(json, "kind", finding_kind_name(finding->kind));
	put_numbers(json, finding);
	json_key(json, "rank");
	if (finding->rank)
		json_signed(json, finding->rank->rank);
	else
		json_null(json);
	json_put_unsigned_if(json, "saves_bytes", finding->saves_bytes != SAVES_UNKNOWN, finding->saves_bytes);
	json_put_text(json, "severity", finding_severity_name(finding->severity));
	json_put_text(json, "text", finding->text);
	json_object_end(json);
}

/* Those that are about a rank (of it alone), or about a job: NULL, not asked. */
static void put_list(struct json *json, const struct finding *findings, const struct rank *rank, const char *job)
{
	size_t count = 0;

	for (int pass = 0; pass < 2; pass++) {
		/* An empty list is written in another way, so that they are counted first. */
		if (pass && !json_list(json, "findings", count))
			return;
		for (size_t i = 0; i < arrlenu(findings); i++) {
			if ((rank && findings[i].rank != rank) || (job && strcmp(findings[i].job, job) != 0))
				continue;
			count++;
			if (pass)
				put_finding(json, &findings[i]);
		}
	}
	json_array_end(json);
}

void put_findings_of_rank(struct json *json, const struct finding *findings, const struct rank *rank)
{
	put_list(json, findings, rank, NULL);
}

void put_findings_of_job(struct json *json, const struct finding *findings, const char *job)
{
	put_list(json, findings, NULL, job);
}

void put_explanation(struct json *json, const struct finding *findings)
{
	json_object(json);
	put_list(json, findings, NULL, NULL);
	json_put_unsigned(json, "schema_version", EXPLANATION_VERSION);
	json_object_end(json);
}
