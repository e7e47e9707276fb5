"""Prometheus and its tools, and VictoriaMetrics, for a test: Debian's, in a root of their own."""
import json
import os
import subprocess
import urllib.parse
import urllib.request

from clickhouse import free_ports
from harness import TEST_ROOT, root_path, wait_until

CONFIGURATION = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: hdtrace
    honor_labels: true
    {secrets}
    static_configs: [{{targets: {targets}}}]
remote_write:
  - url: http://127.0.0.1:{remote}/api/v1/write
"""
SECRETS = """scheme: https
    tls_config: {{ca_file: {secrets.certificate}}}
    authorization: {{credentials_file: {secrets.token_file}}}"""


def root():
    return root_path("prometheus")


def promtool(*arguments, text=None):
    """(exit code, what it wrote to stderr and stdout)"""
    done = subprocess.run([TEST_ROOT, "enter", root(), "promtool", *arguments], input=text, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stderr + done.stdout


def get_json(port, path, **query):
    url = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


class Prometheus:
    """Scrapes agents, evaluates the rules, and writes all to a VictoriaMetrics."""

    def __init__(self, context, rules, targets, secrets=None):
        folder, enter = context.path("prometheus"), [TEST_ROOT, "enter", root(), "--bind", os.path.dirname(context.folder)]
        os.makedirs(folder)
        self.port, self.remote = free_ports(2)
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as out:
            how = SECRETS.format(secrets=secrets) if secrets else ""
            out.write(CONFIGURATION.format(rules=rules, targets=targets, remote=self.remote, secrets=how))
        self.victoria = context.start(*enter, "victoria-metrics", f"-httpListenAddr=127.0.0.1:{self.remote}",
                                      f"-storageDataPath={folder}/victoria", "-loggerLevel=ERROR")
        self.process = context.start(*enter, "prometheus", f"--config.file={folder}/prometheus.yml",
                                     f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}")

        def answers():
            self.process.check_alive()
            self.victoria.check_alive()
            try:
                return self.query("up")
            except OSError:
                return None
        wait_until(answers, lambda: f"an answer of {self.process}, {self.victoria}", timeout=30)

    def query(self, expression):
        """[(labels, value)] of an instant query."""
        return [(row["metric"], float(row["value"][1]))
                for row in get_json(self.port, "/api/v1/query", query=expression)["result"]]

    def remote_series(self, match):
        """Labels of the series that VictoriaMetrics has."""
        return get_json(self.remote, "/api/v1/series", **{"match[]": match})

    def label_values(self, name, match):
        """Of the series that match, as a dashboard asks for its variables."""
        return get_json(self.port, f"/api/v1/label/{name}/values", **{"match[]": match})

    def alerts(self):
        return get_json(self.port, "/api/v1/alerts")["alerts"]
