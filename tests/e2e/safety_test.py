"""Do no harm, and say in one line what cannot be done."""
import os
import shutil
import signal
import tempfile

from harness import COMPLETE, FAILED, LOST, PYTHON, USAGE, check, check_equal, program_path, test, wait_until

NOBODY = "65534"
JOB_GROWTH_KIB = 16384  # copies of code pages that held probes, once
PID_UNUSED = str((1 << 22) - 1)  # the largest pid that Linux gives


def check_refused(process, *words, codes=(FAILED, USAGE), lines=3):
    """One clear message on stderr, nothing on stdout."""
    check(process.code in codes, f"exit code {process.code}, want {codes}: {process}")
    check_equal(process.out, "", f"stdout of {process}")
    said = process.err.splitlines()
    check(1 <= len(said) <= lines, f"{len(said)} lines on stderr, want one or two: {process}")
    for word in words:
        check(word.lower() in process.err.lower(), f"the message does not say {word!r}: {process}")


def process_state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as source:
        return source.read().rpartition(")")[2].split()[0]


def memory_of(pid):
    """Resident KiB of a process."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as source:
        return next(int(line.split()[1]) for line in source if line.startswith("VmRSS:"))


def check_nothing_left(context, out="out"):
    folder = context.path(out)
    left = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    check(not left, "files are left behind:", left)


@test
def test_a_thousand_exceptions_do_not_disturb_the_job(context):
    plain = context.run(PYTHON, program_path("exceptions"))
    traced = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", PYTHON,
                         program_path("exceptions"))
    check_equal(traced.code, 0, f"exit code of {traced}")
    check(traced.out == plain.out and "caught 1000" in plain.out, f"output differs: {plain} {traced}")
    check_equal(context.report().live["complete"], True, "complete")


@test(each=("run", "attach"))
def test_a_target_under_a_seccomp_filter_lives(context, how):
    if how == "run":
        job = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", PYTHON,
                          program_path("seccomp"), "10")
    else:
        job = context.trained("seccomp", "200")
        context.attach(job, "-d", "2").check_code(COMPLETE)
        job.wait()
    check(job.code == 0 and "alive" in job.out, f"the job died: {job}")
    check(context.report().tasks, "no task in the report")


@test
def test_dead_pid_is_refused(context):
    check_refused(context.run(context.hdtrace, "-p", PID_UNUSED, "-o", context.path("out")), PID_UNUSED)
    check_nothing_left(context)


@test(each=("0", "-1", "abc", "99999999999999999999", "1 2", ""), needs_bpf=False)
def test_malformed_pid_is_a_usage_error(context, pid):
    check_refused(context.run(context.hdtrace, "-p", pid, "-o", context.path("out")), codes=(USAGE,))
    check_nothing_left(context)


@test
def test_process_without_pytorch_is_refused(context):
    other = context.start("/bin/sleep", "300")
    check_refused(context.run(context.hdtrace, "-p", other.pid, "-o", context.path("out"), "-d", "2"), "pytorch",
                  str(other.pid), codes=(FAILED,))
    check_nothing_left(context)
    other.check_alive()


@test
def test_kernel_thread_is_refused(context):
    check_refused(context.run(context.hdtrace, "-p", "2", "-o", context.path("out"), "-d", "2"))
    check_nothing_left(context)


@test
def test_zombie_is_refused(context):
    parent = context.start(PYTHON, "-c", "import subprocess, time; p = subprocess.Popen(['/bin/true']); "
                           "print('child', p.pid, flush=True); time.sleep(300)")
    pid = wait_until(lambda: parent.out.split()[-1:], "no child")[0]
    wait_until(lambda: process_state(pid) == "Z", "no zombie")
    check_refused(context.run(context.hdtrace, "-p", pid, "-o", context.path("out"), "-d", "2"))
    check_nothing_left(context)


@test
def test_hdtrace_refuses_to_trace_itself(context):
    """The shell's pid becomes hdtrace's by exec."""
    check_refused(context.run("/bin/sh", "-c", f'exec "$0" -p $$ -d 2 -o "{context.path("out")}"', context.hdtrace))
    check_nothing_left(context)


@test
def test_unprivileged_user_is_told_what_is_missing(context):
    job = context.trained("loop")
    folder = tempfile.mkdtemp(prefix="hdtrace-test-")
    try:
        os.chmod(folder, 0o777)
        program = os.path.join(folder, "hdtrace")
        shutil.copy(context.hdtrace, program)
        os.chmod(program, 0o755)
        process = context.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all",
                              program, "-p", job.pid, "-d", "2", "-o", os.path.join(folder, "out"))
        check_refused(process, codes=(FAILED,))
        check(any(word in process.err.lower() for word in ("root", "privilege", "cap_", "permission")),
              f"the message does not say what is missing: {process}")
        check(not os.path.exists(os.path.join(folder, "out")), "an output folder was left behind")
    finally:
        shutil.rmtree(folder)
    context.wait_steps(job, 2)


@test
def test_root_that_may_not_open_mapped_files_is_told(context):
    """A container's root: BPF is allowed, /proc/PID/map_files is not."""
    job = context.trained("loop")
    dropped = "-sys_admin,-checkpoint_restore"
    check_refused(context.run("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}", context.hdtrace, "-p",
                              job.pid, "-d", "2", "-o", context.path("out")), "permission", codes=(FAILED,))
    check_nothing_left(context)
    context.wait_steps(job, 2)


@test
def test_job_of_another_user_can_be_traced_by_root(context):
    job = context.start("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", PYTHON,
                        program_path("loop"))
    context.wait_steps(job, 2)
    context.attach(job, "--steps", "3").check_code(COMPLETE)
    check(context.report().tasks, "no task in the report")
    job.check_alive()


@test(each=("under_a_file", "in_proc"))
def test_output_folder_that_cannot_be_made_is_refused(context, where):
    job = context.trained("loop")
    with open(context.path("file"), "w", encoding="utf-8"):
        pass
    out = {"under_a_file": context.path("file", "out"), "in_proc": "/proc/hdtrace-out"}[where]
    check_refused(context.run(context.hdtrace, "-p", job.pid, "-d", "2", "-o", out), os.path.basename(out),
                  codes=(FAILED,))
    context.wait_steps(job, 2)


@test
def test_output_that_fails_while_writing_is_told(context):
    """A file size limit makes writes fail in the middle, as a full disk does."""
    job = context.trained("loop", "--pause", "0.001")
    process = context.run("/bin/sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$0" "$@"', context.hdtrace, "-p", job.pid,
                          "-d", "4", "-o", context.path("out"))
    check(process.code in (FAILED, LOST), f"exit code {process.code}: {process}")
    check("cannot write" in process.err, f"not told: {process}")
    context.wait_steps(job, 2)


@test
def test_full_disk_ends_the_trace_and_is_told(context):
    job = context.trained("loop", "--pause", "0.001")
    os.makedirs(context.path("disk"))
    script = f'mount -t tmpfs -o size=64k none {context.path("disk")}; "$0" "$@"; code=$?; ' \
             f'"$0" report -q {context.path("disk", "out")} -o {context.path("out")}; exit $code'
    process = context.run("unshare", "--mount", "/bin/sh", "-c", script, context.hdtrace, "-p", job.pid, "-d", "30",
                          "-o", context.path("disk", "out"), timeout=20)
    check(process.code in (FAILED, LOST), f"exit code {process.code}: {process}")
    check("No space left" in process.err, f"the reason is not told: {process}")
    check_equal(context.report().live["complete"], False, "complete")
    context.wait_steps(job, 2)


@test
def test_read_only_disk_is_refused(context):
    os.makedirs(context.path("disk"))
    script = f'mount -t tmpfs -o ro none {context.path("disk")}; exec "$0" "$@"'
    check_refused(context.run("unshare", "--mount", "/bin/sh", "-c", script, context.hdtrace, "-p", "1", "-o",
                              context.path("disk")), "read-only", codes=(FAILED,))


@test
def test_refused_trace_leaves_an_older_one_alone(context):
    os.makedirs(context.path("out"))
    with open(context.path("out", "capture.hdt"), "w", encoding="utf-8") as older:
        older.write("older")
    context.run(context.hdtrace, "-p", PID_UNUSED, "-o", context.path("out")).check_code(FAILED)
    other = context.start("/bin/sleep", "300")
    context.run(context.hdtrace, "-p", other.pid, "-d", "0.5", "-o", context.path("out")).check_code(FAILED)
    with open(context.path("out", "capture.hdt"), encoding="utf-8") as older:
        check_equal(older.read(), "older", "the older capture")


@test(each=("ended", "killed"))
def test_nothing_is_left_in_the_kernel_after_the_end(context, how):
    """Links, programs and maps go with the tracer, also when it is killed."""
    job = context.trained("loop")

    def links():
        listed = context.run("/usr/sbin/bpftool", "link", "list")
        check_equal(listed.code, 0, f"exit code of {listed}")
        return listed.out.count(f"pid {job.pid} ")
    before = memory_of(job.pid)
    for cycle in range(3):
        tracer = context.attached(job, out=f"out-{cycle}")
        check(links() > 3, f"{links()} links while the trace is on")
        tracer.send(signal.SIGKILL if how == "killed" else signal.SIGINT)
        tracer.wait()
        wait_until(lambda: links() == 0, "links are left in the kernel", timeout=3)
    context.wait_steps(job, 3)
    check(memory_of(job.pid) - before < JOB_GROWTH_KIB, f"the job grew from {before} to {memory_of(job.pid)} KiB")
