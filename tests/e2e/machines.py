"""Machines for a test: namespaces of network, processes, mounts and host name on this one, each with a line to the test's own.

The test itself goes into a network of its own first, with nothing in it but its loopback and those lines: what is said there leaves
this machine as little as it comes in.
"""
import ctypes
import os
import subprocess

from harness import Process, check, wait_until

CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID = 0x40000000, 0x20000, 0x20000000


def unshare(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.unshare(flags) == 0, "no namespace of its own:", os.strerror(ctypes.get_errno()))


def isolate():
    """This process, and all that it starts from here on, gets a network of its own."""
    unshare(CLONE_NEWNET)
    ip("link", "set", "lo", "up")


def mounts_apart():
    """What this process mounts from here on, nobody else sees, and it goes with this process."""
    unshare(CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def processes_apart(context):
    """What this process starts from here on sees no processes but each other, whatever else runs on this machine.

    Gives the folder that is /proc for this process itself, which stays outside.
    """
    mounts_apart()
    proc = context.path("proc")
    os.makedirs(proc)
    subprocess.run(["mount", "--bind", "/proc", proc], check=True)
    unshare(CLONE_NEWPID)
    context.start("sleep", "infinity")  # the first: without it there are no others
    context.run("mount", "-t", "proc", "none", "/proc").check_code(0)
    return proc


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}")


class Machine:
    """`address` is its own, `middle` that of the test as it sees it."""

    def __init__(self, context, name, number):
        self.context, self.name = context, name
        self.address, self.middle = f"10.209.{number}.2", f"10.209.{number}.1"
        # All that runs in it ends with its first process.
        self.first = context.start("unshare", "--pid", "--fork", "--kill-child", "--net", "--uts", "--mount-proc", "sh", "-c",
                                   f"hostname {name} && echo up && exec sleep infinity")
        wait_until(lambda: "up" in self.first.out, lambda: f"the machine {name}: {self.first}")
        self.root_pid = child_of(self.first.pid)
        ip("link", "add", f"machine{number}", "type", "veth", "peer", "name", "eth0", "netns", str(self.root_pid))
        ip("address", "add", f"{self.middle}/30", "dev", f"machine{number}")
        ip("link", "set", f"machine{number}", "up")
        self.run("ip", "address", "add", f"{self.address}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            self.run("ip", "link", "set", device, "up")

    def enter(self, *argv):
        return ["nsenter", "--target", self.root_pid, "--net", "--pid", "--uts", "--mount", *argv]

    def start(self, *argv, environment=None):
        return Inside(self.context.start(*self.enter(*argv), environment=environment))

    def run(self, *argv):
        return self.context.run(*self.enter(*argv)).check_code(0)


class Inside(Process):
    """A process in a machine: what the test has started only waits for it."""

    def __init__(self, outer):  # pylint: disable=super-init-not-called
        self.argv, self.stem, self.popen, self.outer = outer.argv, outer.stem, outer.popen, outer.pid
        self.pid = wait_until(lambda: child_of(self.outer), lambda: f"a process of {outer}")


def child_of(pid):
    """The pid, out here, of the only child; None: there is none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as source:
            children = source.read().split()
    except OSError:
        return None
    return int(children[0]) if children else None
