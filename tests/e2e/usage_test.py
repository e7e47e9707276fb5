"""Arguments, help, and the doctor."""
import json
import re
import subprocess

from harness import COMPLETE, FAILED, PYTHON, TOP, USAGE, check, check_equal, test

VERBS = ("record", "run", "report", "explain", "diff", "doctor")
OPTIONS = {
    "record": ("--pid", "--output", "--duration", "--steps", "--until-oom", "--window", "--level", "--ring-size", "--all-blocks", "--pool-name",
               "--hooks", "--format", "--stats", "--quiet", "--verbose"),
    "run": ("--output", "--duration", "--steps", "--until-oom", "--window", "--level", "--ring-size", "--all-blocks", "--pool-name", "--hooks",
            "--format", "--stats", "--quiet", "--verbose"),
    "report": ("--output", "--format", "--pool-name", "--empty-users", "--all-blocks"),
    "explain": ("--json", "--device", "--device-memory"),
    "diff": ("--json", "--dry-run", "--tolerance", "--device"),
    "agent": ("--config", "--check", "--port-file"),
    "doctor": ("--pid", "--json"),
}
DOCTOR_CHECKS = (r"kernel", r"btf", r"lockdown", r"capabilit", r"paranoid|unprivileged", r"ring|memlock|memory")
DOCTOR_TARGET_CHECKS = (r"libtorch_cpu", r"1\.13", r"python|cpython", r"3\.11", r"symbol", r"instruction|emulat",
                        r"layout by the table", r"threads have their state")


@test(each=VERBS, needs_bpf=False)
def test_help_of_each_verb_names_its_options(context, verb):
    process = context.run(context.hdtrace, verb, "--help")
    check_equal((process.code, process.err), (COMPLETE, ""), f"exit code and stderr of {process}")
    for option in OPTIONS[verb]:
        check(option in process.out, f"{option} is not in the help of {verb}: {process}")


@test(needs_bpf=False)
def test_help_names_every_verb(context):
    process = context.run(context.hdtrace, "--help")
    check_equal((process.code, process.err), (COMPLETE, ""), f"exit code and stderr of {process}")
    for verb in VERBS:
        check(verb in process.out, f"{verb} is not in the help: {process}")


@test(needs_bpf=False)
def test_version_is_a_name_and_a_number(context):
    process = context.run(context.hdtrace, "--version")
    check(process.code == COMPLETE and re.match(r"^hdtrace \d+\.\d+\.\d+", process.out), process)


@test(each=("no arguments", "unknown verb", "unknown option", "no pid", "run without a command", "unknown level",
            "negative duration", "report without input", "duration that is no number", "steps without stacks",
            "too large a ring", "too small a window", "window that is no size", "window of a whole trace"), needs_bpf=False)
def test_usage_error(context, what):
    arguments = {
        "no arguments": (), "unknown verb": ("frobnicate",), "unknown option": ("-p", "1", "--frobnicate"),
        "no pid": ("record",), "run without a command": ("run",), "unknown level": ("-p", "1", "--level", "most"),
        "negative duration": ("-p", "1", "-d", "-3"), "report without input": ("report",),
        "duration that is no number": ("-p", "1", "-d", "soon"),
        "steps without stacks": ("-p", "1", "--steps", "3", "--level", "lite"),
        "too large a ring": ("-p", "1", "--ring-size", "2G"),
        "too small a window": ("-p", "1", "--until-oom", "--window", "1023K"),
        "window that is no size": ("-p", "1", "--until-oom", "--window", "0"),
        "window of a whole trace": ("-p", "1", "--window", "64M"),
    }[what]
    process = context.run(context.hdtrace, *arguments)
    check_equal((process.code, process.out), (USAGE, ""), f"exit code and stdout of {process}")
    check(process.err.strip(), f"nothing is said: {process}")


@test
def test_doctor_prints_every_check(context):
    process = context.run(context.hdtrace, "doctor")
    check(process.code in (COMPLETE, FAILED), f"exit code {process.code}: {process}")
    for word in DOCTOR_CHECKS:
        check(re.search(word, process.out, re.IGNORECASE), f"no check of {word}: {process.out}")


@test
def test_doctor_looks_at_a_process(context):
    job = context.trained("loop")
    process = context.run(context.hdtrace, "doctor", "-p", job.pid)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    for word in DOCTOR_CHECKS + DOCTOR_TARGET_CHECKS:
        check(re.search(word, process.out, re.IGNORECASE), f"no check of {word}: {process.out}")
    job.check_alive()


def check_versions(context, *facts):
    job = context.trained("loop")
    process = context.run(context.hdtrace, "doctor", "-p", job.pid).check_code(COMPLETE)
    for fact in (*facts, "layouts derived from the library", "a tensor and the thread's keys are where its files say"):
        check(fact in process.out, f"{fact!r} is not told: {process.out}")


@test(root="cuda", device="cuda", timeout=240)
def test_doctor_tells_versions_and_layouts_of_the_cuda_build(context):
    check_versions(context, "PyTorch 2.6", "CPython 3.13", "storage at +16", "variable at +472", "ADInplaceOrView 35")


@test(root="latest", timeout=240)
def test_doctor_tells_versions_and_layouts_of_the_latest_version(context):
    check_versions(context, "PyTorch 2.", "CPython 3.", "storage at +16")


@test
def test_doctor_says_that_a_process_is_not_pytorch(context):
    other = context.start("/bin/sleep", "300")
    process = context.run(context.hdtrace, "doctor", "-p", other.pid)
    check_equal(process.code, FAILED, f"exit code of {process}")
    check("torch" in (process.out + process.err).lower(), f"torch is not named: {process}")


@test
def test_doctor_json_has_a_name_and_a_result_for_each_check(context):
    process = context.run(context.hdtrace, "doctor", "--json")
    data = json.loads(process.out)
    checks = data["checks"] if isinstance(data, dict) else data
    check(len(checks) >= len(DOCTOR_CHECKS), f"{len(checks)} checks: {process.out}")
    for entry in checks:
        check({"name", "status"} <= set(entry), "a check without name or status:", entry)


@test
def test_quiet_says_nothing_and_piped_output_has_no_progress(context):
    quiet = context.run(context.hdtrace, "run", "-q", "-o", context.path("quiet"), "--", PYTHON, "-c",
                        "import torch; torch.ones(3) + 1")
    check_equal((quiet.code, quiet.err), (COMPLETE, ""), f"exit code and stderr of {quiet}")
    loud = context.run(context.hdtrace, "run", "-o", context.path("loud"), "--", PYTHON, "-c",
                       "import torch; torch.ones(3) + 1")
    check("\r" not in loud.out + loud.err and "\x1b" not in loud.out + loud.err, f"progress in a pipe: {loud}")


@test
def test_stats_option_tells_where_the_time_goes(context):
    process = context.run(context.hdtrace, "run", "--stats", "-o", context.path("out"), "--", PYTHON, "-c",
                          "import torch; [torch.ones(3) + 1 for _ in range(1000)]")
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    check(re.search(r"hits|run time", process.out + process.err, re.IGNORECASE), f"no statistics: {process}")


@test(needs_bpf=False)
def test_man_page_names_every_option(context):
    page = subprocess.run(["mandoc", "-T", "ascii", f"{TOP}/docs/hdtrace.8"], capture_output=True, check=True)
    text = re.sub(r".\x08", "", page.stdout.decode("utf-8", "replace"))
    for verb, options in OPTIONS.items():
        for option in options:
            check(option in text, f"{option} of {verb} is not in the man page")


@test(needs_bpf=False)
def test_completion_offers_every_option(context):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
              '_hdtrace hdtrace "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    completion = f"{TOP}/packaging/hdtrace.bash-completion"
    for verb, options in OPTIONS.items():
        done = subprocess.run(["bash", "-c", script, "bash", completion, "hdtrace", verb, "--"], capture_output=True,
                              check=True, text=True)
        offered = set(done.stdout.split())
        for option in options:
            check(option in offered, f"{option} of {verb} is not offered: {sorted(offered)}")
