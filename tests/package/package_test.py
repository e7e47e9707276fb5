"""What is handed out: the Debian package in a fresh Debian 12, the static program where there is nothing else."""
import csv
import json
import os
import re
import shutil
import subprocess

import jsonschema

from harness import COMPLETE, PYTHON, TEST_ROOT, TOP, check, check_equal, program_path, skip, test

BUILD = os.environ["HDTRACE_BUILD"]
DEBS = os.path.join(BUILD, "deb")
STATIC = os.path.join(BUILD, "hdtrace-static")
BACKPORTS = "bookworm-backports"
DOCUMENTS = "usr/share/doc/hdtrace"
# What apt and dpkg keep for themselves, whatever is installed.
KEPT = re.compile(r"/(var/lib/(apt|dpkg)|var/cache|var/log|etc/ld\.so\.cache|tmp)(/|$)")
MEGABYTE = 1 << 20


def output_of(*argv, **options):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def package_path():
    version = re.search(r"^VERSION := (.*)", open(os.path.join(TOP, "Makefile"), encoding="utf-8").read(), re.M)[1]
    return os.path.join(DEBS, f"hdtrace_{version}_amd64.deb"), version


def inside(context, root, *argv):
    """Run a command in a root that the test owns."""
    return context.run(TEST_ROOT, "enter", root, "--bind", context.folder, *argv, timeout=240)


def files_of(folder):
    """Paths of all files and links, with a slash before them."""
    return {"/" + os.path.relpath(os.path.join(place, name), folder)
            for place, _, names in os.walk(folder) for name in names}


def check_traced(context, run, schema):
    """A program, started by `run`, traces a job of this machine; the program of this tree makes the same of it."""
    job = context.start(PYTHON, program_path("loop"))
    context.wait_steps(job, 2)
    process = run("-p", str(job.pid), "--steps", "3", "-o", context.path("out"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    job.check_alive()
    report = context.report()
    check_equal(report.live["complete"], True, f"complete in {process}")
    check(len(report.steps) >= 3, len(report.steps), "steps")
    check({"Parameter", "Gradient", "Activation", "Optstate"} <= {row["type"] for row in report.rows}, "types of blocks")
    # 32 to 64 to 4, weights and biases, each with its gradient and its momentum.
    parameters = 4 * (32 * 64 + 64 + 64 * 4 + 4)
    check_equal({kind: sum(int(row["size"]) for row in report.rows if row["type"] == kind and row["is_persistent"] == "1")
                 for kind in ("Parameter", "Optstate")}, {"Parameter": parameters, "Optstate": parameters}, "bytes")
    jsonschema.validate(report.json, json.loads(schema))
    context.run(context.hdtrace, "report", context.path("out", "capture.hdt"), "-o", context.path("again")).check_code(COMPLETE)
    with open(report.path("memory.csv"), newline="", encoding="utf-8") as made, \
            open(context.report("again").path("memory.csv"), newline="", encoding="utf-8") as again:
        check_equal(list(csv.reader(made)), list(csv.reader(again)), "rows of this tree's program")


def check_nothing_of_this_machine(path):
    with open(path, "rb") as source:
        check(TOP.encode() not in source.read(), f"{path} names {TOP}")


@test(needs_bpf=False, timeout=120)
def test_lintian_finds_no_error_and_no_warning(context):
    package, version = package_path()
    changes = package.replace(".deb", ".changes")
    process = context.run("lintian", "--allow-root", "--fail-on", "error,warning", "--info", changes, timeout=100)
    check_equal((process.code, process.out), (0, ""), f"what lintian says: {process}")
    check_equal(output_of("dpkg-deb", "--field", package, "Version").strip(), version, "version")


@test(needs_bpf=False)
def test_package_has_what_is_installed_and_its_documents(context):
    package, _ = package_path()
    output_of("make", "-C", TOP, "--no-print-directory", "install", f"DESTDIR={context.path('made')}", "PREFIX=/usr")
    output_of("dpkg-deb", "-x", package, context.path("package"))
    packed = {re.sub(r"\.gz$", "", path) for path in files_of(context.path("package"))}
    with open(os.path.join(TOP, "packaging/debian/docs"), encoding="utf-8") as listed:
        documents = {"changelog", "copyright", *(os.path.basename(line.strip()) for line in listed)}
    check_equal(packed, files_of(context.path("made")) | {f"/{DOCUMENTS}/{name}" for name in documents}, "files")
    check_nothing_of_this_machine(context.path("package", "usr/sbin/hdtrace"))


@test(needs_bpf=False)
def test_programs_are_hardened(context):
    package, _ = package_path()
    output_of("dpkg-deb", "-x", package, context.path("package"))
    program = context.path("package", "usr/sbin/hdtrace")
    said = output_of("readelf", "-hldW", program)
    for word in (r"Type: +DYN", "GNU_RELRO", r"FLAGS_1.*NOW.*PIE", r"GNU_STACK .* RW "):
        check(re.search(word, said), f"{word} is not told of {program}")
    for word in ("__stack_chk_fail", r"__\w+_chk@"):
        check(re.search(word, output_of("readelf", "--dyn-syms", "-W", program)), f"{word} is not used by {program}")
    check(re.search(r"Type: +DYN", output_of("readelf", "-hW", STATIC)), "the static program is no PIE")


@test(root="plain", timeout=300)
def test_package_is_installed_used_and_purged(context):
    root = context.path("root")
    output_of("cp", "-a", "--reflink=auto", context.root, root)
    package, _ = package_path()
    shutil.copy(package, context.path("hdtrace.deb"))
    with open(os.path.join(root, "etc/apt/sources.list"), encoding="utf-8") as source:
        mirror = source.read().split()[1]
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc/resolv.conf"))
    with open(os.path.join(root, "etc/apt/sources.list.d/backports.list"), "w", encoding="utf-8") as source:
        source.write(f"deb {mirror} {BACKPORTS} main\n")
    updated = inside(context, root, "apt-get", "update", "-qq", "--error-on=any")
    if updated.code:
        skip(f"the mirror cannot be read: {updated.err.splitlines()[-1:]}")
    before = files_of(root)
    inside(context, root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "-t", BACKPORTS,
           context.path("hdtrace.deb")).check_code(0)
    for path in ("usr/share/bash-completion/completions/hdtrace", f"{DOCUMENTS}/copyright"):
        check(os.path.getsize(os.path.join(root, path)), path)
    with open(os.path.join(root, "usr/share/hdtrace/report.schema.json"), encoding="utf-8") as source:
        schema = source.read()
    check_traced(context, lambda *arguments: inside(context, root, "hdtrace", *arguments), schema)
    inside(context, root, "apt-get", "purge", "-y", "-qq", "--auto-remove", "hdtrace").check_code(0)
    left = {path for path in files_of(root) ^ before if not KEPT.match(path)}
    check_equal(left, set(), "files that the package left behind or took away")
    check(not os.path.exists(os.path.join(root, "usr/share/hdtrace")), "its folder is still there")
    check("hdtrace" not in inside(context, root, "dpkg-query", "-W").out, "dpkg still knows it")


@test(timeout=120)
def test_static_program_works_where_nothing_else_is(context):
    root = context.path("root")
    os.makedirs(os.path.join(root, "etc"))
    with open(os.path.join(root, "etc", "hdtrace-test-root"), "w", encoding="utf-8") as mark:
        mark.write("empty\n")
    shutil.copy(STATIC, os.path.join(root, "hdtrace"))
    check_nothing_of_this_machine(STATIC)
    check("INTERP" not in output_of("readelf", "-lW", STATIC), "the static program wants a loader")
    check(os.path.getsize(STATIC) < 20 * MEGABYTE, os.path.getsize(STATIC), "bytes")
    with open(os.path.join(TOP, "docs", "report.schema.json"), encoding="utf-8") as source:
        schema = source.read()
    check_traced(context, lambda *arguments: inside(context, root, "/hdtrace", *arguments), schema)


@test(needs_bpf=False)
def test_licences_of_all_that_is_linked_come_with_the_static_program(context):
    with open(STATIC + ".licences", encoding="utf-8") as source:
        heads = re.findall(r"^== (.*)", source.read(), re.M)
    for word in ("hdtrace", "zydis", "curl", "libssl-dev", "libbpf-dev", "libelf-dev", "libc6-dev", "libstb-dev"):
        check(any(word in head for head in heads), f"no licence of {word} among {heads}")
