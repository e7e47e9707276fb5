-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of job.sqlite; docs/database.md explains them. Names of columns are those of the CSV files where these
-- have the same. Texts that repeat have tables of their own; the view `memory` puts them together again.

CREATE TABLE meta (
	key TEXT PRIMARY KEY,
	value ANY
) WITHOUT ROWID;

CREATE TABLE ranks (
	rank INTEGER PRIMARY KEY,
	job TEXT NOT NULL,             -- '' unless there are several jobs
	pid INTEGER,
	complete INTEGER NOT NULL,     -- 1: nothing was lost
	tasks INTEGER NOT NULL,
	steps INTEGER NOT NULL,        -- complete ones
	peak_bytes INTEGER NOT NULL,   -- sum of the peaks of its devices
	first_time_ns INTEGER NOT NULL,
	last_time_ns INTEGER NOT NULL,
	clock_offset_ns INTEGER NOT NULL, -- add to its times to compare them with those of the first capture
	real_offset_ns INTEGER NOT NULL   -- add to its times for nanoseconds since 1970
);

CREATE TABLE devices (
	device INTEGER PRIMARY KEY,
	rank INTEGER NOT NULL REFERENCES ranks,
	name TEXT NOT NULL,            -- cuda:0
	reported INTEGER NOT NULL,     -- 1: blocks of it are here
	peak_bytes INTEGER NOT NULL,
	peak_time_ns INTEGER NOT NULL,
	reserved_bytes INTEGER NOT NULL,
	reserved_peak_bytes INTEGER NOT NULL
);

CREATE TABLE operators (
	operator INTEGER PRIMARY KEY,
	node_name TEXT NOT NULL UNIQUE
);

CREATE TABLE modules (
	module INTEGER PRIMARY KEY,
	graph_name TEXT NOT NULL UNIQUE -- '' outside modules
);

CREATE TABLE owners (
	owner INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE      -- what Python held blocks by
);

CREATE TABLE frames (
	frame INTEGER PRIMARY KEY,
	file_name TEXT NOT NULL,
	line_num INTEGER NOT NULL,
	function TEXT NOT NULL
);

CREATE TABLE stacks (
	stack INTEGER PRIMARY KEY,
	rank INTEGER NOT NULL REFERENCES ranks,
	leaf INTEGER REFERENCES frames, -- the innermost frame; NULL: no Python
	python_stack TEXT NOT NULL
);

CREATE TABLE stack_frames (
	stack INTEGER NOT NULL REFERENCES stacks,
	position INTEGER NOT NULL,     -- from 0, outermost first
	frame INTEGER NOT NULL REFERENCES frames,
	PRIMARY KEY (stack, position)
) WITHOUT ROWID;

CREATE TABLE tasks (
	rank INTEGER NOT NULL REFERENCES ranks,
	task_index INTEGER NOT NULL,
	time_ns INTEGER NOT NULL,
	thread_id INTEGER NOT NULL,
	step INTEGER NOT NULL,
	task_name TEXT NOT NULL,       -- phase
	operator INTEGER NOT NULL REFERENCES operators,
	module INTEGER NOT NULL REFERENCES modules,
	stack INTEGER NOT NULL REFERENCES stacks,
	live_bytes INTEGER NOT NULL,
	launches INTEGER NOT NULL,
	forward_task INTEGER,
	PRIMARY KEY (rank, task_index),
	FOREIGN KEY (rank, forward_task) REFERENCES tasks (rank, task_index)
) WITHOUT ROWID;

CREATE TABLE blocks (
	block INTEGER PRIMARY KEY,     -- in the order of the memory CSV of each rank
	rank INTEGER NOT NULL REFERENCES ranks,
	device INTEGER NOT NULL REFERENCES devices,
	start_time_stamp INTEGER NOT NULL,
	end_time_stamp INTEGER NOT NULL,
	start_plot INTEGER NOT NULL,   -- fractions of the plot coordinates, in 10^-12
	end_plot INTEGER,
	start_time_ns INTEGER NOT NULL,
	end_time_ns INTEGER,           -- NULL: alive at the end
	device_addr INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	stream_id INTEGER NOT NULL,
	size INTEGER NOT NULL,
	allocated_bytes INTEGER,       -- NULL: its allocation was not seen
	actual_used_memory INTEGER NOT NULL,
	actual_peak_memory INTEGER NOT NULL,
	type TEXT NOT NULL,
	task_name TEXT NOT NULL,
	operator INTEGER NOT NULL REFERENCES operators,
	module INTEGER NOT NULL REFERENCES modules,
	stack INTEGER NOT NULL REFERENCES stacks,
	forward_stack INTEGER REFERENCES stacks,
	owner INTEGER REFERENCES owners,
	last_user_task INTEGER,
	is_persistent INTEGER NOT NULL,
	preexisting INTEGER NOT NULL,
	at_peak INTEGER NOT NULL,      -- 1: alive at the peak of its device
	communication TEXT NOT NULL,   -- what it is for, where it would not be there without communication
	FOREIGN KEY (rank, start_time_stamp) REFERENCES tasks (rank, task_index),
	FOREIGN KEY (rank, last_user_task) REFERENCES tasks (rank, task_index)
);

CREATE TABLE users (
	block INTEGER NOT NULL REFERENCES blocks,
	task_index INTEGER NOT NULL,   -- of the block's rank
	PRIMARY KEY (block, task_index)
) WITHOUT ROWID;

CREATE TABLE steps (
	rank INTEGER NOT NULL REFERENCES ranks,
	step INTEGER NOT NULL,
	complete INTEGER NOT NULL,
	start_time_ns INTEGER NOT NULL,
	duration_ns INTEGER NOT NULL,
	forward_ns INTEGER NOT NULL,
	recompute_ns INTEGER NOT NULL,
	backward_ns INTEGER NOT NULL,
	optimizer_ns INTEGER NOT NULL,
	micro_steps INTEGER NOT NULL,
	operators INTEGER NOT NULL,
	launches INTEGER NOT NULL,
	allocated_bytes INTEGER NOT NULL,
	peak_bytes INTEGER NOT NULL,
	end_bytes INTEGER NOT NULL,
	collectives INTEGER NOT NULL,
	collective_bytes INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	small_collectives INTEGER NOT NULL,
	communication_bytes INTEGER NOT NULL,
	communication_peak_bytes INTEGER NOT NULL,
	host_wait_ns INTEGER NOT NULL,
	communication_ns INTEGER NOT NULL,
	PRIMARY KEY (rank, step)
) WITHOUT ROWID;

CREATE TABLE segments (
	segment INTEGER PRIMARY KEY,
	rank INTEGER NOT NULL REFERENCES ranks,
	device INTEGER REFERENCES devices,
	start_time_ns INTEGER NOT NULL,
	end_time_ns INTEGER,           -- NULL: held at the end
	device_addr INTEGER,
	size INTEGER NOT NULL,
	memory TEXT NOT NULL,
	function TEXT NOT NULL,
	caller TEXT NOT NULL,
	allocator INTEGER NOT NULL,
	certain INTEGER NOT NULL
);

CREATE TABLE collectives (
	collective INTEGER PRIMARY KEY,
	rank INTEGER NOT NULL REFERENCES ranks,
	match INTEGER,                 -- the same in all ranks that began it
	time_ns INTEGER NOT NULL,
	communicator INTEGER NOT NULL,
	group_rank INTEGER,
	group_size INTEGER,
	sequence INTEGER,
	kind TEXT NOT NULL,
	reduce_op TEXT NOT NULL,
	dtype TEXT NOT NULL,
	bytes INTEGER,                 -- what the rank gives
	output_bytes INTEGER,          -- what it gets
	peer INTEGER,
	in_place INTEGER NOT NULL,
	bucket INTEGER NOT NULL,
	step INTEGER NOT NULL,
	task_name TEXT NOT NULL,
	thread_id INTEGER NOT NULL,
	matched_ranks INTEGER,         -- NULL, and the next five too: not matched over the ranks
	last_rank INTEGER,
	absent_rank INTEGER,
	skew_ns INTEGER,
	wait_ns INTEGER,
	differs INTEGER,
	layer TEXT NOT NULL,
	stack INTEGER NOT NULL REFERENCES stacks,
	task_index INTEGER,
	small INTEGER NOT NULL,        -- 1: a reduction of one element
	divided TEXT NOT NULL,
	communication_bytes INTEGER NOT NULL,
	duration_ns INTEGER,
	host_wait_ns INTEGER,
	FOREIGN KEY (rank, task_index) REFERENCES tasks (rank, task_index)
);

CREATE TABLE collective_blocks (
	collective INTEGER NOT NULL REFERENCES collectives,
	block INTEGER NOT NULL REFERENCES blocks,
	role TEXT NOT NULL             -- input, output, or copy: of one of these
);

CREATE TABLE out_of_memories (
	rank INTEGER NOT NULL REFERENCES ranks,
	device INTEGER NOT NULL REFERENCES devices,
	time_ns INTEGER NOT NULL,
	requested_bytes INTEGER NOT NULL,
	allocated_bytes INTEGER NOT NULL,
	reserved_bytes INTEGER NOT NULL,
	task_name TEXT NOT NULL,
	node_name TEXT NOT NULL,
	stack INTEGER NOT NULL REFERENCES stacks
);

-- The memory CSV, with rank, device and owner.
CREATE VIEW memory AS
SELECT blocks.rank, devices.name AS device, owners.name AS owner, start_time_stamp, end_time_stamp,
	printf('%d.%012d', start_time_stamp, start_plot) AS start_plot_time_stamp,
	CASE WHEN end_plot IS NULL THEN ''
		ELSE printf('%d.%012d', end_time_stamp - (type = 'Workspace'), end_plot) END AS end_plot_time_stamp,
	printf('0x%x', device_addr) AS device_addr, stream_id, size, actual_used_memory, actual_peak_memory,
	coalesce(frames.file_name, '') AS file_name, coalesce(frames.line_num, 0) AS line_num, type,
	start_time_stamp AS producer_task, task_name, node_name, graph_name,
	'{' || coalesce((SELECT group_concat(task_index, '-') FROM users WHERE users.block = blocks.block), '') || '}'
		AS user_tasks,
	last_user_task, python_stack, is_persistent, size < 1048576 AS is_small
FROM blocks
	JOIN devices USING (device)
	JOIN operators USING (operator)
	JOIN modules USING (module)
	JOIN stacks USING (stack)
	LEFT JOIN frames ON frames.frame = stacks.leaf
	LEFT JOIN owners USING (owner);

-- Made when the rows are there, which is faster.
-- indices
CREATE INDEX blocks_start ON blocks (rank, start_time_stamp);
CREATE INDEX blocks_size ON blocks (size);
CREATE INDEX blocks_stack ON blocks (stack);
CREATE INDEX blocks_owner ON blocks (owner) WHERE owner IS NOT NULL;
CREATE INDEX users_task ON users (task_index);
CREATE INDEX collective_blocks_block ON collective_blocks (block);
CREATE INDEX collectives_match ON collectives (match) WHERE match IS NOT NULL;
