"""A program on a terminal of its own, of which the screen can be read."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pyte

from harness import Failure

COLOUR = re.compile(rb"\x1b\[[0-9;]*?(?:3[0-7]|4[0-7])[;m]")
TERM = "linux"  # pyte does not know all that newer ones can


class Terminal:
    """The program gets COLUMNS x ROWS; `screen()` is what stands there now, `output` all that came."""

    def __init__(self, argv, columns=80, rows=24, environment=None):
        self.argv, self.output, self.code = [str(part) for part in argv], b"", None
        self.master, slave = pty.openpty()
        self.resize(columns, rows, tell=False)
        self.screen_, self.settings = pyte.Screen(columns, rows), termios.tcgetattr(slave)
        self.stream = pyte.ByteStream(self.screen_)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for descriptor in range(3):
                os.dup2(slave, descriptor)
            os.closerange(3, 256)
            os.execve(self.argv[0], self.argv,
                      {**os.environ, "TERM": TERM, "LC_ALL": "C.UTF-8", **(environment or {})})
        self.slave = slave  # kept: what the program leaves of the terminal can be asked for

    def resize(self, columns, rows, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.screen_.resize(rows, columns)

    def send(self, keys):
        os.write(self.master, keys)

    def hang_up(self):
        """The window is closed."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def read(self, seconds=0.1):
        while self.master >= 0 and select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.output += data
            self.stream.feed(data)
            seconds = 0

    def screen(self):
        self.read()
        return "\n".join(self.screen_.display)

    def wait_screen(self, pattern, timeout=30):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if re.search(pattern, self.screen(), re.MULTILINE):
                return self.screen()
            if self.ended():
                break
        raise Failure(f"no {pattern!r} on the screen of {' '.join(self.argv)}:\n{self.screen()}\n{self.output[-2000:]!r}")

    def ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, timeout=30):
        deadline = time.monotonic() + timeout
        while not self.ended():
            if time.monotonic() > deadline:
                raise Failure(f"not finished after {timeout} s: {' '.join(self.argv)}\n{self.screen()}")
            self.read()
        self.read(0)
        return self.code

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.settings

    def colours(self):
        return COLOUR.findall(self.output)

    def stop(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
