"""What report.html must show, worked out from the CSV and the JSON of a rank in another way than the page does."""
import collections
import re

FOREVER = float("inf")


def frames_of(stack):
    return [re.fullmatch(r"File:(.*);Line:(\d+);Function:(.*)", frame, re.DOTALL).groups()
            for frame in stack.split("|")] if stack else []


def own_line(block):
    """The innermost line outside PyTorch, of the forward pass where that is known."""
    frames = frames_of(block.get("forward_stack", block["python_stack"]))
    own = [frame for frame in frames if "-packages/torch/" not in frame[0] and not frame[0].startswith("<")]
    file, line, _ = (own or frames or [("", "", "")])[-1]
    return f"{file}:{line}" if file or line else "no Python frame"


class Truth:
    """One rank as its JSON has it."""

    def __init__(self, report):
        self.json = report.json
        self.live, self.blocks = self.json["live"], self.json["memory_blocks"]
        self.first = self.live["first_time_ns"]
        for block in self.blocks:
            block["held"] = block["allocated_bytes"] or block["size"]
            block["from"] = block["start_time_ns"] - self.first
            block["until"] = FOREVER if block["end_time_ns"] is None else block["end_time_ns"] - self.first

    def alive(self, time):
        return [block for block in self.blocks if block["from"] <= time < block["until"]]

    def highest(self, begin=0, end=FOREVER):
        """Most bytes of rows at once, from one time to another."""
        changes = sorted([(block["from"], 1, block["held"]) for block in self.blocks]
                         + [(block["until"], 0, -block["held"]) for block in self.blocks if block["until"] < FOREVER])
        total = most = 0
        for time, _, change in changes:
            if time > begin:
                most = max(most, total)  # what was there when it began counts
            if time > end:
                break
            total += change
        else:
            most = max(most, total)
        return most

    def within(self, begin, end):
        return [block for block in self.blocks if block["from"] <= end and block["until"] >= begin]

    def peak_by_tasks(self, after_last_use):
        changes = collections.Counter()
        for block in self.blocks:
            end = block["end_time_stamp"]
            if after_last_use and not block.get("remainder"):
                end = (block["user_tasks"] or [block["start_time_stamp"]])[-1] + 1
            changes[block["start_time_stamp"]] += block["size"]
            changes[end] -= block["size"]
        total = most = 0
        for task in sorted(changes):
            total += changes[task]
            most = max(most, total)
        return most

    def by(self, key, blocks):
        sums = collections.Counter()
        for block in blocks:
            sums[key(block)] += block["held"]
        return sums


def held_after(row):
    if row["is_persistent"] == "1":
        return 0
    return int(row["end_time_stamp"]) - int(row["last_user_task"] or row["start_time_stamp"])
