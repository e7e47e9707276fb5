"""The container and the DaemonSet: what the manifest allows is enough to trace a job of somebody else."""
import json
import os
import re
import shlex
import subprocess

import kubernetes.client.models as models
import yaml

from harness import COMPLETE, PYTHON, TOP, check, check_equal, program_path, skip, test

BUILD = os.environ["HDTRACE_BUILD"]
CONTAINERFILE = os.path.join(TOP, "packaging/container/Containerfile")
MANIFEST = os.path.join(TOP, "packaging/kubernetes/hdtrace.yaml")
NOBODY = "65534"
DEFAULT_PROFILE = "/usr/share/containers/seccomp.json"
# What containerd and Docker allow to who has a capability; the profile of Debian 12 wants CAP_SYS_ADMIN for both.
ALLOWED_BY = {"bpf": "CAP_BPF", "perf_event_open": "CAP_PERFMON"}
SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}


def manifests():
    with open(MANIFEST, encoding="utf-8") as source:
        return {document["kind"]: document for document in yaml.safe_load_all(source)}


def check_value(value, kind, place):
    """`value` is what the API's schema calls `kind`: no unknown field, no missing one, every type right."""
    if kind in SCALARS:
        check(isinstance(value, SCALARS[kind]), f"{place}: {value!r} is no {kind}")
        return value
    inner = re.match(r"(list|dict)[[(](?:str, )?(.*)[])]$", kind)
    if inner and inner[1] == "list":
        check(isinstance(value, list), f"{place}: {value!r} is no list")
        return [check_value(item, inner[2], f"{place}[{index}]") for index, item in enumerate(value)]
    if inner:
        check(isinstance(value, dict), f"{place}: {value!r} is no map")
        return {key: check_value(item, inner[2], f"{place}.{key}") for key, item in value.items()}
    model = getattr(models, kind)
    fields = {name: field for field, name in model.attribute_map.items()}
    check(isinstance(value, dict), f"{place}: {value!r} is no {kind}")
    check(set(value) <= set(fields), f"{place}: {kind} has no {sorted(set(value) - set(fields))}")
    try:
        return model(**{fields[name]: check_value(item, model.openapi_types[fields[name]], f"{place}.{name}")
                        for name, item in value.items()})
    except ValueError as problem:
        raise AssertionError(f"{place}: {problem}") from None


@test(needs_bpf=False)
def test_manifest_is_what_the_api_of_kubernetes_takes(context):
    documents = manifests()
    check_equal(sorted(documents), ["DaemonSet", "Namespace"], "kinds")
    for kind, document in documents.items():
        check_value(document, "V1" + kind, kind)
    spec = documents["DaemonSet"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    check_equal(spec["selector"]["matchLabels"].items() <= labels.items(), True, "the selector selects the pods")
    check_equal(documents["DaemonSet"]["metadata"]["namespace"], documents["Namespace"]["metadata"]["name"], "namespace")
    with open(os.path.join(TOP, "Makefile"), encoding="utf-8") as source:
        version = re.search(r"^VERSION := (.*)", source.read(), re.M)[1]
    check_equal(spec["template"]["spec"]["containers"][0]["image"], "hdtrace:" + version, "image")


def in_this_tree(path):
    """Where a file of the image's first stage is here; others are this machine's own."""
    for there, here in (("/hdtrace/build/", BUILD + "/"), ("/hdtrace/", TOP + "/")):
        if path.startswith(there):
            return here + path[len(there):]
    return path


def image_make(root):
    """The last stage of the Containerfile, from what was built here; returns its environment and entry point."""
    with open(CONTAINERFILE, encoding="utf-8") as source:
        steps = re.split(r"^FROM .*\n", source.read(), flags=re.M)[-1].splitlines()
    environment, entry = [], None
    for step in steps:
        word, _, rest = step.partition(" ")
        if word == "COPY":
            source, target = rest.replace("--from=build ", "").split()
            source = in_this_tree(source)
            os.makedirs(os.path.dirname(root + target), exist_ok=True)
            subprocess.run(["cp", "-r", source, root + target], check=True)
        elif word == "RUN":
            subprocess.run(["chroot", root, *json.loads(rest)], check=True)
        elif word == "ENV":
            environment += shlex.split(rest)
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        else:
            check(word in ("#", "CMD", ""), f"a step that this test does not know: {step}")
    return environment, entry


def seccomp_profile(capabilities):
    """The default profile of container runtimes, for a container with these capabilities."""
    with open(DEFAULT_PROFILE, encoding="utf-8") as source:
        profile = json.load(source)
    rules = []
    for rule in profile["syscalls"]:
        wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
        names = [name for name in rule["names"] if name not in ALLOWED_BY]
        if (names and set(wanted.get("caps", ())) <= capabilities and not set(unwanted.get("caps", ())) & capabilities
                and "amd64" in wanted.get("arches", ["amd64"]) and "amd64" not in unwanted.get("arches", ())):
            rules.append({"names": names, "action": rule["action"], "args": rule.get("args") or []})
    rules += [{"names": [name], "action": "SCMP_ACT_ALLOW"} for name, by in ALLOWED_BY.items() if by in capabilities]
    return {"defaultAction": profile["defaultAction"], "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


def bundle_make(context, folder):
    """An OCI bundle of the DaemonSet's container: its image, its privileges, its volume."""
    pod = manifests()["DaemonSet"]["spec"]["template"]["spec"]
    container, = pod["containers"]
    security = container["securityContext"]
    check_equal((security["capabilities"]["drop"], security["privileged"]), (["ALL"], False), "privileges to begin with")
    capabilities = {"CAP_" + name for name in security["capabilities"]["add"]}
    os.makedirs(os.path.join(folder, "rootfs"))
    environment, entry = image_make(os.path.join(folder, "rootfs"))
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as source:
        spec = json.load(source)
    spec["process"].update(
        terminal=False, env=environment, user={"uid": security["runAsUser"], "gid": 0},
        noNewPrivileges=not security["allowPrivilegeEscalation"],
        capabilities={name: sorted(capabilities) for name in ("bounding", "effective", "permitted")})
    spec["root"]["readonly"] = security["readOnlyRootFilesystem"]
    kept = {"mount", "ipc", "uts", "network"} | (set() if pod.get("hostPID") else {"pid"})
    spec["linux"]["namespaces"] = [{"type": kind} for kind in sorted(kept)]
    check_equal(security["seccompProfile"], {"type": "RuntimeDefault"}, "seccomp profile")
    spec["linux"]["seccomp"] = seccomp_profile(capabilities)
    mount, = container["volumeMounts"]
    spec["mounts"] = [entry for entry in spec["mounts"] if entry["type"] not in ("cgroup", "mqueue")]
    spec["mounts"].append({"destination": mount["mountPath"], "type": "bind", "source": context.path("captures"),
                           "options": ["bind", "rw"]})
    os.makedirs(context.path("captures"))
    return spec, entry


def contained(context, folder, spec, argv):
    spec["process"]["args"] = argv
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
        json.dump(spec, out)
    return context.run("runc", "run", "--bundle", folder, f"hdtrace-{os.getpid()}", timeout=60)


@test(timeout=180)
def test_container_traces_with_what_the_manifest_allows(context):
    folder = context.path("bundle")
    spec, entry = bundle_make(context, folder)
    held = contained(context, folder, spec, ["/bin/sh", "-c", "echo held; tar --help"])
    if held.code and "cgroup" in held.err:
        skip(f"runc cannot start containers here: {held.err.strip()}")
    check("held" in held.out, held)
    contained(context, folder, spec, [*entry, "doctor"]).check_code(COMPLETE)
    listed = contained(context, folder, spec, [*entry, "audit"])
    check("headroom" in listed.out, f"the queries of hdtrace audit: {listed}")
    job = context.start("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", PYTHON, "-c",
                        open(program_path("loop"), encoding="utf-8").read())
    context.wait_steps(job, 2)
    traced = contained(context, folder, spec, [*entry, "-p", str(job.pid), "--steps", "2", "-o", "/var/lib/hdtrace/out"])
    check_equal(traced.code, COMPLETE, f"exit code of {traced}")
    job.check_alive()
    report = context.report(os.path.join("captures", "out"))
    check(report.live["complete"] and len(report.steps) >= 2, f"{len(report.steps)} steps: {traced}")
    apart = {**spec, "linux": {**spec["linux"], "namespaces": [*spec["linux"]["namespaces"], {"type": "pid"}]}}
    doctor = contained(context, folder, apart, [*entry, "doctor"]).check_code(COMPLETE)
    check("process ids" in re.findall("^note  (.*?)  ", doctor.out, re.M), f"nothing is said without hostPID: {doctor}")
