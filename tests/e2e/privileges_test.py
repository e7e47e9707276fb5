"""Which capabilities tracing takes: with all of them it works, without any one of them it says so."""
import json
import os

from harness import COMPLETE, FAILED, PROGRAMS, PYTHON, check, check_equal, test

# docs/operations.md has a row for each, and packaging/kubernetes/hdtrace.yaml adds them.
CAPABILITIES = ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore")
NOBODY, SOMEBODY = "65534", "65533"


def limited(capabilities, *options):
    return ["setpriv", "--bounding-set=" + ",".join(["-all", *("+" + name for name in capabilities)]), *options]


def job_of_somebody_else(context, environment=None):
    """A job of a user who is not root; its text is an argument, since the user may read nothing of this tree."""
    with open(os.path.join(PROGRAMS, "loop.py"), encoding="utf-8") as source:
        job = context.start("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", PYTHON, "-c", source.read(),
                            environment=environment)
    context.wait_steps(job, 2)
    return job


@test(timeout=120)
def test_each_capability_is_needed_and_missed_by_name(context):
    job = job_of_somebody_else(context)
    whole = context.run(*limited(CAPABILITIES), context.hdtrace, "-p", job.pid, "--steps", "2", "-o", context.path("whole"))
    check_equal(whole.code, COMPLETE, f"exit code with all of them: {whole}")
    check_equal(context.report("whole").live["complete"], True, f"complete: {whole}")
    context.run(*limited(CAPABILITIES), context.hdtrace, "doctor", "-p", job.pid).check_code(COMPLETE)
    for missing in CAPABILITIES:
        rest = limited([name for name in CAPABILITIES if name != missing])
        doctor = context.run(*rest, context.hdtrace, "doctor", "--json").check_code(FAILED)
        failed = [entry["name"] for entry in json.loads(doctor.out) if entry["status"] == "fail"]
        check(f"CAP_{missing.upper()}" in failed, f"without {missing}, {failed} fail")
        check(set(failed) <= {f"CAP_{missing.upper()}", "BPF programs"}, f"without {missing}, {failed} fail")
        refused = context.run(*rest, context.hdtrace, "-p", job.pid, "-d", "1", "-o", context.path(missing)).check_code(FAILED)
        check("hdtrace doctor" in refused.err and "sudo" not in refused.err, f"advice without {missing}: {refused}")
    job.check_alive()


@test
def test_somebody_with_these_capabilities_traces_the_job_of_somebody_else(context):
    job = job_of_somebody_else(context)
    os.makedirs(context.path("open"))
    os.chmod(context.path("open"), 0o777)
    given = ",".join(["-all", *("+" + name for name in CAPABILITIES)])
    user = ["--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups", "--inh-caps=" + given, "--ambient-caps=" + given]
    traced = context.run(*limited(CAPABILITIES, *user), context.hdtrace, "-p", job.pid, "--steps", "2", "-o",
                         context.path("open", "out"))
    check_equal(traced.code, COMPLETE, f"exit code of {traced}")
    check_equal(os.stat(context.path("open", "out", "capture.hdt")).st_uid, int(SOMEBODY), "owner of the capture")
    check_equal(context.report(os.path.join("open", "out")).live["complete"], True, f"complete: {traced}")
    job.check_alive()
