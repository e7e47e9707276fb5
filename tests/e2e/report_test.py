"""`hdtrace report`: one capture, the same reports anywhere."""
import csv
import glob
import io
import os
import shutil

import invariants
from harness import COMPLETE, FAILED, JOBS, LOST, PYTHON, check, check_equal, program_path, test

MLP = os.path.join(JOBS, "mlp_adamw.py")
ODD = os.path.join(JOBS, "odd_names.py")


def captured(context, script=MLP):
    report = context.trace_run(script)
    capture = context.path("out", "capture.hdt")
    check(os.path.exists(capture), f"no capture.hdt in {os.listdir(context.path('out'))}")
    return report, capture


def report_again(context, *arguments, out="again", code=COMPLETE):
    process = context.run(context.hdtrace, "report", *arguments, "-o", context.path(out))
    check_equal(process.code, code, f"exit code of {process}")
    return context.report(out)


def check_same_files(got, want):
    check_equal(sorted(got), sorted(want), "files of the report")
    for name in want:
        check(got[name] == want[name], f"{name} is not the same: {len(got[name])} bytes, want {len(want[name])}")


@test
def test_report_in_another_folder_is_byte_identical(context):
    report, capture = captured(context)
    shutil.copy(capture, context.path("moved.hdt"))
    check_same_files(report_again(context, context.path("moved.hdt")).files(), report.files())


@test
def test_report_takes_a_folder_as_well_as_a_file(context):
    report, _ = captured(context)
    check_same_files(report_again(context, context.path("out")).files(), report.files())


@test
def test_report_needs_no_target_no_root_and_no_libraries(context):
    report, capture = captured(context)
    os.chmod(context.folder, 0o777)
    os.makedirs(context.path("again"))
    os.chmod(context.path("again"), 0o777)
    os.chmod(capture, 0o644)
    process = context.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", context.hdtrace, "report",
                          capture, "-o", context.path("again"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check_same_files(context.report("again").files(), report.files())


@test
def test_truncated_capture_gives_what_was_before_the_cut(context):
    report = context.trace_run(program_path("loop"), "--steps", "300", "--pause", "0.01")
    whole = [task["node_name"] for task in report.tasks]
    with open(context.path("out", "capture.hdt"), "rb") as source:
        data = source.read()
    found = []
    for part in (0.3, 0.6, 0.9):
        with open(context.path("cut.hdt"), "wb") as out:
            out.write(data[:int(len(data) * part)])
        process = context.run(context.hdtrace, "report", context.path("cut.hdt"), "-o", context.path(f"again-{part}"))
        check_equal(process.code, LOST, f"exit code of {process}")
        check("cut.hdt" in process.err, f"the damage is not told: {process}")
        cut = context.report(f"again-{part}")
        check_equal(cut.live["complete"], False, "complete")
        check(any("cut off" in line for line in cut.json["limitations"]), "no line in limitations")
        names = [task["node_name"] for task in cut.tasks] if cut.exists() else []
        check_equal(names, whole[:len(names)], "operators before the cut")
        found.append(len(names))
    check(found == sorted(found) and 0 < found[-1] < len(whole), f"operators before each cut: {found} of {len(whole)}")


@test(each=("header", "middle", "empty", "text"))
def test_damaged_capture_is_told_and_does_not_crash(context, damage):
    _, capture = captured(context)
    with open(capture, "rb") as source:
        data = bytearray(source.read())
    if damage == "header":
        data[3] ^= 0xFF
    elif damage == "middle":
        data[len(data) // 2] ^= 0xFF
    else:
        data = bytearray(b"" if damage == "empty" else b"this is no capture\n" * 100)
    with open(context.path("bad.hdt"), "wb") as out:
        out.write(data)
    process = context.run(context.hdtrace, "report", context.path("bad.hdt"), "-o", context.path("again"))
    check(process.code in ((LOST, FAILED) if damage == "middle" else (FAILED,)), f"exit code {process.code}: {process}")
    check("bad.hdt" in process.err, f"the message does not name the file: {process}")


@test
def test_missing_capture_is_refused(context):
    process = context.run(context.hdtrace, "report", context.path("none"), "-o", context.path("again"))
    check_equal(process.code, FAILED, f"exit code of {process}")
    check("none" in process.err, f"the message does not name the file: {process}")


@test
def test_json_is_valid_by_the_shipped_schema(context):
    report, _ = captured(context, os.path.join(JOBS, "transformer_recompute.py"))
    invariants.check_schema(report)


@test
def test_csv_is_what_pythons_csv_module_writes(context):
    """Names with commas, quotes and other scripts are quoted exactly as needed."""
    report, _ = captured(context, ODD)
    for kind in ("memory", "tasks"):
        with open(report.path(kind + ".csv"), "rb") as source:
            written = source.read()
        rows = list(csv.reader(io.StringIO(written.decode("utf-8"), newline="")))
        again = io.StringIO(newline="")
        csv.writer(again).writerows(rows)
        check(again.getvalue().encode("utf-8") == written, f"{kind}.csv is not in the dialect of Python's csv module")
    files = {row["file_name"] for row in report.rows}
    for name in ("/data/a,comma.py", '/data/a"quote".py', "/data/größe.py", "/data/训练.py"):
        check(name in files, f"{name} is not in", sorted(files))


@test
def test_pool_name_is_that_of_the_viewers_and_can_be_changed(context):
    report, capture = captured(context)
    check_equal({row["pool_type"] for row in report.rows}, {"DefaultEnhancedAscendMemoryPool"}, "pool_type")
    other = report_again(context, capture, "--pool-name", "my pool, really")
    check_equal({row["pool_type"] for row in other.rows}, {"my pool, really"}, "pool_type")


@test
def test_empty_users_option_gives_the_upstream_columns(context):
    _, capture = captured(context)
    other = report_again(context, capture, "--empty-users")
    check_equal({(row["user_tasks"], row["last_user_task"]) for row in other.rows}, {("{}", "")}, "users")
    check(any(block["user_tasks"] for block in other.json["memory_blocks"]), "the JSON has no users either")


@test
def test_all_blocks_option_adds_blocks_that_the_dry_run_cannot_see(context):
    report, capture = captured(context, os.path.join(JOBS, "literals.py"))
    more = report_again(context, capture, "--all-blocks")
    check(len(more.rows) > len(report.rows), f"{len(more.rows)} rows with --all-blocks, {len(report.rows)} without")


@test(each=("csv", "json", "csv,json"))
def test_format_option_chooses_the_files(context, formats):
    _, capture = captured(context)
    report = report_again(context, capture, "--format", formats)
    endings = {os.path.splitext(path)[1].lstrip(".") for path in glob.glob(os.path.join(report.folder, "rank_0", "*"))}
    check_equal(endings, set(formats.split(",")), "kinds of files")


@test
def test_no_temporary_file_remains(context):
    captured(context)
    left = [name for _, _, names in os.walk(context.path("out")) for name in names
            if name.startswith(".") or name.endswith(".tmp")]
    check(not left, "temporary files:", left)


@test
def test_summary_says_what_a_person_asks_first(context):
    """Lines are those of the job's own files, not of PyTorch's."""
    _, capture = captured(context)
    process = context.run(context.hdtrace, "report", capture, "-o", context.path("again"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    for word in ("peak", "optimizer", "mlp_adamw.py", "persistent", "events"):
        check(word in process.out.lower(), f"the summary does not say {word!r}: {process.out}")


@test
def test_summary_of_run_leaves_stdout_to_the_command(context):
    process = context.run(context.hdtrace, "run", "-o", context.path("out"), "--", PYTHON, "-c",
                          "import torch; torch.ones(3) + 1; print('mine')")
    check_equal((process.code, process.out), (COMPLETE, "mine\n"), f"exit code and stdout of {process}")
    check("peak" in process.err.lower(), f"no summary on stderr: {process}")


@test
def test_numpy_arrays_are_reported_as_external_once(context):
    report, _ = captured(context, os.path.join(JOBS, "numpy_inputs.py"))
    sizes = [entry["bytes"] for entry in report.live["externals"]]
    check_equal(sizes.count(64 * 12 * 4), 1, f"external storages of the images' size, of {sizes}")


@test
def test_steps_tell_their_micro_steps_and_phases(context):
    report = context.trace_run(os.path.join(JOBS, "accumulation.py"))
    steps = [step for step in report.steps if step["complete"] == "1"]
    check_equal([int(step["micro_steps"]) for step in steps], [4] * 3, "backward passes of each step")
    for step in steps:
        check(all(int(step[f"{phase}_ns"]) > 0 for phase in ("forward", "backward", "optimizer")), "a phase took no time:", step)
        check_equal(int(step["recompute_ns"]), 0, "time of recompute")
    invariants.check_steps(report)


@test(root="cuda", device="cuda")
def test_steps_of_a_job_on_a_device_tell_their_micro_steps(context):
    """The engine runs on a thread of its own there."""
    report = context.trace_run(os.path.join(JOBS, "accumulation.py"))
    check_equal([int(step["micro_steps"]) for step in report.steps if step["complete"] == "1"], [4] * 3, "backward passes")
