#!/usr/bin/python3
"""Does what hdtrace writes for other programs agree with its own CSV and JSON? Read in another way than it was written.

    viewers_truth.py FOLDER [RANK...]      of a folder with all formats; ends at the first number that differs
"""
import collections
import csv
import os
import pickle
import pickletools
import re
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from harness import Report, check, check_equal  # noqa: E402
from page_truth import Truth, frames_of  # noqa: E402

PERSISTENT = 2**63 - 1
ZERO_WIDTH_SPACE = "\u200b"
# Opcodes of the pickles that PyTorch's viewer reads, and items that CPython appends at once.
VIEWER_OPCODES = set("PROTO EMPTY_DICT EMPTY_LIST EMPTY_TUPLE MARK BININT1 BININT2 BININT LONG1 SHORT_BINUNICODE BINUNICODE NEWTRUE "
                     "NEWFALSE TUPLE2 MEMOIZE BINGET LONG_BINGET APPENDS SETITEMS STOP".split())
BATCH_MAX = 1000


def names_of(blocks):
    """Places of blocks and their bytes, as often as they are there."""
    return collections.Counter((int(block["device_addr"], 16), int(block["size"])) for block in blocks)


def first_difference(got, want):
    for place, (left, right) in enumerate(zip(got, want)):
        if left != right:
            return f"at {place}: got {left!r}, want {right!r}"
    return f"{len(got)} of {len(want)}"


# --- snapshot ----------------------------------------------------------------------------------------------------

def check_pickle_subset(data):
    """Only what the viewer reads, in batches that it can take."""
    marks, depth = [], 0
    for opcode, argument, _ in pickletools.genops(data):
        check(opcode.name in VIEWER_OPCODES, "the viewer does not know the opcode", opcode.name)
        if opcode.name == "MARK":
            marks.append(depth)
            depth = 0
        elif opcode.name in ("APPENDS", "SETITEMS"):
            check(opcode.name == "SETITEMS" or depth <= BATCH_MAX, f"{depth} items in one batch")
            depth = marks.pop()
        elif opcode.name == "TUPLE2":
            depth -= 1
        elif opcode.name not in ("PROTO", "MEMOIZE", "STOP"):
            depth += 1
        check(not isinstance(argument, int) or abs(argument) < 2**53, "an integer that a double has not:", argument)


def frames_shown(block):
    """What a snapshot must have as the frames of a block behind that of its operator: innermost first."""
    stack = frames_of(block["python_stack"] or block.get("forward_stack", ""))
    return [(file, int(line), function) for file, line, function in reversed(stack)]


def check_snapshot_frames(events, blocks):
    by_place = collections.defaultdict(list)
    for block in blocks:
        by_place[int(block["device_addr"], 16), block["size"]].append(block)
    for event in events:
        frames = [(frame["filename"], frame["line"], frame["name"].replace(ZERO_WIDTH_SPACE, "")) for frame in event["frames"]]
        rest = [(file.replace(ZERO_WIDTH_SPACE, ""), line, name) for file, line, name in frames[1:]]
        check(any(clean(rest) == clean(frames_shown(block)) and frames[0][2].startswith(block["node_name"])
                  and frames[0][0].startswith(block["task_name"]) for block in by_place[event["addr"], event["size"]]),
              "frames that no block there has:", frames)


def clean(frames):
    """Names without what the text of a stack in the CSV has replaced."""
    return [(re.sub("[|;,]", "_", file), line, re.sub("[|;,]", "_", name)) for file, line, name in frames]


def check_snapshot(truth, path, viewer=True):
    with open(path, "rb") as source:
        data = source.read()
    check_pickle_subset(data)
    snapshot = pickle.loads(data)
    check_equal(len(snapshot["device_names"]), len(snapshot["device_traces"]), "devices")
    seen = {}
    if viewer:
        import json
        done = subprocess.run(["node", os.path.join(HERE, "viewer.js"), path], capture_output=True, text=True)
        check(done.returncode == 0, "the viewer fails:", done.stderr[-600:])
        seen = json.loads(done.stdout)
    for number, name in enumerate(snapshot["device_names"]):
        blocks = [block for block in truth.blocks if block["device"] == name]
        trace = snapshot["device_traces"][number]
        made = [event for event in trace if event["action"] == "alloc"]
        freed = [event for event in trace if event["action"] == "free_completed"]
        new = [block for block in blocks if not block["preexisting"]]
        check_equal(collections.Counter((event["addr"], event["size"]) for event in made), names_of(new), f"blocks of {name}")
        check_equal(collections.Counter(event["category"] for event in made), collections.Counter(block["type"] for block in new),
                    "categories")
        ended = [block for block in blocks if block["end_time_stamp"] != PERSISTENT]
        check_equal(collections.Counter((event["addr"], event["size"]) for event in freed), names_of(ended), f"frees of {name}")
        left = [(block["address"], block["size"]) for segment in snapshot["segments"] if segment["device"] == number
                for block in segment["blocks"] if block["state"] == "active_allocated"]
        want = [(int(block["device_addr"], 16), block["held"]) for block in blocks if block["end_time_stamp"] == PERSISTENT]
        check_equal(sorted(left), sorted(want), f"what is left on {name}")
        check_snapshot_frames(made, new)
        check_equal(sum(event["action"] == "oom" for event in trace),
                    sum(event["device"] == name for event in truth.live["out_of_memory"]), "out of memory")
        if viewer and blocks:
            check_equal(seen["devices"][number]["timeline"]["highest"], highest_size(blocks), f"highest total of {name}")


def highest_size(blocks):
    changes = sorted([(block["from"], 1, block["size"]) for block in blocks if not block["preexisting"]]
                     + [(block["until"], 0, -block["size"]) for block in blocks if block["end_time_ns"] is not None])
    total = most = sum(block["size"] for block in blocks if block["preexisting"])
    for _, _, change in changes:
        total += change
        most = max(most, total)
    return most


# --- folded --------------------------------------------------------------------------------------------------------

def folded_of(path):
    lines = collections.Counter()
    with open(path, encoding="utf-8", newline="\n") as source:
        for line in source:
            match = re.fullmatch(r"(\S.*) (\d+)\n", line)  # as speedscope and flamegraph.pl take it apart
            check(match, "a line that is not 'stack bytes':", repr(line))
            check(match[1] not in lines, "the same stack twice:", match[1])
            lines[match[1]] += int(match[2])
    return lines


def folded_want(truth, blocks):
    several = sum(device["reported"] for device in truth.live["devices"].values()) > 1
    lines = collections.Counter()
    for block in blocks:
        stack = frames_of(block["python_stack"] or block.get("forward_stack", ""))
        frames = [f"{function} ({file}:{line})" for file, line, function in stack] + [block["node_name"]]
        text = ";".join(frame.replace(";", ",") for frame in ([block["device"]] if several else []) + frames)
        lines[text.replace("|", "_")] += block["held"]
    return lines


def check_folded(truth, peak, allocated):
    peaks = {name: device["peak"]["time_ns"] - truth.first for name, device in truth.live["devices"].items() if device.get("peak")}
    alive = [block for block in truth.blocks if block["from"] <= peaks[block["device"]] < block["until"] or
             (block["preexisting"] and peaks[block["device"]] < block["until"])]
    for path, blocks in ((peak, alive), (allocated, [block for block in truth.blocks if not block["preexisting"]])):
        got, want = folded_of(path), folded_want(truth, blocks)
        got = collections.Counter({name.replace("|", "_"): 0 for name in got}) + collections.Counter()
        for name, value in folded_of(path).items():
            got[name.replace("|", "_")] += value
        check(got == want, f"{os.path.basename(path)}:", first_difference(sorted(got.items()), sorted(want.items())))


# --- sqlite ---------------------------------------------------------------------------------------------------------

def texts_of(rows):
    return [tuple("" if value is None else str(value) for value in row) for row in rows]


def check_table(database, query, rows, columns, what):
    got, want = texts_of(database.execute(query)), [tuple(row[column] for column in columns) for row in rows]
    check(got == want, f"{what}:", first_difference(got, want))


def check_collective_blocks(database, report, at):
    """The lists of rows in the collectives CSV, block by block."""
    rows = report._rows("collectives") if os.path.exists(report.path("collectives.csv")) else []
    first = database.execute(f"SELECT min(block) FROM blocks {at}").fetchone()[0]
    lists = collections.defaultdict(list)
    for number, role, block in database.execute("SELECT collective - (SELECT min(collective) FROM collectives " + at + "), role, block "
                                                f"FROM collective_blocks JOIN collectives USING (collective) {at} ORDER BY collective_blocks.rowid"):
        lists[number, role].append(str(block - first))
    for number, row in enumerate(rows):
        for role in ("input", "output", "copy"):
            check_equal("-".join(lists[number, role]), row[role + "_blocks"].strip("{}"), f"{role} blocks of collective {number}")


def check_database(path, reports):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    check_equal(list(database.execute("PRAGMA integrity_check")), [("ok",)], "integrity")
    check_equal(list(database.execute("PRAGMA foreign_key_check")), [], "rows that lead nowhere")
    check_equal([row[0] for row in database.execute("SELECT rank FROM ranks ORDER BY rank")], [report.rank for report in reports], "ranks")
    for report in reports:
        at = f"WHERE rank = {report.rank}"
        memory, tasks = report.rows, report.tasks
        columns = [column for column in memory[0] if column != "pool_type"]
        check_table(database, f"SELECT {','.join(columns)} FROM memory {at}", memory, columns, "memory CSV")
        columns = ["task_index", "time_ns", "thread_id", "step", "task_name", "node_name", "graph_name", "live_bytes", "launches",
                   "forward_task"]
        check_table(database, f"SELECT {','.join(columns)} FROM tasks JOIN operators USING (operator) JOIN modules USING (module) {at} "
                    "ORDER BY task_index", tasks, columns, "tasks CSV")
        steps = report.steps
        if steps:
            check_table(database, f"SELECT {','.join(steps[0])} FROM steps {at} ORDER BY step", steps, list(steps[0]), "steps CSV")
        for name, columns in (("segments", ["start_time_ns", "end_time_ns", "size", "memory", "function", "caller", "allocator", "certain"]),
                              ("collectives", ["time_ns", "communicator", "group_rank", "group_size", "sequence", "kind", "reduce_op",
                                               "dtype", "bytes", "output_bytes", "peer", "in_place", "bucket", "step", "task_name",
                                               "thread_id", "matched_ranks", "skew_ns", "wait_ns", "differs", "layer", "task_index", "small", "divided",
                                               "communication_bytes", "duration_ns", "host_wait_ns"])):
            rows = report._rows(name) if os.path.exists(report.path(name + ".csv")) else []
            if rows:
                check_table(database, f"SELECT {','.join(columns)} FROM {name} {at} ORDER BY {name[:-1]}", rows, columns, name + " CSV")
            check_equal(database.execute(f"SELECT count(*) FROM {name} {at}").fetchone()[0], len(rows), name)
        blocks = report.json["memory_blocks"]
        check_table(database, f"SELECT device, owner, size FROM memory {at}",
                    [{"device": b["device"], "owner": b["owner"] or "", "size": str(b["size"])} for b in blocks],
                    ["device", "owner", "size"], "owners")
        check_collective_blocks(database, report, at)
        frames = [frame for (text,) in database.execute(f"SELECT python_stack FROM stacks {at}") for frame in frames_of(text)]
        check_equal(database.execute(f"SELECT count(*) FROM stack_frames JOIN stacks USING (stack) {at}").fetchone()[0], len(frames), "frames")
    database.close()


# --- perfetto -------------------------------------------------------------------------------------------------------

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{number: [values]} of a message: numbers, and bytes that may be messages again."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            check(tag & 7 == 2, "wire type", tag & 7)
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        check(at <= len(data), "a message is cut off")
        found[tag >> 3].append(value)
    return found


class Trace:
    """Tracks, slices (with depth), counters and instants of a trace, as Perfetto reads it."""

    def __init__(self, path):
        self.tracks, self.slices, self.counters, self.instants = {}, [], collections.defaultdict(list), []
        with open(path, "rb") as source:
            packets = [fields(packet) for packet in fields(source.read())[1]]
        known, events = {}, []
        for packet in packets:
            sequence = packet[10][0]
            if packet[13] == [1]:
                known[sequence] = collections.defaultdict(dict)
            for data in packet[12]:
                self._intern(known[sequence], fields(data))
            for data in packet[60]:
                self._track(fields(data))
            for data in packet[11]:
                events.append((packet[8][0], len(events), fields(data), known[sequence]))
        self._replay(sorted(events, key=lambda event: event[:2]))

    @staticmethod
    def _intern(known, data):
        for kind in (1, 2, 3, 4):
            for entry in map(fields, data[kind]):
                known[kind][entry[1][0]] = entry[2][0].decode() if kind != 4 else \
                    (entry[2][0].decode(), entry[3][0].decode(), entry[4][0] if entry[4] else 0)

    def _track(self, data):
        process, thread = [fields(part) for part in data[3]], [fields(part) for part in data[4]]
        name = process[0][6][0] if process else thread[0][5][0] if thread else data[2][0]
        self.tracks[data[1][0]] = {"name": name.decode(), "parent": data[5][0] if data[5] else None, "process": bool(process),
                                   "pid": (process or thread or [{1: [None]}])[0][1][0], "tid": thread[0][2][0] if thread else None,
                                   "counter": bool(data[8])}

    def _replay(self, events):
        open_ = collections.defaultdict(list)
        for time, _, event, known in events:
            track, type_ = event[11][0], event[9][0]
            check(track in self.tracks, "an event on no track")
            if type_ == 4:
                self.counters[track].append((time, event[30][0]))
                continue
            if type_ == 2:
                check(open_[track], "the end of a slice that never began")
                open_[track].pop()["end"] = time
                continue
            notes = {known[3][note[1][0]]: note[4][0] - (note[4][0] >> 63 << 64) for note in map(fields, event[4])}
            one = {"track": track, "time": time, "kind": known[1][event[3][0]], "name": known[2][event[10][0]], "notes": notes,
                   "place": known[4][event[34][0]] if event[34] else None, "flow": event[47] + event[48], "last": bool(event[48]),
                   "parents": list(open_[track])}
            if type_ == 1:
                open_[track].append(one)
                self.slices.append(one)
            else:
                self.instants.append(one)
        check(not any(open_.values()), "slices that never end")

    def process(self, track):
        """The rank that a track belongs to."""
        track = self.tracks[track]
        for other in self.tracks.values():
            if other["process"] and (self.tracks.get(track["parent"]) is other or (track["tid"] and track["pid"] == other["pid"])
                                     or track is other):
                return int(other["name"].split()[1])
        return None


def check_operators(trace, report, offset):
    slices = [one for one in trace.slices if one["kind"] == "operator" and trace.process(one["track"]) == report.rank]
    tasks = [task for task in report.tasks if task["task_name"] != "initialization"]
    got = sorted((one["notes"]["task"], one["name"], trace.tracks[one["track"]]["tid"], one["notes"]["live_bytes"],
                  one["parents"][0]["name"]) for one in slices if "task" in one["notes"])
    want = sorted((int(task["task_index"]), task["node_name"], int(task["thread_id"]), int(task["live_bytes"]), task["task_name"])
                  for task in tasks)
    check(got == want, f"operators of rank {report.rank}:", first_difference(got, want))
    times = {one["notes"]["task"]: one["time"] for one in slices if "task" in one["notes"]}
    check(all(times[int(task["task_index"])] - offset >= int(task["time_ns"]) for task in tasks), "operators begin before they did")
    for one in slices:
        check(one["parents"][0]["kind"] == "phase" and all(parent["kind"] == "module" for parent in one["parents"][1:]), "parents of", one)
        check(all(parent["end"] >= one["end"] >= one["time"] for parent in one["parents"]), "an operator outlasts its parents")
    by_task = {one["notes"]["task"]: one for one in slices if "task" in one["notes"]}
    for task in tasks:
        one = by_task[int(task["task_index"])]
        check(task["task_name"] not in ("forward", "recompute") or not task["graph_name"]
              or task["graph_name"] in [parent["name"] for parent in one["parents"]], "the module of", task)
        check((one["place"] or ("", "", 0))[0] == task["file_name"], "the place of", task)


def check_counters(trace, report, truth, offset):
    for device in {block["device"] for block in truth.blocks}:
        blocks = [block for block in truth.blocks if block["device"] == device]
        counters = {track["name"][len(device) + 1:]: trace.counters[number] for number, track in trace.tracks.items()
                    if track["counter"] and track["name"].startswith(device + " ") and trace.process(number) == report.rank}
        left = collections.Counter(block["type"] for block in blocks)
        check_equal(set(counters), set(left) | {"blocks"}, "counters of " + device)
        for name, values in counters.items():
            mine = [block for block in blocks if name in ("blocks", block["type"])]
            check_equal(values[-1][1], sum(block["held"] for block in mine if block["end_time_stamp"] == PERSISTENT), name + " at the end")
            changes = sorted([(block["from"], 1, block["held"]) for block in mine if not block["preexisting"]]
                             + [(block["until"], 0, -block["held"]) for block in mine if block["end_time_ns"] is not None])
            total = most = sum(block["held"] for block in mine if block["preexisting"])
            for _, _, change in changes:
                total += change
                most = max(most, total)
            check_equal(max(value for _, value in values), most, "highest " + name)


def check_collectives(trace, reports):
    rows = [(report.rank, row) for report in reports if os.path.exists(report.path("collectives.csv"))
            for row in report._rows("collectives")]
    slices = [one for one in trace.slices if one["kind"] == "collective"]
    check_equal(len(slices), len(rows), "collectives")
    for rank, row in rows:
        one = next(one for one in slices if trace.process(one["track"]) == rank and one["name"] == row["kind"]
                   and one["notes"]["communicator"] == int(row["communicator"]) and one["end"] - one["time"] == int(row["duration_ns"] or row["wait_ns"] or 0)
                   and one["notes"].get("sequence") == (int(row["sequence"]) if row["sequence"] else None) and "taken" not in one)
        one["taken"] = True
        matched = int(row["matched_ranks"] or 0)
        check_equal(len(one["flow"]), int(matched > 1), "flows of a collective")
        check_equal(one["last"], matched > 1 and int(row["last_rank"]) == rank, "the end of a flow")
        if matched > 1:
            same = [other for other in slices if other["flow"] == one["flow"]]
            check_equal((len(same), len({trace.process(other["track"]) for other in same}), len({other["name"] for other in same})),
                        (matched, matched, 1), "ranks that a flow leads through")
            check_equal(max(same, key=lambda other: other["time"])["last"], True, "who ends a flow")
    return len({one["flow"][0] for one in slices if one["flow"]})


def check_trace(path, reports):
    trace = Trace(path)
    check_equal(sorted(int(track["name"].split()[1]) for track in trace.tracks.values() if track["process"]),
                [report.rank for report in reports], "processes")
    for report in reports:
        truth = Truth(report)
        check_operators(trace, report, 0)
        check_counters(trace, report, truth, 0)
        steps = [one for one in trace.slices if one["kind"] == "step" and trace.process(one["track"]) == report.rank]
        want = [(int(step["start_time_ns"]), int(step["duration_ns"])) for step in report.steps]
        check(not want or [(one["time"], one["end"] - one["time"]) for one in steps] == want, "steps of rank", report.rank)
        exhausted = [one["notes"]["bytes"] for one in trace.instants if one["name"].startswith("out of memory")
                     and trace.process(one["track"]) == report.rank]
        check_equal(exhausted, [event["requested_bytes"] for event in truth.live["out_of_memory"]], "out of memory")
    return check_collectives(trace, reports)


# --- MindSpore ------------------------------------------------------------------------------------------------------

def unquoted_lines(path):
    with open(path, encoding="utf-8", newline="\n") as source:
        lines = source.read().split("\n")
    check_equal(lines.pop(), "", "behind the last line")
    check(all(line.endswith(",") for line in lines), "a line without a comma at its end")
    return [line[:-1].split(",") for line in lines]


def check_mindspore(report, folder):
    blocks = unquoted_lines(os.path.join(folder, f"rank_{report.rank}", "memory_block.csv"))
    columns = [column for column in report.rows[0] if "plot" not in column]
    check_equal((blocks[0], len(columns)), (columns, 20), "columns")
    want = [[row[column].replace(",", "_") for column in columns] for row in report.rows]
    check(blocks[1:] == want, "blocks:", first_difference(blocks[1:], want))
    tasks = unquoted_lines(os.path.join(folder, f"rank_{report.rank}", "task.csv"))
    check_equal(tasks[0], "time_stamp,task_name,node_name,graph_name,file_name,line_num,python_stack".split(","), "columns of tasks")
    columns = ["task_index", "task_name", "node_name", "graph_name", "file_name", "line_num"]
    want = [[task[column].replace(",", "_") for column in columns] for task in report.tasks]
    check([row[:-1] for row in tasks[1:]] == want, "tasks:", first_difference([row[:-1] for row in tasks[1:]], want))


def check_all(folder, ranks=(0,), viewer=True):
    """Returns how many collectives flow between ranks."""
    csv.field_size_limit(1 << 24)
    reports = [Report(folder, rank) for rank in ranks]
    for report in reports:
        truth = Truth(report)
        for block in truth.blocks:  # the JSON keeps line breaks
            block["node_name"] = re.sub("[\r\n]", " ", block["node_name"])
        check_snapshot(truth, report.path("snapshot.pickle"), viewer)
        check_folded(truth, report.path("peak.folded"), report.path("allocated.folded"))
    check_database(os.path.join(folder, "job.sqlite"), reports)
    return check_trace(os.path.join(folder, "job.pftrace"), reports)


if __name__ == "__main__":
    check_all(sys.argv[1], tuple(map(int, sys.argv[2:])) or (0,))
