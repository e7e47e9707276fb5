"""A server of ClickHouse for a test: Debian's, in a root of its own, and a way to disturb what is said to it."""
import http.client
import os
import socket
import threading
import urllib.parse
import urllib.request

from harness import TEST_ROOT, Failure, root_path, wait_until

START_SECONDS = 30
KEEPER_JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-handler", "netty-transport", "netty-common", "netty-buffer", "snappy-java", "metrics-core")
CONFIG = """<yandex>
<logger><level>information</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{between}</interserver_http_port>
<listen_host>{listen}</listen_host><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>16777216</mark_cache_size>
<interserver_http_host>127.0.0.1</interserver_http_host>
<remote_servers><fleet><shard><internal_replication>true</internal_replication>{replicas}</shard></fleet></remote_servers>
{keeper}
</yandex>
"""
REPLICA = "<replica><host>127.0.0.1</host><port>{tcp}</port></replica>"
KEEPER = """<zookeeper><node><host>127.0.0.1</host><port>{port}</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>
<macros><shard>1</shard><replica>{name}</replica></macros>"""
USERS = """<yandex><profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>none</quota></default>
<poor><password>penny</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>few</quota></poor></users>
<quotas><none></none><few><interval><duration>3600</duration><queries>{queries}</queries><errors>0</errors>
<result_rows>0</result_rows><read_rows>0</read_rows><execution_time>0</execution_time></interval></few></quotas></yandex>
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Keeper:
    """ZooKeeper, by which replicas agree."""

    def __init__(self, context):
        folder, (self.port,) = context.path("keeper"), free_ports(1)
        os.makedirs(folder)
        jars = ":".join(f"/usr/share/java/{name}.jar" for name in KEEPER_JARS)
        self.process = context.start(
            TEST_ROOT, "enter", root_path("zookeeper"), "--bind", os.path.dirname(context.folder), "java", "-Xmx128m",
            "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=ruok", "-cp", jars,
            "org.apache.zookeeper.server.ZooKeeperServerMain", self.port, folder)
        wait_until(self.answers, lambda: f"an answer of {self.process}", START_SECONDS)

    def answers(self):
        self.process.check_alive()
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as asked:
                asked.sendall(b"ruok")
                return asked.recv(4) == b"imok"
        except OSError:
            return False


class Server:
    """Its data outlives a kill: start it again."""

    def __init__(self, context, queries=1000, listen="127.0.0.1", name="clickhouse", tcp=None, replicas=(), keeper=None):
        self.context, self.root, self.process = context, root_path("clickhouse"), None
        self.folder = context.path(name)
        os.makedirs(self.folder, exist_ok=True)
        self.port, between, free = free_ports(3)
        tcp = tcp or free
        with open(os.path.join(self.folder, "config.xml"), "w", encoding="utf-8") as out:
            out.write(CONFIG.format(folder=self.folder, http=self.port, tcp=tcp, between=between, listen=listen,
                                    replicas="".join(REPLICA.format(tcp=each) for each in replicas or [tcp]),
                                    keeper=KEEPER.format(port=keeper.port, name=name) if keeper else ""))
        with open(os.path.join(self.folder, "users.xml"), "w", encoding="utf-8") as out:
            out.write(USERS.format(queries=queries))
        self.start()

    def start(self):
        self.process = self.context.start(TEST_ROOT, "enter", self.root, "--bind", os.path.dirname(self.context.folder),
                                          "/usr/sbin/clickhouse-server", "--config-file",
                                          os.path.join(self.folder, "config.xml"))
        wait_until(self.answers, lambda: f"an answer of {self.process}", START_SECONDS)

    def answers(self):
        self.process.check_alive()
        try:
            return self.query("SELECT 1") == "1\n"
        except OSError:
            return False

    def kill(self):
        self.process.stop()

    def url(self, database="fleet"):
        return f"http://127.0.0.1:{self.port}/{database}"

    def query(self, sql, database="default"):
        address = f"http://127.0.0.1:{self.port}/?database={database}"
        with urllib.request.urlopen(address, data=sql.encode(), timeout=20) as answer:
            return answer.read().decode()

    def number(self, sql, database="fleet"):
        return int(self.query(sql, database))


class Disturber:
    """Stands between a client and a server, and does to each request what `verdict(number, query)` says.

    "pass"; "lose": the server gets it, but its answer goes nowhere; "cut": the server gets half of it; "fail": it gets nothing and
    the client an error of a proxy; "slow": the answer comes late.
    """

    def __init__(self, port, verdict):
        self.target, self.verdict, self.seen = port, verdict, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def url(self, database="fleet"):
        return f"http://127.0.0.1:{self.port}/{database}"

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def talk(self, client):
        with client, client.makefile("rb") as reader:
            while True:
                first = reader.readline()
                if not first:
                    return
                headers = http.client.parse_headers(reader)
                body = reader.read(int(headers.get("Content-Length") or 0))
                if not self.handle(client, first, headers, body):
                    return

    def handle(self, client, first, headers, body):
        query = urllib.parse.unquote_plus(first.decode())
        what = self.verdict(len(self.seen), query)
        self.seen.append((what, query))
        if what == "fail":
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return True
        head = first + b"".join(f"{key}: {value}\r\n".encode() for key, value in headers.items()) + b"\r\n"
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            if what == "cut":
                server.sendall(head + body[:len(body) // 2])
                return False
            server.sendall(head.replace(b"Connection: keep-alive\r\n", b"") + body)
            answer = http.client.HTTPResponse(server)
            answer.begin()
            content = answer.read()
        if what == "lose":
            return False
        if what == "slow":
            threading.Event().wait(0.5)
        client.sendall(f"HTTP/1.1 {answer.status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        return True

    def close(self):
        self.listener.close()
        if not self.seen:
            raise Failure("nothing came to the one between")
