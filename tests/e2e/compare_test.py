"""The comparison itself: a report with a fault gets a worse figure, and only that one."""
import csv
import os
import shutil

import compare
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
            ("stack", "python_stack", "")):
        wrong = faulty(context, "memory", swap(field, value))
        check(figure in wrong, f"a wrong {field} does not show in {figure}: {wrong}")


@test(needs_bpf=False)
def test_comparison_does_not_mind_the_order_of_outputs_of_one_operator(context):
    def turned(rows):
        rows.sort(key=lambda row: (int(row["start_time_stamp"]), -int(row["size"]), row["device_addr"]))
    check_equal(faulty(context, "memory", turned), [], "figures out of bounds")
