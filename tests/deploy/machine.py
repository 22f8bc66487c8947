"""Machines with systemd, in containers of systemd-nspawn, on a network of their own."""

import shutil
import subprocess
import time
from pathlib import Path

BRIDGE = "hearth-test"
SUBNET = "10.83.51"
SECONDS_TO_BOOT = 60


class Network:
    """A bridge that leads nowhere else. Needs root."""

    def __enter__(self):
        self.__exit__()
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{SUBNET}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True)

    def add(self, name, number):
        """A network namespace on the bridge."""
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"veth-{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"veth-{number}", "master", BRIDGE, "up")
        for command in (["addr", "add", f"{SUBNET}.{number + 10}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            run("ip", "-n", name, *command)
        run("ip", "-n", name, "link", "set", "lo", "up")


class Machine:
    """A small Debian, booted. `names` are the machines of the network by number."""

    def __init__(self, network, work, archive, number, names):
        self.name, self.root = names[number], work / names[number]
        self.root.mkdir()
        run("tar", "-C", self.root, "-xf", archive)
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        hosts = [f"{SUBNET}.{other + 10} {name}\n" for other, name in names.items()]
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(hosts))
        network.add(self.name, number)
        command = ["systemd-nspawn", "--quiet", "--boot", "--keep-unit", "--register=no", "--link-journal=no"]
        command += [f"--directory={self.root}", f"--hostname={self.name}", f"--machine={self.name}"]
        command += [f"--network-namespace-path=/run/netns/{self.name}"]
        # It copies the file of this machine otherwise.
        command += ["--resolv-conf=off", "--timezone=off"]
        self.log = open(work / f"{self.name}.log", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def booted(self):
        """Waits until its systemd has started."""
        deadline = time.monotonic() + SECONDS_TO_BOOT
        while time.monotonic() < deadline:
            found = self.try_run("systemctl is-system-running")
            if found.stdout.strip() in ("running", "degraded"):
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise AssertionError(f"{self.name} did not boot: {Path(self.log.name).read_text(errors='replace')[-2000:]}")

    def try_run(self, command):
        """Runs a line of a shell as root in it."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        leader = children.stdout.split()[0] if children.stdout.strip() else "0"
        enter = ["nsenter", "--target", leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return subprocess.run(
            [*enter, "sh", "-c", f"cd /root && {command}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
        )

    def run(self, command):
        """The output of a line that must succeed."""
        ran = self.try_run(command)
        if ran.returncode != 0:
            journal = self.try_run("journalctl --no-pager --unit hearth --lines 30").stdout
            raise AssertionError(f"{self.name}: {command}\n{ran.stdout}{ran.stderr}\n{journal}")
        return ran.stdout + ran.stderr

    def eventually(self, what, command, holds, seconds=60):
        """Waits until the output of a line holds."""
        deadline = time.monotonic() + seconds
        while True:
            ran = self.try_run(command)
            text = ran.stdout + ran.stderr
            if holds(text):
                return text
            if time.monotonic() > deadline:
                journal = self.try_run("journalctl --no-pager --unit hearth --lines 30").stdout
                raise AssertionError(f"{self.name}: {what}: not within {seconds} s: {text}\n{journal}")
            time.sleep(0.3)

    def copy_to(self, source, target):
        """Copies a file of this test, or a folder's files, into it."""
        target = self.root / target.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        for path in [source] if source.is_file() else source.iterdir():
            shutil.copy(path, target)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True)


def run(*command, env=None):
    ran = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {ran.stdout}{ran.stderr}")
    return ran.stdout
