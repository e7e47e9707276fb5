/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of the store; a change here needs another STORE_SCHEMA_VERSION. */
#include "store/table.h"

#define MEMBER(member) #member, offsetof(struct RECORD, member)
/* Type, whether it is part of the key, whether it may be unknown. */
#define KEY_TEXT COLUMN_TEXT, true, false
#define KEY_NUMBER COLUMN_NUMBER, true, false
#define TEXT COLUMN_TEXT, false, false
#define NUMBER COLUMN_NUMBER, false, false
#define OPTIONAL COLUMN_NUMBER, false, true

#define RECORD run_record
static const struct column run_columns[] = {
	{MEMBER(run), KEY_TEXT, "identity, 16 hexadecimal digits"},
	{MEMBER(job), TEXT, "its name: the program, or what --job says"},
	{MEMBER(user), TEXT, "whose it is"},
	{MEMBER(model), TEXT, "class of the model"},
	{MEMBER(version), TEXT, "what --version says: of the code, the configuration"},
	{MEMBER(instance), TEXT, "what the launcher calls this start"},
	{MEMBER(command), TEXT, "arguments of its first rank"},
	{MEMBER(source), TEXT, "capture or agent"},
	{MEMBER(torch_version), TEXT, "of PyTorch"},
	{MEMBER(hdtrace_version), TEXT, "that observed it"},
	{MEMBER(world_size), OPTIONAL, "ranks of the job"},
	{MEMBER(start_time), NUMBER, "when its observation began"},
};
#undef RECORD

#define RECORD rank_record
static const struct column rank_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its number in the job"},
	{MEMBER(node), TEXT, "name of the machine"},
	{MEMBER(pid), NUMBER, "process"},
	{MEMBER(start_time), NUMBER, "when its observation began"},
	{MEMBER(end_time), NUMBER, "and when it ended"},
	{MEMBER(steps), NUMBER, "complete optimizer steps"},
	{MEMBER(complete), NUMBER, "1: nothing was lost"},
	{MEMBER(lost_events), NUMBER, "that were not seen"},
};
#undef RECORD

#define RECORD period_record
static const struct column period_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(device), KEY_TEXT, "cuda:0"},
	{MEMBER(start_time), KEY_NUMBER, "from when"},
	{MEMBER(node), TEXT, "name of the machine"},
	{MEMBER(end_time), NUMBER, "until when"},
	{MEMBER(capacity_bytes), OPTIONAL, "memory of the device"},
	{MEMBER(peak_bytes), NUMBER, "highest allocated bytes"},
	{MEMBER(end_bytes), NUMBER, "allocated at the end"},
	{MEMBER(reserved_peak_bytes), OPTIONAL, "highest bytes that the allocator held"},
	{MEMBER(reserved_bytes), OPTIONAL, "that it held at the end"},
	{MEMBER(dead_bytes), OPTIONAL, "at the peak, of blocks that nothing used any more"},
	{MEMBER(parameter_bytes), NUMBER, "of parameters at the peak"},
	{MEMBER(buffer_bytes), NUMBER, "of buffers"},
	{MEMBER(gradient_bytes), NUMBER, "of gradients"},
	{MEMBER(activation_bytes), NUMBER, "of activations"},
	{MEMBER(temp_bytes), NUMBER, "of what the backward pass made for itself"},
	{MEMBER(optstate_bytes), NUMBER, "of states of optimizers"},
	{MEMBER(other_bytes), NUMBER, "of all others"},
	{MEMBER(workspace_bytes), NUMBER, "of what operators made and freed inside"},
	{MEMBER(steps), NUMBER, "steps in it"},
	{MEMBER(step_time_us), OPTIONAL, "their median time"},
	{MEMBER(out_of_memories), NUMBER, "times that no memory was found"},
	{MEMBER(peak_phase), TEXT, "phase at the peak"},
	{MEMBER(peak_operator), TEXT, "operator at the peak"},
	{MEMBER(peak_line), TEXT, "file:line that ran at the peak"},
};
#undef RECORD

#define RECORD step_record
static const struct column step_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(start_time), KEY_NUMBER, "when it began"},
	{MEMBER(step), KEY_NUMBER, "number in the observation"},
	{MEMBER(complete), NUMBER, "1: its end was seen"},
	{MEMBER(duration_us), NUMBER, "its time"},
	{MEMBER(forward_us), NUMBER, "of it forward"},
	{MEMBER(recompute_us), NUMBER, "recomputing"},
	{MEMBER(backward_us), NUMBER, "backward"},
	{MEMBER(optimizer_us), NUMBER, "in the optimizer"},
	{MEMBER(wait_us), NUMBER, "waiting for other ranks"},
	{MEMBER(peak_bytes), NUMBER, "highest allocated bytes, devices summed"},
	{MEMBER(end_bytes), NUMBER, "allocated at its end"},
	{MEMBER(allocated_bytes), NUMBER, "sum of all allocations"},
	{MEMBER(operators), NUMBER, "that ran"},
	{MEMBER(collectives), NUMBER, "that were begun"},
	{MEMBER(collective_bytes), NUMBER, "that they sent"},
};
#undef RECORD

#define RECORD holder_record
static const struct column holder_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(device), KEY_TEXT, "cuda:0"},
	{MEMBER(time), KEY_NUMBER, "of the period's start, or of the OOM"},
	{MEMBER(microsecond), KEY_NUMBER, "of the OOM; 0"},
	{MEMBER(moment), KEY_TEXT, "peak or out_of_memory"},
	{MEMBER(kind), KEY_TEXT, "category, line or module"},
	{MEMBER(place), KEY_NUMBER, "0: the largest"},
	{MEMBER(name), TEXT, "of the category, line or module"},
	{MEMBER(bytes), NUMBER, "that it held"},
	{MEMBER(blocks), NUMBER, "in so many blocks"},
};
#undef RECORD

#define RECORD block_record
static const struct column block_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(device), KEY_TEXT, "cuda:0"},
	{MEMBER(time), KEY_NUMBER, "of the period's start, or of the OOM"},
	{MEMBER(microsecond), KEY_NUMBER, "of the OOM; 0"},
	{MEMBER(moment), KEY_TEXT, "peak or out_of_memory"},
	{MEMBER(place), KEY_NUMBER, "0: the largest"},
	{MEMBER(bytes), NUMBER, "its size"},
	{MEMBER(age_us), NUMBER, "since it was made"},
	{MEMBER(category), TEXT, "Activation"},
	{MEMBER(phase), TEXT, "in which it was made"},
	{"operator", offsetof(struct RECORD, operator_), TEXT, "that made it"},
	{MEMBER(line), TEXT, "file:line that made it"},
	{MEMBER(module), TEXT, "in which it was made"},
	{MEMBER(owner), TEXT, "what Python holds it by"},
};
#undef RECORD

#define RECORD finding_record
static const struct column finding_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(time), KEY_NUMBER, "start of the observation"},
	{MEMBER(finding), KEY_TEXT, "its identity in the report: dead-0-cuda:1"},
	{MEMBER(rank), NUMBER, "its rank, -1: of the job"},
	{MEMBER(device), TEXT, "cuda:0; empty: of none"},
	{MEMBER(kind), TEXT, "what was found"},
	{MEMBER(severity), TEXT, "critical, warning or note"},
	{MEMBER(confidence), TEXT, "high, medium or low"},
	{MEMBER(bytes), NUMBER, "what it is about"},
	{MEMBER(saves_bytes), OPTIONAL, "by which the peak would be lower"},
	{MEMBER(text), TEXT, "for people"},
	{MEMBER(advice), TEXT, "what to do"},
	{MEMBER(line), TEXT, "file:line"},
};
#undef RECORD

#define RECORD oom_record
static const struct column oom_columns[] = {
	{MEMBER(run), KEY_TEXT, "its run"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(device), KEY_TEXT, "cuda:0"},
	{MEMBER(time), KEY_NUMBER, "when"},
	{MEMBER(microsecond), KEY_NUMBER, "and its fraction"},
	{MEMBER(node), TEXT, "name of the machine"},
	{MEMBER(asked_bytes), NUMBER, "that were asked for"},
	{MEMBER(allocated_bytes), NUMBER, "that were given out"},
	{MEMBER(reserved_bytes), OPTIONAL, "that the allocator held"},
	{MEMBER(largest_gap_bytes), OPTIONAL, "free in one piece"},
	{MEMBER(capacity_bytes), OPTIONAL, "memory of the device"},
	{"operator", offsetof(struct RECORD, operator_), TEXT, "that asked"},
	{MEMBER(phase), TEXT, "in which"},
	{MEMBER(line), TEXT, "file:line"},
};
#undef RECORD

#define RECORD prediction_record
static const struct column prediction_columns[] = {
	{MEMBER(job), KEY_TEXT, "its name"},
	{MEMBER(version), KEY_TEXT, "of the job; empty: any"},
	{MEMBER(rank), KEY_NUMBER, "its rank"},
	{MEMBER(model), TEXT, "class of the model"},
	{MEMBER(time), NUMBER, "when it was put in"},
	{MEMBER(peak_bytes), NUMBER, "highest allocated bytes"},
};
#undef RECORD

#define TABLE(name) #name, name##_columns, sizeof(name##_columns) / sizeof(name##_columns[0])

const struct table tables[TABLES] = {
	[TABLE_RUN] = {TABLE(run), NULL, false, "A start of a job that was observed"},
	[TABLE_RANK] = {TABLE(rank), NULL, true, "A rank of a run"},
	[TABLE_PERIOD] = {TABLE(period), "start_time", true, "Memory of one device, as one rank used it for some time"},
	[TABLE_STEP] = {TABLE(step), "start_time", true, "An optimizer step of a rank"},
	[TABLE_HOLDER] = {TABLE(holder), "time", true, "What held memory at a peak, or when there was no more"},
	[TABLE_BLOCK] = {TABLE(block), "time", true, "One of the largest blocks at such a moment"},
	[TABLE_FINDING] = {TABLE(finding), "time", true, "Something that a person should look at"},
	[TABLE_OOM] = {TABLE(oom), "time", true, "An allocator found no memory"},
	[TABLE_PREDICTION] = {TABLE(prediction), NULL, false, "The peak that a dry run foretells for a job"},
};
