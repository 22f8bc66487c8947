#!/usr/bin/env python3
"""Run the steps of a build, those that need the network beside those that need the processor.

usage: build.py setup | hearth | tests

    setup     RocksDB's library, the embedding model and ONNX Runtime
    hearth    that, and the binary that `make demo` runs
    tests     that, the published clients, and the binaries of the tests and benches, with lints

The Makefile sets the environment. The calls of cargo follow one another, because they share a
folder. Everything else runs beside them; RocksDB gives way to them, because they end later. Crates
compile without RocksDB: only binaries link it.

Shows how far each step is, and at the end how long each took; cargo writes the time of each crate to
cargo-timings/ in its target folder. A step that fails prints the end of its output, all of which is in
HEARTH_CACHE/build-logs; the others go on to their ends, so that they need not be repeated. A second run
waits for the first. Standard library only.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CACHE = Path(os.environ["HEARTH_CACHE"])
LOGS = CACHE / "build-logs"
SETUP = Path(__file__).resolve().parent
SECONDS_BETWEEN_LINES = 20
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ROCKSDB = ["nice", "-n", "10", "python3", SETUP / "rocksdb.py", os.environ["ROCKSDB_LIB_DIR"]]
# Clippy's driver is a compiler that lints: one compilation does both. `cargo clippy` would first check each
# third-party crate, for files that no binary uses. Benches are compiled to be linted.
TESTS = [
    *["env", "RUSTC_WORKSPACE_WRAPPER=clippy-driver", "cargo", "test", "--locked", "--no-run"],
    *["--workspace", "--all-targets", "--features", "tests/failpoints,tests/benches"],
]
DOWNLOAD_ADVICE = "Check the network, and the settings of cargo and pip for it (proxy, mirror). Then run the same command again: it continues with what is missing."
APT_ADVICE = "Check the network and the settings of apt. If it finds no such package, its lists are old: sudo apt-get update"


class Step:
    """A process with a name. Its output goes to a file, in which it may count: `12/340`."""

    def __init__(self, name, command, after=(), advice="", allows_warnings=True):
        self.name, self.command, self.after, self.advice = name, command, after, advice
        self.allows_warnings = allows_warnings
        self.log = LOGS / (name.replace(" ", "-") + ".log")
        self.process, self.seconds, self.failed = None, None, False

    def start(self):
        self.began = time.monotonic()
        progress = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "80"}
        # Colours would hide a warning from the search for it.
        environment = os.environ | progress | {"CARGO_TERM_COLOR": "never"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                list(map(str, self.command)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                # Not a session: Linux gives sessions equal shares, whatever their niceness.
                process_group=0,
            )

    def poll(self):
        """Whether the step has ended, well or not."""
        if self.seconds is None and self.process and self.process.poll() is not None:
            self.seconds = time.monotonic() - self.began
            warned = not self.allows_warnings and re.search(r"^warning", self.output(), re.MULTILINE)
            self.failed = self.process.returncode != 0 or bool(warned)
        return self.seconds is not None

    def output(self):
        """The output without the moving bars of cargo."""
        return re.sub(r"[^\n]*\r", "", self.log.read_text(errors="replace")).replace("\x1b[K", "")

    def progress(self):
        counts = re.findall(r"\b(\d+/\d+)\b", self.log.read_text(errors="replace")[-4000:])
        return f"{self.name} {counts[-1].replace('/', ' of ')}" if counts else self.name

    def report(self):
        print(f"\n{self.output()[-6000:].rstrip()}\n\nbuild: {self.name} failed; all its output is in {self.log}")
        if self.advice:
            print(f"build: {self.advice}")

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def steps(goal):
    fetch = Step("downloads of crates", ["cargo", "fetch", "--locked"], advice=DOWNLOAD_ADVICE)
    rocksdb = Step("RocksDB", ROCKSDB, after=[fetch])
    model = Step("model", ["python3", SETUP / "fetch_model.py", CACHE], advice=DOWNLOAD_ADVICE)
    result = [fetch, rocksdb, model]
    if goal == "setup":
        return result

    # What is compiled without the features of the tests is linted too, when the tests are.
    build, lax = ["cargo", "build", "--locked", "-p", "node"], goal != "tests"
    crates = Step("crates", [*build, "--timings", "--lib"], after=[fetch], allows_warnings=lax)
    hearth = Step("hearth", [*build, "--bin", "hearth"], after=[crates, rocksdb], allows_warnings=lax)
    result += [crates, hearth]
    if goal == "hearth":
        return result

    clients = Step("published clients", [SETUP / "pypi.sh", CACHE, "clients"], advice=DOWNLOAD_ADVICE)
    prometheus = Step("Prometheus", [SETUP / "unpack.sh", CACHE, "prometheus", "prometheus"], advice=APT_ADVICE)
    tests = Step("tests", TESTS, after=[hearth], allows_warnings=False)
    return [*result, clients, prometheus, tests]


def run(every_step):
    """Each step starts when those before it have ended, unless one has failed."""
    began, printed = time.monotonic(), time.monotonic()
    while True:
        ended = [step.poll() for step in every_step]
        failed = any(step.failed for step in every_step)
        for step in every_step:
            if step.process is None and not failed and all(before.poll() for before in step.after):
                step.start()
        if all(ended) or failed and all(step.poll() for step in every_step if step.process):
            break
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{state(every_step, began)[:width]}", end="", flush=True)
        elif time.monotonic() - printed > SECONDS_BETWEEN_LINES:
            print(state(every_step, began), flush=True)
            printed = time.monotonic()
        time.sleep(0.2)
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    if failed:
        for step in every_step:
            if step.failed:
                step.report()
        sys.exit(1)


def state(every_step, began):
    running = [step.progress() for step in every_step if step.process and step.seconds is None]
    return f"build: {duration(time.monotonic() - began)}: {', '.join(running)}"


def duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def main():
    os.environ.setdefault("PIP_ROOT_USER_ACTION", "ignore")
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = open(CACHE / "build.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("build: waiting for another run in the same cache folder", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    began, every_step = time.monotonic(), steps(sys.argv[1])
    if not Path(os.environ["ROCKSDB_LIB_DIR"], "librocksdb.a").exists():
        print("build: the first build takes some 10 minutes on two cores; the next ones take seconds", flush=True)
    try:
        run(every_step)
    finally:
        for name in STOPS:
            signal.signal(name, signal.SIG_IGN)
        for step in every_step:
            step.end()
    long = [f"{step.name} {duration(step.seconds)}" for step in every_step if step.seconds >= 2]
    if long:
        print(f"build: ready after {duration(time.monotonic() - began)}: {', '.join(long)}")


def check_tools():
    if sys.version_info < (3, 11):
        sys.exit(f"build: this needs Python 3.11 or later, and {sys.executable} is {sys.version.split()[0]}")
    if not shutil.which("cargo"):
        sys.exit("build: cargo is not there: install Rust by rustup (https://rustup.rs), which fetches the version that this needs")


if __name__ == "__main__":
    check_tools()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nbuild: interrupted; the same command continues")
