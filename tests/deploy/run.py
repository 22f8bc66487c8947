#!/usr/bin/env python3
"""Tests of the packages in a folder: each is installed, started, used, killed and upgraded.

usage: run.py CACHE DIST [wheels | debian | containers]

What an operator types stands in docs/installation.md: a test reads its commands there. Needs root, and what
`deploy/setup/packages.sh containers` and `deploy/setup/pypi.sh CACHE deploying` install.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from containers import containers
from machine import Machine, Network, run

ROOT = Path(__file__).resolve().parents[2]
MANUAL = (ROOT / "docs/installation.md").read_text()


def main(cache, dist, *wanted):
    tests = {"wheels": wheels, "debian": debian, "containers": containers}
    if len(wanted) != 1:
        # All at once: they wait for elections, silences and drains most of the time.
        running = {name: subprocess.Popen([sys.executable, __file__, cache, dist, name]) for name in tests}
        failed = [name for name, process in running.items() if process.wait() != 0]
        sys.exit(f"test-deploy: failed: {', '.join(failed)}" if failed else 0)
    [name] = wanted
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        tests[name](Path(cache), Path(dist).absolute(), Path(work))
    print(f"test-deploy: {name} passed in {time.monotonic() - began:.0f} s", flush=True)


def documented(command):
    """A command that docs/installation.md has."""
    assert f"    {command}\n" in MANUAL, f"docs/installation.md lacks: {command}"
    return command


def wheels(cache, dist, work):
    """A developer: a fresh environment, a cluster and a search by meaning within a minute. Then a crash, a node
    that loses its disk, and an upgrade."""
    began = time.monotonic()
    run("python3", "-m", "venv", "--without-pip", work / "environment")
    documented("pip install --no-index --find-links dist hearth-memory-server")
    pip = ["python3", "-m", "pip", "--python", work / "environment/bin/python", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-index", "--upgrade", "--find-links", dist]
    run(*install, "hearth-memory-server")
    with Developer(work) as developer:
        developer.start("dev", "--nodes", "3", "--base-port", "0", "--data", developer.data)
        developer.hearth("add", "The user prefers metric units.")
        assert "metric units" in developer.hearth("search", "which units should I answer in?")
        seconds = time.monotonic() - began
        assert seconds < 60, f"the first minute took {seconds:.0f} s"
        developer.end()
        # The same nodes by themselves: one is killed, and one has lost its disk and returns under a new id.
        for node in (1, 2, 3):
            developer.start("serve", "--config", developer.config(node))
        developer.eventually("all are ready", lambda: all(map(developer.is_ready, (1, 2, 3))))
        developer.stop(1, "KILL")
        developer.eventually("two go on", lambda: developer.try_hearth("add", "Written by two of three."))
        developer.start("serve", "--config", developer.config(1))
        developer.stop(3, "KILL")
        for name in ("log", "state", "log.mark", "identity.toml"):
            run("rm", "-r", developer.data / "node-3" / name)
        developer.start("serve", "--config", developer.config(3), HEARTH__NODE__ID="4")
        replace = ("cluster", "--config", developer.config(1), "replace", "3", "--new-id", "4")
        developer.eventually("it is replaced", lambda: developer.try_hearth(*replace))
        # An upgrade, node by node.
        run(*install, next_wheel(cache, dist, work))
        for node, variables in ((1, {}), (2, {}), (3, {"HEARTH__NODE__ID": "4"})):
            developer.stop(node)
            developer.start("serve", "--config", developer.config(node), **variables)
            developer.eventually("it is ready again", lambda: developer.is_ready(node))
            developer.hearth("add", f"Written after the upgrade of node {node}.")
        assert "metric units" in developer.hearth("search", "which units should I answer in?")


class Developer:
    """A machine without the cache of a build, and with three wheels in an environment."""

    def __init__(self, work):
        self.program, self.data = work / "environment/bin/hearth", work / "cluster"
        self.environment = {"HOME": str(work), "PATH": "/usr/bin:/bin"}
        self.log, self.processes = open(work / "hearth.log", "wb"), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def config(self, node):
        return f"{self.data}/node-{node}/hearth.toml"

    def start(self, *words, **variables):
        """Starts nodes. Waits until `hearth dev` says that they are ready."""
        dev = words[0] == "dev"
        out = subprocess.PIPE if dev else self.log
        environment = self.environment | variables
        process = subprocess.Popen([self.program, *words], stdout=out, stderr=self.log, text=True, env=environment)
        self.processes.append(process)
        assert not dev or any("Hearth is ready" in line for line in process.stdout), "hearth dev ended"

    def stop(self, node, signal="TERM"):
        [process] = [it for it in self.processes if self.config(node) in it.args]
        run("kill", "-s", signal, process.pid)
        process.wait(60)
        self.processes.remove(process)

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)
        self.processes.clear()

    def try_hearth(self, *words):
        """Whether a command succeeds."""
        ran = subprocess.run([self.program, *words], stdout=self.log, stderr=self.log, env=self.environment)
        return ran.returncode == 0

    def hearth(self, *words):
        return run(self.program, *words, env=self.environment)

    def is_ready(self, node):
        return self.try_hearth("health", "--config", self.config(node))

    def eventually(self, what, holds, seconds=90):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s: {Path(self.log.name).read_text()[-2000:]}"
            time.sleep(0.3)


def debian(cache, dist, work):
    """An operator's first week: one machine, then three, a crash, a lost disk, an upgrade, a removal."""
    names = {1: "node-1", 2: "node-2", 3: "node-3"}
    [package] = dist.glob("hearth_*.deb")
    with Network() as network:
        machines = []
        try:
            for number in names:
                machines.append(Machine(network, work, cache / "debian.tar", number, names))
                machines[-1].copy_to(package, "/root")
            machines = [machine.booted() for machine in machines]
            first_week(machines, package, work)
            three_hosts(machines, package)
        finally:
            for machine in machines:
                machine.end()


def first_week(machines, package, work):
    one, two, three = machines
    for machine in machines:
        machine.run(f"apt-get install --yes ./{package.name}")
        assert machine.try_run("systemctl is-active hearth").returncode != 0, "the operator starts it"
    # One machine, as the package is.
    one.run(documented("systemctl enable --now hearth"))
    status = one.run("systemctl status --no-pager hearth")
    assert 'Status: "serves"' in status, status
    login(one)
    one.run("hearth add 'The user prefers metric units.'")
    assert "metric units" in one.run("hearth search 'which units should I answer in?'")
    # It grows to three, with certificates of the same authority.
    for number, machine in enumerate(machines, 1):
        if machine is one:
            continue
        one.run(f"hearth certs --folder /etc/hearth/authority --node {number} --host node-{number} --host localhost")
        machine.copy_to(one.root / f"etc/hearth/authority/node-{number}", "/etc/hearth")
        machine.run(documented("chown root:hearth /etc/hearth/*.pem /etc/hearth/*.key"))
        machine.run(documented("chmod 640 /etc/hearth/*.pem /etc/hearth/*.key"))
        machine.run(f"sed -i -e 's/^id = 1$/id = {number}/' -e 's/^members = .*/{MEMBERS}/' /etc/hearth/hearth.toml")
        machine.run("systemctl enable --now hearth")
        one.run(f"hearth cluster --config /etc/hearth/hearth.toml add --id {number} --address node-{number}:4282")
    voters = lambda text: text.count(" voter ") == 2 and " leader " in text
    one.eventually("all three vote", STATUS, voters)
    login(three, one)
    assert "metric units" in three.run("hearth search 'which units should I answer in?'")
    # The process of the leader dies: systemd starts it again, and no write is lost.
    one.run("systemctl kill --signal=KILL --kill-whom=main hearth")
    three.run("hearth add 'Written while the first node was down.'")
    one.eventually("systemd starts it again", "systemctl is-active hearth", lambda text: text == "active\n")
    # The disk of a node is lost. It returns under a new id.
    three.run("systemctl stop hearth; rm -rf /var/lib/hearth/*")
    three.run("sed -i 's/^id = 3$/id = 4/' /etc/hearth/hearth.toml")
    three.run("systemctl start --no-block hearth")
    one.eventually(
        "the node is replaced",
        "hearth cluster --config /etc/hearth/hearth.toml replace 3 --new-id 4",
        lambda text: "Node 4 votes." in text or "was added" in text,
    )
    one.eventually("all three vote", STATUS, voters)
    three.eventually("it has all memories", "hearth search 'while the first node was down'", lambda text: "Written while" in text)
    # An upgrade, machine by machine, while an agent writes.
    upgraded = next_version(package, work)
    for machine in machines:
        machine.copy_to(upgraded, "/root")
        machine.run(f"apt-get install --yes ./{upgraded.name}")
        machine.eventually("it is ready again", "hearth health --config /etc/hearth/hearth.toml && echo it is ready", lambda text: "it is ready" in text)
        three.run("hearth add 'Written during the upgrade.'")
    assert one.run("dpkg-query --show --showformat='${Version}' hearth").endswith("+next")
    assert "metric units" in one.run("hearth search 'which units should I answer in?'")
    # A purge keeps memories.
    said = two.run("apt-get purge --yes hearth")
    assert "stay" in said and two.run("ls /var/lib/hearth /etc/hearth/node.key"), said
    assert two.try_run("pgrep hearth").returncode != 0, "its process has ended"
    one.run("hearth add 'Two nodes are left.'")


def three_hosts(machines, package):
    """The section of three hosts in docs/installation.md, word by word, on machines without a trace of Hearth."""
    for machine in machines:
        machine.run("apt-get purge --yes hearth; rm -rf /etc/hearth /var/lib/hearth /root/.config")
        machine.run(f"apt-get install --yes ./{package.name}")
    one = machines[0]
    for number, machine in enumerate(machines, 1):
        one.run(documented(f"hearth certs --folder certs --node {number} --host node-{number} --host localhost"))
        machine.copy_to(one.root / f"root/certs/node-{number}", "/etc/hearth")
        machine.run(documented("chown root:hearth /etc/hearth/*.pem /etc/hearth/*.key"))
        machine.run(documented("chmod 640 /etc/hearth/*.pem /etc/hearth/*.key"))
        machine.run(documented("rm -r /etc/hearth/authority"))
        assert f"    {MEMBERS}\n" in MANUAL
        machine.run(f"sed -i -e 's/^id = 1$/id = {number}/' -e 's/^members = .*/{MEMBERS}/' /etc/hearth/hearth.toml")
        machine.run(documented("runuser -u hearth -- hearth serve --config /etc/hearth/hearth.toml --check"))
    for machine in machines:
        machine.run(documented("systemctl enable --now hearth"))
    voters = lambda text: text.count(" voter ") == 2 and " leader " in text
    one.eventually("all three vote", documented(STATUS), voters)
    one.run(documented("hearth login --url https://localhost:4280 --ca /etc/hearth/ca.pem --key-file /var/lib/hearth/admin.key"))
    one.run("hearth add 'Three hosts by one page.'")
    # The certificate of a node is renewed while it runs.
    one.run("hearth certs --folder certs --node 1 --renew && cp certs/node-1/* /etc/hearth")
    one.run("systemctl reload hearth")
    one.eventually("it uses the new one", "journalctl --no-pager --unit hearth", lambda text: "certificates and operator key reloaded" in text)
    one.run("hearth add 'Written with a new certificate.'")
    # The place is a folder that the node may write to.
    one.run("hearth backup create /var/lib/hearth/place --config /etc/hearth/hearth.toml")
    drill = "runuser -u hearth -- hearth backup drill /var/lib/hearth/place --config /etc/hearth/hearth.toml"
    assert "A node was ready on it" in one.run(drill)


STATUS = "hearth cluster --config /etc/hearth/hearth.toml status"
MEMBERS = 'members = "1=node-1:4282, 2=node-2:4282, 3=node-3:4282"'


def login(machine, of=None):
    """Writes a profile for root, with the first key of the node `of`."""
    key = (of or machine).root / "var/lib/hearth/admin.key"
    (machine.root / "root/admin.key").write_text(key.read_text())
    machine.run("hearth login --url https://localhost:4280 --ca /etc/hearth/ca.pem --key-file /root/admin.key")


def next_version(package, work):
    """The same package under a higher version."""
    folder = work / "next"
    run("dpkg-deb", "--raw-extract", package, folder)
    control = folder / "DEBIAN/control"
    lines = [f"{line}+next" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    target = work / package.name.replace("_amd64", "+next_amd64").replace("_arm64", "+next_arm64")
    run("dpkg-deb", "-Zgzip", "-z1", "--build", "--root-owner-group", folder, target)
    return target


def next_wheel(cache, dist, work):
    """The wheel of the server under a higher version."""
    [wheel] = dist.glob("hearth_memory_server-*.whl")
    version = wheel.name.split("-")[1]
    pack = [cache / "packaging/bin/python", "-m", "wheel"]
    run(*pack, "unpack", wheel, "--dest", work / "wheel")
    folder = work / "wheel" / f"hearth_memory_server-{version}"
    for path in list(folder.iterdir()):
        path.rename(folder / path.name.replace(version, f"{version}.post1"))
    [metadata] = folder.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace(f"\nVersion: {version}\n", f"\nVersion: {version}.post1\n"))
    run(*pack, "pack", folder, "--dest-dir", work)
    return next(work.glob("hearth_memory_server-*.whl"))


if __name__ == "__main__":
    main(*sys.argv[1:])
