"""Tests the HTTP port and grpc.health.v1 with clients that are not ours: those
of Python and gRPC, and the Prometheus project's parser."""
import http.client
import json
import os
import signal
import socket
import sys
import time
import urllib.parse

import grpc
from prometheus_client.parser import text_string_to_metric_families

import harness
import wire
from harness import E2E, ROLLCALL, Gate, Lab
from stage import DEADLINE_S

PAGE = r"status page: (https?://\S+)"
SERVING, NOT_SERVING = 1, 2


def ask(url, path, method="GET", headers=None, timeout_s=30):
    """Sends one request; returns (status, headers, body)."""
    at = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname, at.port,
                                            timeout=timeout_s)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def health(channel, service):
    """Returns the ServingStatus; Debian has no package with its messages."""
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=lambda name: b"\n" + bytes([len(name)]) + name,
        response_deserializer=lambda raw: raw[1] if raw else 0)
    return check(service.encode(), timeout=30)


class Web(E2E):
    def await_shown(self, url, condition):
        """Returns the first /status.json for which condition() holds. The
        daemon may be down meanwhile.

        The port itself limits how often it is asked."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            try:
                code, _, text = ask(url, "/status.json")
            except OSError:
                continue
            if code == 200 and condition(json.loads(text)):
                return json.loads(text)
        return self.stage.fail(f"{url} never showed it; last: {text}")

    def samples(self, url):
        """Parses /metrics into {(name, labels): value}."""
        code, headers, text = ask(url, "/metrics")
        self.assertEqual(code, 200, text)
        self.assertIn("version=0.0.4", headers["Content-Type"])
        families = list(text_string_to_metric_families(text))
        self.assertNotIn("unknown", {family.type for family in families})
        return {(one.name, tuple(sorted(one.labels.items()))): one.value
                for family in families for one in family.samples}

    def test_a_job_from_waiting_to_its_end(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "seen", "--nodes", "2", "--listen", "127.0.0.1:0",
             "--name", "a", "--http", "127.0.0.1:0"], ["cat", gate.path])
        url = launcher.await_line(PAGE)[1]
        join = self.join_string(launcher)
        code, headers, page = ask(url, "/")
        self.assertEqual(code, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertIn("<script>", page)
        self.await_status(join, lambda s: len(s["nodes"]) == 1, "its own node")
        waiting = self.samples(url)
        job = ("job", "seen")
        self.assertEqual(waiting["rollcall_job_state",
                                 (job, ("state", "gathering"))], 1)
        self.assertEqual(waiting["rollcall_job_nodes_missing", (job,)], 1)

        other = self.join(join, ["--name", "b"], ["cat", gate.path])
        self.await_status(join, lambda s: s["state"] == "running", "a world")
        # The HTTP port shows a snapshot that may be 200 ms old.
        shown = self.await_shown(url, lambda s: s["state"] == "running")
        said = self.status(join)
        self.assertEqual(list(shown), list(said))
        for name in ("job", "run", "state", "generation", "world_size",
                     "last_reform", "history", "missing"):
            self.assertEqual(shown[name], said[name], name)
        self.assertEqual([n["node"] for n in shown["nodes"]], ["a", "b"])
        running = self.samples(url)
        self.assertEqual(running["rollcall_job_state",
                                 (job, ("state", "running"))], 1)
        self.assertEqual(running["rollcall_job_generations_total",
                                 (job, ("reason", "first"))], 1)
        self.assertEqual(running["rollcall_job_formation_seconds_count",
                                 (job,)], 1)
        self.assertGreater(running["rollcall_job_formation_seconds_sum",
                                   (job,)], 0)
        self.refusals(url)
        gate.open()
        self.assert_code(launcher, 0)
        self.assert_code(other, 0)

    def refusals(self, url):
        """Checks what is refused, and that the port still serves after it."""
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT"):
            code, headers, _ = ask(url, "/status.json", method)
            self.assertEqual((code, headers["Allow"]), (405, "GET, HEAD"))
        code, headers, body = ask(url, "/status.json", "HEAD")
        self.assertEqual((code, body), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 100)
        evil = {"Host": "rebound.example"}
        self.assertEqual(ask(url, "/status.json", headers=evil)[0], 421)
        self.assertEqual(ask(url, "/metrics", headers=evil)[0], 421)
        self.assertEqual(ask(url, "/status.json?job=other")[0], 404)
        self.assertEqual(ask(url, "/status.json?token=x")[0], 400)
        self.assertEqual(ask(url, "/nothing")[0], 404)
        long = {"X-Long": "x" * 10000}
        self.assertEqual(ask(url, "/", headers=long)[0], 431)
        at = urllib.parse.urlsplit(url)
        with socket.create_connection((at.hostname, at.port), 30) as raw:
            raw.sendall(b"\x16\x03\x01garbage\r\n\r\n")
            self.assertIn(b"400", raw.recv(4096))
        self.assertEqual(ask(url, "/healthz")[2], "ok\n")
        self.assertEqual(ask(url, "/readyz")[2], "ready\n")

    def test_a_node_that_does_not_prepare_is_seen(self):
        launcher = self.launch(["--job", "slow", "--nodes", "3", "--listen",
                                "127.0.0.1:0", "--name", "a", "--http",
                                "127.0.0.1:0"], ["true"])
        url = launcher.await_line(PAGE)[1]
        join = self.join_string(launcher)
        # The world is formed once c is set up, and b is stopped just before.
        gate = Gate(self.stage)
        stopped = self.join(join, ["--name", "b"], ["true"])
        other = self.join(join, ["--name", "c", "--setup", f"cat {gate.path}"],
                          ["true"])
        self.await_status(join, lambda s: {
            n["node"]: n["state"] for n in s["nodes"]} == {
                "a": "attending", "b": "attending", "c": "setting_up"},
            "all three nodes")
        stopped.signal(signal.SIGSTOP)
        gate.open()
        self.await_shown(url, lambda s: s["state"] == "forming" and [
            (n["node"], n.get("prepared")) for n in s["nodes"]] == [
                ("a", True), ("b", False), ("c", True)])
        stopped.signal(signal.SIGCONT)
        for process in launcher, stopped, other:
            self.assert_code(process, 0)

    def test_texts_of_strangers_stay_text(self):
        hostile = "</script><img src=x onerror=alert(1)> \"\\\n\u202e"
        command = [sys.executable, "-c",
                   "import json, os, sys\n"
                   "with open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w') as f:"
                   "\n  json.dump({'message': sys.argv[1]}, f)\n"
                   "sys.exit(3)", hostile]
        state = self.stage.path("standing")
        daemon = self.rollcalld("--state", state, "--http", "127.0.0.1:0")
        url = daemon.await_line(PAGE)[1]
        agent = self.join(self.kept_join(state), [
            "--job", "hostile", "--nodes", "1", "--max-restarts", "0"], command)
        self.assert_code(agent, 3)
        ended = self.await_shown(
            url, lambda s: "root_cause" in s and s["root_cause"])
        self.assertIn("<img src=x", ended["root_cause"]["detail"])
        headers = ask(url, "/status.json")[1]
        self.assertIn("application/json", headers["Content-Type"])
        last = int(headers["Rollcall-Last-Event"])
        headers, text = ask(url, "/events.json?job=hostile")[1:]
        self.assertIn("application/json", headers["Content-Type"])
        told = json.loads(text)
        self.assertEqual(told["last"], last)
        self.assertEqual({event["job"] for event in told["events"]},
                         {"hostile"})
        self.assertTrue({"start", "run", "end"} <=
                        {event["event"] for event in told["events"]})
        told = json.loads(
            ask(url, f"/events.json?job=hostile&after={last - 1}")[2])
        self.assertEqual([event["id"] for event in told["events"]], [last])
        self.assertEqual(ask(url, "/events.json?job=none")[0], 404)
        self.assertNotIn("<img", ask(url, "/metrics")[2])

    def test_slow_clients_harm_nobody(self):
        daemon = self.rollcalld("--insecure", "--http", "127.0.0.1:0",
                                "--state", self.stage.path("standing"))
        url = daemon.await_line(PAGE)[1]
        at = urllib.parse.urlsplit(url)
        slow = []
        try:
            for i in range(700):
                raw = socket.create_connection((at.hostname, at.port), 30)
                if i % 2:
                    raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
                slow.append(raw)
            # The slow clients delay no other client, however many they are.
            self.assertEqual(ask(url, "/healthz", timeout_s=5)[0], 200)
            # There is room for 128 connections; the oldest ones are closed.
            closed = 0
            for raw in slow[:40]:
                try:
                    closed += raw.recv(1) == b""
                except ConnectionResetError:
                    closed += 1
            self.assertEqual(closed, 40)
        finally:
            for raw in slow:
                raw.close()
        self.assertEqual(self.samples(url)["rollcall_build_info", (
            ("version", self.version()),)], 1)

    def version(self):
        return self.stage.run([ROLLCALL, "version"]).out()[0].split()[-1]

    def test_a_daemon_for_many_jobs(self):
        state = self.stage.path("standing")
        daemon = self.rollcalld("--state", state, "--http", "127.0.0.1:0")
        url = daemon.await_line(PAGE)[1]
        self.assertEqual(json.loads(ask(url, "/status.json")[2]), {"jobs": []})
        join, gate = self.kept_join(state), Gate(self.stage)
        agents = [self.join(join, ["--job", job, "--nodes", "1", "--name", job],
                            ["sh", "-c", f"echo up; cat {gate.path}"])
                  for job in ("one", "two")]
        for agent in agents:
            agent.await_line(r"\bup$")
        self.await_shown(url, lambda s: [j["state"] for j in s["jobs"]] ==
                         ["running", "running"])
        one = json.loads(ask(url, "/status.json?job=one")[2])
        self.assertEqual([n["node"] for n in one["nodes"]], ["one"])
        samples = self.samples(url)
        for job in ("one", "two"):
            self.assertEqual(samples["rollcall_job_world_size",
                                     (("job", job),)], 1)
        gate.open()
        for agent in agents:
            self.assert_code(agent, 0)

    # Arguments: URL TOKEN... Prints the status of each path without a token and
    # with each token.
    PROBE = """
import http.client, ssl, sys, urllib.parse
at = urllib.parse.urlsplit(sys.argv[1])
context = ssl._create_unverified_context()
for path in ("/", "/healthz", "/readyz", "/status.json", "/events.json",
             "/metrics", "/status.json?token=x"):
    codes = []
    for token in ("", *sys.argv[2:]):
        connection = (http.client.HTTPSConnection(at.hostname, at.port,
                                                  context=context, timeout=30)
                      if at.scheme == "https" else
                      http.client.HTTPConnection(at.hostname, at.port,
                                                 timeout=30))
        headers = {"Authorization": "Bearer " + token} if token else {}
        connection.request("GET", path, headers=headers)
        codes.append(connection.getresponse().status)
        connection.close()
    print(path, *codes, flush=True)
"""

    def test_beyond_loopback_a_token_is_needed(self):
        lab = Lab(self.stage, 2)
        for flags, scheme in ([], "https"), (["--http-insecure"], "http"):
            gate = Gate(self.stage)
            launcher = lab.start(1, [
                ROLLCALL, "launch", "--job", "far", "--nodes", "1", "--http",
                "10.77.0.1:0", *flags, "--", "cat", gate.path])
            url = launcher.await_line(PAGE)[1]
            self.assertRegex(url, rf"^{scheme}://10\.77\.0\.1:\d+/$")
            made = lab.run(1, [ROLLCALL, "token", "create", "--job", "far",
                               "--role", "viewer", "--json"])
            self.assertEqual(made.code, 0, self.stage.transcript())
            text = json.loads(made.out()[0])["join"]
            viewer = wire.Join(text).bearer()
            wrong = viewer[:-4] + ("0000" if viewer[-4:] != "0000" else "1111")
            for host in (1, 2):
                asked = lab.run(host, [sys.executable, "-c", self.PROBE, url,
                                       wrong, viewer, text])
                self.assertEqual(asked.out(), [
                    "/ 200 200 200 200", "/healthz 200 200 200 200",
                    "/readyz 200 200 200 200", "/status.json 401 401 200 200",
                    "/events.json 401 401 200 200", "/metrics 401 401 200 200",
                    "/status.json?token=x 400 400 400 400"],
                    self.stage.transcript())
            if not flags:
                plain = lab.run(2, [sys.executable, "-c", self.PROBE,
                                    url.replace("https", "http"), viewer])
                self.assertNotEqual(plain.code, 0)
                self.assertEqual(plain.out(), [])
            gate.open()
            self.assert_code(launcher, 0)
        # Neither process prints a token.
        self.assertNotIn(viewer, launcher.text())

    def test_wrong_flags(self):
        rows = [
            (["--http", "nonsense"], 2, "--http"),
            (["--http", "127.0.0.1:99999"], 2, "--http"),
            (["--http-insecure"], 2, "--http"),
            (["--insecure", "--http", "0.0.0.0:0"], 2, "--insecure"),
            (["--http", "192.0.2.1:0"], 69, "--http"),
        ]
        for flags, code, named in rows:
            for process in (
                    self.launch(["--listen", "127.0.0.1:0", *flags], ["true"]),
                    self.rollcalld("--state", self.stage.path("state"),
                                   *flags)):
                self.assert_code(process, code)
                self.assertIn(named, process.text())

    def test_a_restarted_daemon_keeps_the_port(self):
        gate = Gate(self.stage)
        launcher = self.launch(
            ["--job", "again", "--listen", "127.0.0.1:0", "--http",
             "127.0.0.1:0", "--state", self.stage.path("s")],
            ["sh", "-c", f"echo up; cat {gate.path}"])
        url = launcher.await_line(PAGE)[1]
        launcher.await_line(r"\bup$")
        daemon = harness.subcommands(self.stage.orphans(), "daemon")
        os.kill(daemon[0], signal.SIGKILL)

        shown = self.await_shown(url, lambda s: s["state"] == "running")
        self.assertEqual(shown["generation"], 1)
        gate.open()
        self.assert_code(launcher, 0)

    def test_grpc_health(self):
        daemon = self.rollcalld("--insecure", "--state",
                                self.stage.path("standing"))
        port = int(daemon.await_line(r"listening on port (\d+)")[1])

        def dial():
            return grpc.insecure_channel(f"127.0.0.1:{port}", options=[
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1)])
        with dial() as channel:
            self.assertEqual(health(channel, ""), SERVING)
            self.assertEqual(health(channel, "rollcall.v1.Membership"), SERVING)
            with self.assertRaises(grpc.RpcError) as unknown:
                health(channel, "another")
            self.assertEqual(unknown.exception.code(),
                             grpc.StatusCode.NOT_FOUND)
        # Health calls are limited like all calls without a token: a connection
        # may make only a few.
        with dial() as channel:
            with self.assertRaises(grpc.RpcError) as ended:
                for _ in range(20):
                    health(channel, "")
            self.assertEqual(ended.exception.code(),
                             grpc.StatusCode.UNAVAILABLE)
        with dial() as channel:
            self.assertEqual(health(channel, ""), SERVING)

