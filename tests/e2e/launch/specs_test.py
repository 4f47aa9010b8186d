"""Tests the run specs that users copy."""
import json
import os
import re
import subprocess

import yaml

import harness
from harness import E2E, Gate, Lab

SPECS = os.path.join(harness.PROJECT, "specs")
# `scripts/packages.sh programs` makes it, with kubernetes-validate from PyPI.
VALIDATOR = os.path.join(os.environ.get(
    "ROLLCALL_PROGRAMS_VENVS", os.path.expanduser(
        "~/.cache/rollcall/programs")), "kubernetes", "bin", "python3")
VALIDATE = """
import json, sys, kubernetes_validate
for document in json.load(sys.stdin):
    kubernetes_validate.validate(document, "1.31", strict=True)
"""


class Specs(E2E):
    def test_the_hostfile(self):
        # This script replaces ssh and runs the command on this machine.
        # tests/e2e/launch/ssh_test.py uses a real sshd.
        ssh = self.stage.path("ssh")
        with open(ssh, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\nfor command; do :; done\n"
                    "exec sh -c \"$command\"\n")
        os.chmod(ssh, 0o700)
        launcher = self.launch(
            ["--hostfile", os.path.join(SPECS, "ssh", "hostfile"), "--ssh", ssh],
            ["sh", "-c", 'echo "I am $RANK of $WORLD_SIZE: $1"', "sh",
             "two  words; 'quoted' $HOME"])
        self.assert_code(launcher, 0)
        for node, ranks in (("node2", range(8, 16)), ("node3", range(16, 24))):
            for rank in ranks:
                self.assertIn(f"[{node}/{rank}] I am {rank} of 24: "
                              "two  words; 'quoted' $HOME", launcher.text())


def pod_spec(document):
    """Returns the pod template's spec; the kind determines its place."""
    spec = document["spec"]
    if document["kind"] == "Job":
        return spec["template"]["spec"]
    if document["kind"] == "JobSet":
        job = spec["replicatedJobs"][0]["template"]["spec"]
        return job["template"]["spec"]
    if document["kind"] == "LeaderWorkerSet":
        return spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    return {"containers": [spec["trainer"]]}


# The fields of JobSet (jobset.x-k8s.io/v1alpha2), LeaderWorkerSet (v1) and
# TrainJob (trainer.kubeflow.org/v1alpha1) outside of the pod template, as in
# the Go types of these projects. A key with ! is required. A set lists the
# allowed values. `dict` is a pod or Job, which Schemas checks.
ENVELOPES = {
    "JobSet": {
        "replicatedJobs!": [{
            "name!": str, "groupName": str, "replicas": int, "template!": dict,
            "dependsOn": [{"name!": str, "status!": {"Ready", "Complete"}}]}],
        "network": {"enableDNSHostnames": bool, "subdomain": str,
                    "publishNotReadyAddresses": bool},
        "successPolicy": {"operator!": {"All", "Any"},
                          "targetReplicatedJobs": [str]},
        "failurePolicy": {
            "maxRestarts": int,
            "restartStrategy": {"Recreate", "BlockingRecreate",
                                "InPlaceRestart"},
            "rules": [{
                "name!": str,
                "action!": {"FailJobSet", "RestartJobSet",
                            "RestartJobSetAndIgnoreMaxRestarts", "RestartJob",
                            "RestartJobAndIgnoreMaxRestarts"},
                # These reasons are defined in batch/v1.
                "onJobFailureReasons": [{
                    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes",
                    "MaxFailedIndexesExceeded", "PodFailurePolicy"}],
                "onJobFailureMessagePatterns": [str],
                "targetReplicatedJobs": [str]}]},
        "startupPolicy": {"startupPolicyOrder!": {"AnyOrder", "InOrder"}},
        "suspend": bool, "managedBy": str, "ttlSecondsAfterFinished": int,
        "coordinator": {"replicatedJob!": str, "jobIndex": int,
                        "podIndex": int}},
    "LeaderWorkerSet": {
        "replicas": int,
        "leaderWorkerTemplate!": {
            "leaderTemplate": dict, "workerTemplate!": dict, "size": int,
            "restartPolicy": {"Default", "RecreateGroupOnPodRestart",
                              "RecreateGroupAfterStart", "None"}},
        "startupPolicy": {"LeaderCreated", "LeaderReady"},
        "networkConfig": {"subdomainPolicy!": {"Shared", "UniquePerReplica"}}},
    "TrainJob": {
        "runtimeRef!": {"name!": str, "apiGroup": str, "kind": str},
        "trainer": {"image": str, "command": [str], "args": [str],
                    "env": [dict], "numNodes": int, "resourcesPerNode": dict,
                    "numProcPerNode": int},
        "suspend": bool, "activeDeadlineSeconds": int, "managedBy": str},
}


def misfits(value, shape, path):
    """Lists the parts of `value` without this shape; empty if none."""
    if isinstance(shape, type):
        # isinstance() would accept a bool as an int.
        good = type(value) is shape
        return [] if good else [f"{path}: {value!r} is no {shape.__name__}"]
    if isinstance(shape, set):
        return [] if value in shape else [f"{path}: {value!r}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [wrong for i, each in enumerate(value)
                for wrong in misfits(each, shape[0], f"{path}[{i}]")]
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no mapping"]
    known = {key.rstrip("!"): below for key, below in shape.items()}
    wrong = [f"{path}.{key[:-1]} is missing" for key in shape
             if key.endswith("!") and key[:-1] not in value]
    for key, below in value.items():
        wrong += (misfits(below, known[key], f"{path}.{key}")
                  if key in known else [f"{path}.{key} is unknown"])
    return wrong


class Envelopes(E2E):
    def test_what_stands_around_the_pods(self):
        seen = set()
        for name in sorted(os.listdir(os.path.join(SPECS, "kubernetes"))):
            with open(os.path.join(SPECS, "kubernetes", name),
                      encoding="utf-8") as f:
                for document in yaml.safe_load_all(f):
                    kind = document["kind"]
                    if kind not in ENVELOPES:
                        continue
                    seen.add(kind)
                    self.assertEqual(misfits(document["spec"], ENVELOPES[kind],
                                             kind), [])
                    for key in ENVELOPES[kind]:
                        # The check itself reports a missing key.
                        if key.endswith("!"):
                            less = {k: v for k, v in document["spec"].items()
                                    if k != key[:-1]}
                            self.assertNotEqual(
                                misfits(less, ENVELOPES[kind], kind), [])
                    self.assertNotEqual(misfits(
                        {**document["spec"], "misspelt": 1}, ENVELOPES[kind],
                        kind), [])
        self.assertEqual(seen, set(ENVELOPES))


class Schemas(E2E):
    """Validates the documents of Kubernetes' own kinds and refuses unknown
    keys. Envelopes checks the other kinds."""

    def setUp(self):
        super().setUp()
        if not os.path.exists(VALIDATOR):
            self.skipTest("NOT TESTED: no kubernetes-validate; "
                          "scripts/packages.sh programs gets it")

    def validate(self, documents):
        """Returns what the validator reports; empty if it accepts all."""
        done = subprocess.run(
            [VALIDATOR, "-W", "ignore", "-c", VALIDATE], text=True, timeout=120,
            input=json.dumps(documents, default=str), capture_output=True,
            check=False)
        return done.stderr if done.returncode != 0 else ""

    def test_kubernetes_knows_every_key(self):
        documents = []
        for name in sorted(os.listdir(os.path.join(SPECS, "kubernetes"))):
            with open(os.path.join(SPECS, "kubernetes", name),
                      encoding="utf-8") as f:
                documents += [d for d in yaml.safe_load_all(f) if d]
        kinds = [d["kind"] for d in documents]
        for kind in ("Job", "JobSet", "LeaderWorkerSet", "TrainJob"):
            self.assertIn(kind, kinds)
        known = [d for d in documents if "." not in d["apiVersion"]]
        for document in documents:
            if "." not in document["apiVersion"]:
                continue
            known.append({"apiVersion": "v1", "kind": "Pod",
                          "metadata": {"name": "pod"},
                          "spec": self.complete(pod_spec(document))})
            if document["kind"] == "JobSet":
                job = document["spec"]["replicatedJobs"][0]["template"]
                known.append({"apiVersion": "batch/v1", "kind": "Job",
                              "metadata": {"name": "job"},
                              "spec": job["spec"]})
        self.assertEqual(self.validate(known), "")
        # The validator does refuse an unknown key.
        known[0]["spec"]["unknown"] = 1
        self.assertIn("unknown", self.validate(known))

    @staticmethod
    def complete(spec):
        """Replaces keys that only a TrainJob's container has."""
        containers = []
        for given in spec["containers"]:
            container = {key: value for key, value in given.items()
                         if key not in ("numNodes", "numProcPerNode")}
            if "resourcesPerNode" in container:
                container["resources"] = container.pop("resourcesPerNode")
            containers.append({"name": "node", **container})
        return {**spec, "containers": containers}


class Sidecar(E2E):
    """Runs the commands of both containers of two sidecar.yaml pods on this
    machine, with a local daemon in place of that of rollcalld.yaml."""

    def containers(self):
        """Returns the agent's and the training container, and their env."""
        with open(os.path.join(SPECS, "kubernetes", "sidecar.yaml"),
                  encoding="utf-8") as f:
            spec = pod_spec(yaml.safe_load(f))
        (agent,), (train,) = spec["initContainers"], spec["containers"]
        self.assertEqual(agent["restartPolicy"], "Always")
        # Both containers mount one volume at one path; it has the socket.
        mounts = [next(m for m in c["volumeMounts"] if m["name"] == "rollcall")
                  for c in (agent, train)]
        self.assertEqual(*mounts)
        env = {v["name"]: v["value"] for v in train["env"]}
        path = env["ROLLCALL_SOCKET"]
        self.assertIn(f"--socket={path}", agent["command"])
        self.assertEqual(agent["startupProbe"]["exec"]["command"],
                         ["test", "-S", path])
        self.assertEqual(train["command"][:2], ["rollcall-train", "--data"])
        return agent["command"], env, mounts[0]["mountPath"]

    def test_a_container_that_fails_is_started_again(self):
        command, env, mount = self.containers()
        secret_file = self.stage.secret_file("secret")
        with open(secret_file, encoding="ascii") as f:
            secret = f.read().strip()
        daemon = self.rollcalld("--state", self.stage.path("d"),
                                "--secret-file", secret_file)
        port = daemon.await_line(r"listening on port (\d+)")[1]
        agents, sockets = [], []
        for i in (0, 1):
            # Every user may write to an emptyDir volume.
            volume = self.stage.path(f"volume{i}")
            os.mkdir(volume)
            os.chmod(volume, 0o777)
            words = [word.replace(mount, volume).replace(
                "rollcalld:29400", f"127.0.0.1:{port}").replace(
                    "--nodes=4", "--nodes=2") for word in command]
            agents.append(self.stage.start(
                [harness.ROLLCALL, *words[1:], f"--name=train-{i}",
                 f"--hosts-file={self._hosts}"], {"ROLLCALL_SECRET": secret}))
            sockets.append(env["ROLLCALL_SOCKET"].replace(mount, volume))
            agents[-1].await_line(f"ROLLCALL_SOCKET={re.escape(sockets[-1])} ")

        def train(i):
            return self.stage.start(
                [os.path.join(harness.BIN, "rollcall-train"), "--data",
                 "/usr/share/common-licenses/GPL-3", "--steps", "200",
                 "--layers", "1", "--heads", "2", "--width", "32", "--context",
                 "32", "--batch", "12", "--log-every", "1", "--log-all-ranks"],
                dict(env, ROLLCALL_SOCKET=sockets[i]))
        first, victim = train(0), train(1)
        victim.await_line(r"^step 5 .* world 2 generation 1$")
        victim.kill()
        again = train(1)
        for process in (first, again, *agents):
            self.assert_code(process, 0)
        again.await_line(r"^step 200 .* world 2 generation 2$")


class Kubernetes(E2E):
    """Runs two pods of each spec as lab hosts: each runs the spec's own
    command, with the environment and the names that Kubernetes gives a pod."""

    def read_spec(self, name):
        with open(os.path.join(SPECS, "kubernetes", name),
                  encoding="utf-8") as f:
            return list(yaml.safe_load_all(f))[-1]

    def run_pods(self, name, host, subdomain, env):
        """`host`, `env`: functions of pod i. The launcher's pod starts last."""
        self.make_pods(self.read_spec(name), host, subdomain)
        pods = self.start_pods(
            "echo rank $RANK of $WORLD_SIZE on $(hostname)", host, env)
        for pod, i in zip(pods, (1, 0)):
            self.assert_code(pod, 0)
            self.assertIsNotNone(pod.find(
                rf"rank {i} of 2 on {re.escape(host(i))}"), pod.text())

    def make_pods(self, document, host, subdomain):
        container = pod_spec(document)["containers"][0]
        self.assertEqual(
            [v["valueFrom"]["secretKeyRef"] for v in container["env"]
             if v["name"] == "ROLLCALL_SECRET"],
            [{"name": "train-secret", "key": "secret"}])
        # Replaces four pods by two, and the command by one that exists here.
        command = ["--nodes=2" if word == "--nodes=4" else word
                   for word in container["command"]]
        at = command.index("--")
        self.assertEqual(command[at + 1:], ["python3", "train.py"])
        self.command = [harness.ROLLCALL, *command[1:at + 1], "sh", "-c"]
        with open(self.stage.secret_file("secret"), encoding="ascii") as f:
            self.secret = f.read().strip()
        self.lab = Lab(self.stage, 2)
        domain = f"{subdomain}.default.svc.cluster.local"
        # In a cluster, the DNS server would resolve the other pod's name.
        self.hosts = "127.0.0.1 localhost\n" + "".join(
            f"10.77.0.{i + 1} {host(i)}.{domain} {host(i)} "
            f"{host(i)}.{subdomain} {host(i)}.{subdomain}.default\n"
            for i in (0, 1))
        for i in (0, 1):
            named = self.lab.run(i + 1, ["hostname", host(i)])
            self.assertEqual(named.code, 0, named.text())

    def start_pods(self, script, host, env, life=0):
        """Starts the containers. `life`: each start has its own files."""
        pods = []
        for i in (1, 0):
            with open(self.lab.hosts_file(i + 1), "w", encoding="ascii") as f:
                f.write(self.hosts)
            pods.append(self.lab.start(i + 1, [*self.command, script], dict(
                env(i), ROLLCALL_SECRET=self.secret,
                KUBERNETES_SERVICE_HOST="10.96.0.1", HOSTNAME=host(i),
                XDG_STATE_HOME=self.stage.path(f"state{life}-{i}"))))
        return pods

    def test_an_indexed_job(self):
        self.run_pods("job.yaml", lambda i: f"train-{i}", "train",
                      lambda i: {"JOB_COMPLETION_INDEX": str(i)})

    def test_a_job_set(self):
        self.run_pods("jobset.yaml", lambda i: f"train-node-0-{i}", "train",
                      lambda i: {"JOB_COMPLETION_INDEX": str(i)})

    def test_a_job_set_that_restarts_in_place(self):
        """All containers end at once and start again in the same pods, with the
        same names, addresses and variables. Only the annotation that counts the
        restarts changes."""
        def host(i):
            return f"train-node-0-{i}"
        document = self.read_spec("jobset.yaml")
        fields = {v["name"]: v["valueFrom"].get("fieldRef", {}).get("fieldPath")
                  for v in pod_spec(document)["containers"][0]["env"]}
        self.assertEqual(
            fields["JOBSET_IN_PLACE_RESTART_ATTEMPT"],
            "metadata.annotations['jobset.sigs.k8s.io/in-place-restart-attempt"
            "']")
        self.make_pods(document, host, "train")
        gate = Gate(self.stage)
        script = (f"echo up $RANK of $WORLD_SIZE attempt $ROLLCALL_ATTEMPT; "
                  f"test $ROLLCALL_ATTEMPT = 3 || exec cat {gate.path}")
        # The pods end twice while ranks run, then once while nodes gather.
        for life, attempt in enumerate(("", "1", "2", "3")):
            pods = self.start_pods(script, host, lambda i: {
                "JOB_COMPLETION_INDEX": str(i),
                "JOBSET_IN_PLACE_RESTART_ATTEMPT": attempt}, life)
            for pod, i in zip(pods, (1, 0)):
                if attempt == "2":
                    pod.await_line("this node (launches|joins)", "err")
                    continue
                pod.await_line(rf"up {i} of 2 attempt {attempt or 0}$")
            if attempt == "3":
                break
            for i in (0, 1):
                self.lab.kill_processes(i + 1)
            for pod in pods:
                pod.wait()
        for pod in pods:
            self.assert_code(pod, 0)

    def test_a_leader_worker_set(self):
        self.run_pods(
            "leaderworkerset.yaml",
            lambda i: "train-0" if i == 0 else f"train-0-{i}", "train",
            lambda i: {"LWS_LEADER_ADDRESS": "train-0.train.default",
                       "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(i)})

    def test_a_train_job(self):
        self.run_pods(
            "trainjob.yaml", lambda i: f"train-node-0-{i}", "train",
            lambda i: {"JOB_COMPLETION_INDEX": str(i), "PET_NNODES": "2",
                       "PET_NPROC_PER_NODE": "auto", "PET_NODE_RANK": str(i),
                       "PET_MASTER_ADDR": "train-node-0-0.train",
                       "PET_MASTER_PORT": "29500"})


    def test_a_train_job_with_a_range(self):
        """PET_NNODES is a range, as Kubeflow sets it for an elastic policy."""
        rendered = self.stage.run([harness.ROLLCALL, "render", "trainjob",
                                   "--nodes", "2:3"])
        self.assert_code(rendered, 0)
        document = yaml.safe_load("\n".join(rendered.out()))
        self.assertEqual(document["spec"]["trainer"]["numNodes"], 3)

        def host(i):
            return f"train-node-0-{i}"
        self.make_pods(document, host, "train")
        self.assertIn("--nodes=2:3", self.command)
        # The second command has no --nodes, as in a pod of trainjob.yaml.
        for command in (self.command, [
                word for word in self.command if word != "--nodes=2:3"]):
            self.command = command
            pods = self.start_pods(
                "echo rank $RANK of $WORLD_SIZE", host, lambda i: {
                    "JOB_COMPLETION_INDEX": str(i), "PET_NNODES": "2:3",
                    "PET_NPROC_PER_NODE": "auto", "PET_NODE_RANK": str(i),
                    "PET_MASTER_ADDR": "train-node-0-0.train",
                    "PET_MASTER_PORT": "29500"}, len(command))
            for pod, i in zip(pods, (1, 0)):
                self.assert_code(pod, 0)
                self.assertIsNotNone(pod.find(f"rank {i} of 2"), pod.text())


class Compose(E2E):
    def test_a_launcher_and_two_workers(self):
        with open(os.path.join(SPECS, "compose", "compose.yaml"),
                  encoding="utf-8") as f:
            services = yaml.safe_load(f)["services"]
        with open(self.stage.secret_file("secret"), encoding="ascii") as f:
            secret = f.read().strip()
        lab = Lab(self.stage, 3)
        nodes = []
        for host, name in ((2, "worker"), (3, "worker"), (1, "launcher")):
            with open(lab.hosts_file(host), "a", encoding="ascii") as f:
                f.write("\n10.77.0.1 launcher\n")
            service = services[name]
            words = service["command"]
            self.assertEqual(words[0], "rollcall")
            at = words.index("--")
            nodes.append(lab.start(
                host, [harness.ROLLCALL, *words[1:at + 1], "sh", "-c",
                       "echo rank $RANK of $WORLD_SIZE"],
                dict(service["environment"], ROLLCALL_SECRET=secret)))
        for node in nodes:
            self.assert_code(node, 0)
            self.assertIsNotNone(node.find("rank [012] of 3"))


class Systemd(E2E):
    def test_the_unit_starts_a_daemon_that_agents_join(self):
        with open(os.path.join(SPECS, "systemd", "rollcalld.service"),
                  encoding="utf-8") as f:
            start = re.search(r"^ExecStart=(.*)$", f.read(), re.M)[1].split()
        self.stage.secret_file("secret")
        self.assertEqual(start[0], "/usr/bin/rollcalld")
        lab = Lab(self.stage, 2)
        places = {"${STATE_DIRECTORY}": self.stage.path("state"),
                  "${CREDENTIALS_DIRECTORY}": self.stage.folder}
        for name, place in places.items():
            start = [word.replace(name, place) for word in start]
        daemon = lab.start(1, [os.path.join(harness.BIN, "rollcalld"),
                               *start[1:]])
        node = lab.start(2, [
            harness.ROLLCALL, "join", "--endpoint", "10.77.0.1:29400", "--job",
            "a", "--nodes", "1", "--secret-file", self.stage.path("secret"),
            "--", "sh", "-c", "echo ran-$RANK"])
        self.assert_code(node, 0)
        self.assertIsNotNone(node.find("ran-0"))
        os.kill(daemon.inner_pid(), 15)
        daemon.wait()
