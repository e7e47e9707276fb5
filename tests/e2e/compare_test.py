"""The comparisons themselves: a report with a fault gets a worse figure, and one fault is enough for exact.py."""
import csv
import os
import shutil

import compare
import exact
from harness import JOBS, check, check_equal, test

JOB = os.path.join(JOBS, "mlp_adamw.py")


def change(folder, kind, edit):
    """Rewrite a CSV of a report after edit(rows)."""
    path = os.path.join(folder, "rank_0", f"rank_0_{kind}.csv")
    rows = compare.read_csv(folder, "0", kind)
    fields = list(rows[0])
    rows = edit(rows) or rows
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fields)
        writer.writeheader()
        writer.writerows(rows)


def faulty(context, kind, edit):
    """Figures that leave their bounds when a copy of the reference's report is edited."""
    folder = context.path("copy")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(context.reference(JOB), folder)
    change(folder, kind, edit)
    figures, _ = compare.compare(context.reference(JOB), folder)
    return compare.out_of_bounds(figures)


def every_third(rows):
    return rows[::3]


def swap(field, value):
    def edit(rows):
        for row in every_third(rows):
            row[field] = value(row) if callable(value) else value
    return edit


@test(needs_bpf=False)
def test_comparison_of_a_report_with_itself_is_perfect(context):
    figures, lines = compare.compare(context.reference(JOB), context.reference(JOB), show=5)
    check_equal((compare.out_of_bounds(figures), lines), ([], []), "figures out of bounds, differences")


@test(needs_bpf=False)
def test_comparison_finds_lost_and_extra_tasks(context):
    check("tasks" in faulty(context, "tasks", lambda rows: rows[::2]), "lost tasks are not found")
    check("extra_tasks" in faulty(context, "tasks", lambda rows: [row for row in rows for _ in range(2)]),
          "extra tasks are not found")


@test(needs_bpf=False)
def test_comparison_finds_lost_and_extra_rows(context):
    check("rows" in faulty(context, "memory", lambda rows: rows[::2]), "lost rows are not found")
    check("extra" in faulty(context, "memory", lambda rows: [row for row in rows for _ in range(2)]),
          "extra rows are not found")


@test(needs_bpf=False)
def test_comparison_finds_each_wrong_field(context):
    for figure, field, value in (
            ("lifetime", "end_time_stamp", lambda row: int(row["start_time_stamp"]) + 7),
            ("users", "user_tasks", "{1}"),
            ("plot", "start_plot_time_stamp", lambda row: row["start_time_stamp"] + ".000000000001"),
            ("phase", "task_name", "recompute"),
            ("leaf", "line_num", "1"),
            ("stack", "python_stack", ""),
            ("module", "graph_name", "Other.module"),
            ("type", "type", "Other")):
        wrong = faulty(context, "memory", swap(field, value))
        check(figure in wrong, f"a wrong {field} does not show in {figure}: {wrong}")


@test(needs_bpf=False)
def test_comparison_does_not_mind_the_order_of_outputs_of_one_operator(context):
    def turned(rows):
        rows.sort(key=lambda row: (int(row["start_time_stamp"]), -int(row["size"]), row["device_addr"]))
    check_equal(faulty(context, "memory", turned), [], "figures out of bounds")


# --- exact.py: one fault in one row ------------------------------------------------

BINARY = os.path.join(JOBS, "adversarial.py")  # the mode makes sub of sub_ and mul of mul_ there


def exact_faults(context, job, kind=None, edit=None):
    """Figures that are not perfect when a copy of the reference's report is edited."""
    folder = context.path("copy")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(context.reference(job), folder)
    if edit:
        change(folder, kind, edit)
    figures, faults = exact.compare_exactly(context.reference(job), folder)
    wrong = compare.out_of_bounds(figures, exact.EXACT)
    check(bool(wrong) == bool(faults), "faults without a figure:", faults[:3])
    return wrong


def middle(rows, likes=None):
    """A row of the middle that has users and dies."""
    return next(row for row in rows[len(rows) // 2:]
                if row["is_persistent"] != "1" and len(row["user_tasks"].split("-")) > 1 and (not likes or likes(row)))


def set_one(field, value, likes=None):
    def edit(rows):
        row = middle(rows, likes)
        row[field] = value(row)
    return edit


def fraction(row, side):
    """Where in its task a block starts or ends."""
    return float(row[side + "_plot_time_stamp"]) - int(row[side + "_time_stamp"])


def rename(was, now, phase="backward", count=1):
    """Give the first `count` tasks of a name another one."""
    def edit(tasks):
        for task in [task for task in tasks if task["node_name"] == was and task["task_name"] == phase][:count]:
            task["node_name"] = now
    return edit


@test(needs_bpf=False)
def test_exact_comparison_of_a_report_with_itself_is_perfect(context):
    for job in (JOB, BINARY):
        check_equal(exact_faults(context, job), [], "figures that are not perfect")


@test(needs_bpf=False)
def test_exact_comparison_finds_one_fault_in_one_row(context):
    for figure, field, value in (
            ("lifetime", "end_time_stamp", lambda row: int(row["end_time_stamp"]) + 3),
            ("lifetime", "end_time_stamp", lambda row: compare.PERSISTENT_END),
            ("users", "user_tasks", lambda row: "{" + row["user_tasks"].strip("{}").split("-")[0] + "}"),
            ("phase", "task_name", lambda row: "recompute"),
            ("leaf", "line_num", lambda row: "1"),
            ("stack", "python_stack", lambda row: row["python_stack"] + "|File:a;Line:1;Function:f"),
            ("rows", "size", lambda row: int(row["size"]) + 1),
            ("rows", "node_name", lambda row: "aten.other.default")):
        wrong = exact_faults(context, JOB, "memory", set_one(field, value))
        check(figure in wrong, f"a wrong {field} does not show in {figure}: {wrong}")


@test(needs_bpf=False)
def test_exact_comparison_finds_one_wrong_module_and_one_wrong_type(context):
    def change_last(field, counts):
        def edit(rows):
            [row for row in rows if counts(row)][-1][field] = "Other"
        return edit
    for figure, field, counts in (("module", "graph_name", lambda row: row["graph_name"]),
                                  ("type", "type", lambda row: row["is_persistent"] == "1")):
        wrong = exact_faults(context, JOB, "memory", change_last(field, counts))
        check_equal(wrong, [figure], f"what a wrong {field} shows in")


@test(needs_bpf=False)
def test_exact_comparison_finds_a_start_and_an_end_in_the_wrong_order(context):
    """An end before a start of the same task, moved behind it, and the other way round."""
    first = set_one("start_plot_time_stamp", lambda row: row["start_time_stamp"] + ".000000000001",
                    lambda row: fraction(row, "start") > 0.6)
    last = set_one("end_plot_time_stamp", lambda row: row["end_time_stamp"] + ".999999999999",
                   lambda row: 0.3 < fraction(row, "end") < 0.4)
    for edit in (first, last):
        check("plot" in exact_faults(context, JOB, "memory", edit), "a wrong order is not found")


@test(needs_bpf=False)
def test_exact_comparison_finds_one_row_more_or_less(context):
    check("rows" in exact_faults(context, JOB, "memory", lambda rows: rows.remove(middle(rows))),
          "a lost row is not found")
    check("extra" in exact_faults(context, JOB, "memory", lambda rows: rows.append(dict(middle(rows)))),
          "an extra row is not found")


@test(needs_bpf=False)
def test_exact_comparison_finds_one_task_more_or_less(context):
    check("tasks" in exact_faults(context, JOB, "tasks", lambda tasks: tasks.pop(60) and None),
          "a lost task is not found")
    check("extra_tasks" in exact_faults(context, JOB, "tasks", lambda tasks: tasks.insert(60, dict(tasks[60]))),
          "an extra task is not found")
    check("tasks" in exact_faults(context, JOB, "tasks", lambda tasks: tasks[60].update(line_num="1")),
          "a wrong line of a task is not found")
    check("tasks" in exact_faults(context, JOB, "tasks", lambda tasks: tasks[60].update(thread_id="1")),
          "a task on another thread is not found")
    check("extra_tasks" in exact_faults(context, JOB, "tasks", lambda tasks: tasks.insert(
        60, dict(tasks[60], node_name="aten.detach.default", line_num="1"))), "an invented detach is not found")


@test(needs_bpf=False)
def test_exact_comparison_allows_a_pair_of_names_only_with_its_rows(context):
    """hdtrace's mul_ for the reference's mul means one row less and a longer life of another."""
    check("extra" in exact_faults(context, BINARY, "tasks", rename("aten.mul.Tensor", "aten.mul_.Tensor")),
          "the row of a functional operator stays beside the in-place one and is not found")


@test(needs_bpf=False)
def test_exact_comparison_finds_swapped_names_that_are_no_pair(context):
    for was, now, phase in (
            ("aten.mm.default", "aten.addmm.default", "backward"),
            ("aten.mul_.Tensor", "aten.mul.Tensor", "optimizer"),  # the pair the other way round
            ("aten.mul.Tensor", "aten.sub_.Tensor", "backward"),
            ("aten.t.default", "aten.t_.default", "forward")):
        wrong = exact_faults(context, BINARY, "tasks", rename(was, now, phase))
        check("tasks" in wrong, f"{now} for {was} in {phase} is not found: {wrong}")
