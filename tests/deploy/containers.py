"""Containers of podman, with a store of images, networks and volumes of their own."""

import copy
import os
import subprocess
import threading
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# The limits are those of this process: raising them may not be permitted.
CONTAINERS = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[network]
network_backend = "netavark"
network_config_dir = "{work}/networks"
"""
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{work}/images"
runroot = "{work}/run"
"""

IMAGES = ["localhost/hearth-test:one", "localhost/hearth-test:two"]
# The rest of the container is read-only.
EXPORT = "hearth export /var/lib/hearth/export && cat /var/lib/hearth/export; rm -f /var/lib/hearth/export"


class Podman:
    """Runs podman with a store in the folder `work`; nothing of it stays."""

    def __init__(self, work):
        (work / "containers.conf").write_text(CONTAINERS.format(work=work))
        (work / "storage.conf").write_text(STORAGE.format(work=work))
        self.environment = os.environ | {
            "CONTAINERS_CONF": str(work / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(work / "storage.conf"),
            # Nested isolation needs rights that a container may not have.
            "BUILDAH_ISOLATION": "chroot",
        }
        self.authority = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.try_run("podman", "system", "reset", "--force")

    def try_run(self, *command, **environment):
        return subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment | environment,
        )

    def run(self, *command, **environment):
        ran = self.try_run(*command, **environment)
        if ran.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def build(self, name, archive, dist, work):
        """The image of the packaged program, on the small Debian."""
        if not self.try_run("podman", "image", "exists", "hearth-base").returncode == 0:
            self.run("podman", "import", archive, "hearth-base")
        context = work / "context"
        (context / "dist").mkdir(parents=True, exist_ok=True)
        [package] = dist.glob("hearth-*-linux.tar.gz")
        (context / "dist" / package.name).unlink(missing_ok=True)
        os.link(package, context / "dist" / package.name)
        script = ROOT / "deploy/container/image.sh"
        arguments = ["--build-arg", "TREE=packaged", "--build-arg", "BASE=localhost/hearth-base"]
        self.run(script, name, *arguments, CONTEXT=str(context))

    def logs(self, container):
        state = self.try_run("podman", "inspect", "--format", "{{json .State}}", container)
        ran = self.try_run("podman", "logs", "--tail", "20", container)
        return state.stdout + ran.stdout + ran.stderr

    def inside(self, container, *command, key=""):
        """Runs a command in a container."""
        client = ["--env", f"HEARTH_API_KEY={key}", "--env", "HEARTH_URL=https://localhost:4280"]
        client += ["--env", f"HEARTH_CA={self.authority}"]
        return self.try_run("podman", "exec", *client, container, *command)

    def eventually(self, what, container, *command, holds, key="", seconds=90):
        """Waits until the output of a command in a container holds, and returns it."""
        deadline = time.monotonic() + seconds
        while True:
            ran = self.inside(container, *command, key=key)
            text = ran.stdout + ran.stderr
            if holds(text):
                return text
            if time.monotonic() > deadline:
                raise AssertionError(f"{container}: {what}: not within {seconds} s: {text}\n{self.logs(container)}")
            time.sleep(0.3)

    def ready(self, container):
        command = ["sh", "-c", "hearth health && echo it is ready"]
        self.eventually("it is ready", container, *command, holds=lambda text: "it is ready" in text)


class Agent:
    """Writes all the time, at one node after the other, and knows what was acknowledged."""

    def __init__(self, podman, containers, key):
        self.podman, self.containers, self.key = podman, containers, key
        self.acknowledged, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def goes_on(self):
        """Waits until three more writes are acknowledged: the cluster serves after what was done to it."""
        before, deadline = len(self.acknowledged), time.monotonic() + 90
        while len(self.acknowledged) < before + 3:
            assert time.monotonic() < deadline, f"no write for 90 s after {before} of them"
            time.sleep(0.1)

    def work(self):
        number = 0
        while not self.ends.is_set():
            number += 1
            text = f"Note {number} of an agent that works while the cluster changes."
            container = self.containers[number % len(self.containers)]
            if self.podman.inside(container, "hearth", "add", text, key=self.key).returncode == 0:
                self.acknowledged.append(text)


class ComposeNodes:
    """The three services of deploy/compose.yaml."""

    containers = [f"hearth_hearth-{number}_1" for number in (1, 2, 3)]
    config = "/etc/hearth/nodes/node-1/hearth.toml"
    authority = "/etc/hearth/nodes/ca.pem"
    services = ["hearth-1", "hearth-2", "hearth-3"]

    def __init__(self, podman, cache, work):
        self.podman, self.program = podman, cache / "deploying/bin/podman-compose"

    def compose(self, *words, image):
        command = [self.program, "--file", ROOT / "deploy/compose.yaml", "--profile", "three", *words]
        self.podman.run(*command, HEARTH_IMAGE=image)

    def create(self, image):
        self.compose("up", "--detach", *self.services, image=image)

    def lose(self, at, image):
        """Removes a container and its volume, and creates both anew."""
        self.podman.run("podman", "rm", "--force", self.containers[at])
        self.podman.run("podman", "volume", "rm", f"hearth_data-{at + 1}")
        self.compose("up", "--detach", "--no-deps", self.services[at], image=image)

    def upgrade(self, at, image):
        """Stops a container in order, and creates it of another image."""
        self.podman.run("podman", "stop", "--time", "60", self.containers[at])
        self.podman.run("podman", "rm", self.containers[at])
        self.compose("up", "--detach", "--no-deps", self.services[at], image=image)

    def end(self, image):
        self.compose("down", "--volumes", image=image)


class PodNodes:
    """The pods that the StatefulSet of deploy/kubernetes would create. podman knows no StatefulSet, and no
    projected volumes: the test makes a pod for each number, and mounts the same files from a folder."""

    containers = [f"hearth-{number}-hearth" for number in (0, 1, 2)]
    config = "/etc/hearth/hearth.toml"
    authority = "/etc/hearth/ca.pem"

    def __init__(self, podman, cache, work):
        self.podman, self.work, self.files = podman, work, work / "etc"
        manifests = yaml.safe_load_all((ROOT / "deploy/kubernetes/hearth.yaml").read_text())
        by_kind = {manifest["kind"]: manifest for manifest in manifests}
        self.template = by_kind["StatefulSet"]["spec"]["template"]
        self.files.mkdir()
        (self.files / "hearth.toml").write_text(by_kind["ConfigMap"]["data"]["hearth.toml"])

    def create(self, image):
        self.podman.run("podman", "network", "create", "pods")
        # As the secret: the files of one certificate, for all pods.
        certs = ["certs", "--folder", "/certs", "--node", "1", "--host", "localhost"]
        hosts = [word for number in (0, 1, 2) for word in ("--host", f"hearth-{number}")]
        folder = self.work / "certs"
        folder.mkdir()
        volume = ["--volume", f"{folder}:/certs", "--user", "0"]
        self.podman.run("podman", "run", "--rm", "--network", "none", *volume, image, *certs, *hosts)
        for file in (folder / "node-1").iterdir():
            (self.files / file.name).write_bytes(file.read_bytes())
            os.chown(self.files / file.name, 65532, 65532)
        for at in (0, 1, 2):
            self.play(at, image)

    def play(self, at, image):
        spec = copy.deepcopy(self.template["spec"])
        for key in ("affinity", "topologySpreadConstraints"):
            del spec[key]
        [container] = spec["containers"]
        container["image"], container["imagePullPolicy"] = image, "Never"
        # podman would publish them on this machine.
        del container["ports"]
        members = ", ".join(f"{number + 1}=hearth-{number}:4282" for number in (0, 1, 2))
        container["env"] = [
            {"name": "HEARTH__PEER__ADDRESS", "value": f"hearth-{at}:4282"},
            {"name": "HEARTH__CLUSTER__MEMBERS", "value": members},
            # No service of Kubernetes is to take notice of it.
            {"name": "HEARTH__PUBLIC__DRAIN_SECONDS", "value": "1"},
        ]
        spec["volumes"] = [
            {"name": "config", "hostPath": {"path": str(self.files), "type": "Directory"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{at}"}},
        ]
        metadata = {"name": f"hearth-{at}", "labels": self.template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        path = self.work / f"pod-{at}.yaml"
        path.write_text(yaml.safe_dump(pod))
        self.podman.run("podman", "kube", "play", "--network", "pods", path)

    def lose(self, at, image):
        self.podman.run("podman", "pod", "rm", "--force", f"hearth-{at}")
        self.podman.run("podman", "volume", "rm", f"data-{at}")
        self.play(at, image)

    def upgrade(self, at, image):
        self.podman.run("podman", "pod", "stop", "--time", "60", f"hearth-{at}")
        self.podman.run("podman", "pod", "rm", f"hearth-{at}")
        self.play(at, image)

    def end(self, image):
        for at in (0, 1, 2):
            self.podman.run("podman", "pod", "rm", "--force", f"hearth-{at}")


def containers(cache, dist, work):
    """The services of compose, then the pods: podman's names of networks and hosts are those of the machine."""
    with Podman(work) as podman:
        for image in IMAGES:
            podman.build(image, cache / "debian.tar", dist, work)
        for kind in (ComposeNodes, PodNodes):
            began = time.monotonic()
            play(podman, kind(podman, cache, work))
            print(f"test-deploy: {kind.__name__} passed in {time.monotonic() - began:.0f} s", flush=True)


def play(podman, nodes):
    """Three containers start, one is killed, one loses its disk, and all are upgraded, while an agent works."""
    old, new = IMAGES
    podman.authority, containers = nodes.authority, nodes.containers
    nodes.create(old)
    for container in containers:
        podman.ready(container)
    status = ["hearth", "cluster", "--config", nodes.config, "status"]
    voters = lambda *ids: lambda text: sorted(members(text)) == sorted(ids)
    podman.eventually("three vote", containers[0], *status, holds=voters("1", "2", "3"))
    key = podman.run("podman", "exec", containers[0], "cat", "/var/lib/hearth/admin.key").strip()
    with Agent(podman, containers, key) as agent:
        agent.goes_on()
        podman.run("podman", "kill", "--signal", "KILL", containers[0])
        podman.eventually("another leads", containers[1], *status, holds=lambda text: "leads in term" in text)
        agent.goes_on()
        podman.run("podman", "start", containers[0])
        podman.ready(containers[0])
        nodes.lose(2, old)
        podman.eventually("it replaces its former self", containers[0], *status, holds=voters("1", "2", "4"))
        podman.ready(containers[2])
        agent.goes_on()
        for at, container in enumerate(containers):
            nodes.upgrade(at, new)
            podman.ready(container)
            agent.goes_on()
    kept = lambda text: all(note in text for note in agent.acknowledged)
    for container in containers:
        assert new in podman.run("podman", "inspect", "--format", "{{.ImageName}}", container)
        podman.eventually("it has all", container, "sh", "-c", EXPORT, key=key, holds=kept)
    nodes.end(new)


def members(status):
    """Ids of the voters in the table of `hearth cluster status`."""
    rows = [line.split() for line in status.splitlines()]
    return [row[0] for row in rows if len(row) > 1 and row[1] in ("leader", "voter")]
