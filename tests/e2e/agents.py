"""hdtrace agent as tests start it: its configuration, its endpoint, and its store."""
import os
import re
import signal
import sqlite3
import ssl
import urllib.error
import urllib.request

from harness import check, check_equal, wait_until

SERIES = re.compile(r'^(\w+)\{(.*)\} (\S+)$')
PORT = 9471  # the usual one; of a machine of its own it is free
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
CONFIGURATION = """
[agent]
node = {node}
interval = 0.5s
{agent}
[metrics]
port = {port}
{metrics}
[store]
url = {url}
spool = {folder}/spool
period = {period}
[captures]
folder = {folder}/captures
steps = {steps}
pause = {pause}
per-hour = 30
{captures}
"""


class Secrets:
    """A token, and a certificate for addresses that signs itself."""

    def __init__(self, context, addresses):
        self.token = "a token for scrapers only"
        self.token_file, self.key, self.certificate = (context.path(name) for name in ("token", "key.pem", "certificate.pem"))
        with open(self.token_file, "w", encoding="utf-8") as out:
            out.write(self.token + "\n")
        context.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=agents", "-addext", "subjectAltName=" + ",".join("IP:" + each for each in addresses),
                    "-keyout", self.key, "-out", self.certificate).check_code(0)

    def settings(self):
        return f"certificate = {self.certificate}\nkey = {self.key}\ntoken = {self.token_file}\n"

    def trust(self):
        return ssl.create_default_context(cafile=self.certificate)


class Agent:
    """One on this machine, or on another one (machines.py); there it is to have an address, and `secrets`."""

    def __init__(self, context, name="here", machine=None, secrets=None, **settings):
        self.context, self.name, self.folder = context, name, context.path(name)
        self.machine, self.secrets = machine, secrets
        os.makedirs(self.folder, exist_ok=True)
        self.configuration, self.port_file = self.path("agent.conf"), self.path("port")
        self.write(**settings)
        self.start()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, period="2s", agent="", metrics="", captures="", url=None, steps=2, pause="0"):
        if self.machine:
            metrics += f"\naddress = {self.machine.address}\n{self.secrets.settings()}"
        text = CONFIGURATION.format(folder=self.folder, node=self.name, url=url or self.path("audit.db"), agent=agent,
                                    period=period, metrics=metrics, captures=captures, steps=steps, pause=pause, port=PORT if self.machine else 0)
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        if os.path.exists(self.port_file):
            os.remove(self.port_file)
        self.process = (self.machine or self.context).start(self.context.hdtrace, "agent", "--config", self.configuration,
                                                            "--port-file", self.port_file)

        def listens():
            self.process.check_alive()
            return os.path.exists(self.port_file) and open(self.port_file, encoding="utf-8").read().strip()
        wait_until(listens, lambda: f"an endpoint of {self.process}")
        self.port = int(listens())

    def get(self, path="/metrics", **headers):
        where = f"https://{self.machine.address}" if self.machine else "http://127.0.0.1"
        if self.secrets:
            headers = {"Authorization": "Bearer " + self.secrets.token, **headers}
        request = urllib.request.Request(f"{where}:{self.port}{path}",
                                         headers={name.replace("_", "-"): value for name, value in headers.items()})
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.secrets and self.secrets.trust()) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def series(self, name, **labels):
        """Value by labels, of those that have these."""
        found = {}
        for line in self.get()[1].splitlines():
            match = SERIES.match(line)
            if not match or match[1] != name:
                continue
            its = dict(LABEL.findall(match[2]))
            if all(its.get(label) == value for label, value in labels.items()):
                found[tuple(sorted(its.items()))] = float(match[3])
        return found

    def value(self, name, **labels):
        found = self.series(name, **labels)
        return next(iter(found.values())) if len(found) == 1 else None

    def wait_value(self, name, wanted, what, **labels):
        wait_until(lambda: wanted(self.value(name, **labels)),
                   lambda: f"{what}: {self.series(name, **labels)}, {self.process}", timeout=30)

    def stop(self):
        self.process.send(signal.SIGTERM)
        check_equal(self.process.wait(30), 0, f"exit code of {self.process}")

    def rows(self, sql):
        """None yet, while the store is being made."""
        try:
            with sqlite3.connect(f"file:{self.path('audit.db')}?mode=ro", uri=True) as store:
                return store.execute(sql).fetchall()
        except sqlite3.OperationalError as problem:
            check(any(text in str(problem) for text in ("no such table", "unable to open")), problem)
            return []
