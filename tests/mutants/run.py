"""Puts one defect after the other into a copy of the sources, and runs the tests that must notice it.

    run.py CACHE [NAME ...]

`list.py` has the defects; a name has `-` in place of each space. The first test of a mutant is the one that
should notice it; the others run if it does not. The copy has a target folder of its own, which stays in
the cache.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from list import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Longest time of the tests of one mutant, in seconds.
TIMEOUT = 1800
SEEDS = "200"

COMMANDS = {
    "simulation": ["cargo", "test", "-q", "-p", "simulation", "--test", "seeds", "no_seed"],
    "storage": ["cargo", "test", "-q", "-p", "storage", "--features", "storage/failpoints", "--test", "it"],
    "raft": ["cargo", "test", "-q", "-p", "raft", "--features", "raft/failpoints", "--lib"],
    "node": ["cargo", "test", "-q", "-p", "node", "--features", "node/failpoints", "--lib"],
    "model": ["cargo", "test", "-q", "-p", "model", "--lib"],
    "it": ["cargo", "test", "-q", "-p", "tests", "--features", "tests/failpoints,tests/benches", "--test", "it"],
}


def copied(folder):
    """Copies what git tracks, as it is in the working tree. Files that are the same keep their times."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    tracked = {folder / name for name in filter(None, names.split("\0"))}
    for path in folder.rglob("*"):
        if path.is_file() and path not in tracked:
            path.unlink()
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file() and (not target.exists() or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def run(folder, target, test):
    """The failed tests, and the seconds; a text instead of tests if it does not compile."""
    kind, _, names = test.partition(":")
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target), CARGO_INCREMENTAL="1", HEARTH_SEEDS=SEEDS)
    command = COMMANDS[kind] + (["--", *names.split()] if names else [])
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "no end", time.monotonic() - started
    took = time.monotonic() - started
    if process.returncode == 0:
        return None, took
    if "could not compile" in output:
        sys.exit(f"{output}\nthe mutant does not compile")
    failed = re.findall(r"^    (\w+(?:::\w+)+)$", output, re.MULTILINE)
    lines = [line for line in output.splitlines() if line.startswith("seed ") and ", trace " not in line]
    reason = lines[0][:160] if lines else ", ".join(sorted(set(failed)))[:160]
    panic = re.search(r"panicked at (.*)", output)
    reason = reason or (panic and panic[1])
    if not reason:
        sys.exit(f"{output}\nno test failed, and yet: {' '.join(command)}")
    return reason, took


def main():
    cache, *names = sys.argv[1:]
    folder, target = pathlib.Path(cache) / "mutants/source", pathlib.Path(cache) / "mutants/target"
    copied(folder)
    by_name = {mutant.name.replace(" ", "-"): mutant for mutant in MUTANTS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"no such mutant: {', '.join(unknown)}\nthere are: {' '.join(by_name)}")
    chosen = [by_name[name] for name in names] or MUTANTS
    for test in sorted({test for mutant in chosen for test in mutant.tests}):
        reason, took = run(folder, target, test)
        if reason:
            sys.exit(f"without a defect: {test}: {reason}")
        print(f"without a defect: {test}: passed ({took:.0f} s)", flush=True)
    survived = []
    for mutant in chosen:
        path = folder / mutant.path
        original = path.read_text()
        changed = original
        for old, new in mutant.edits:
            if changed.count(old) != 1:
                sys.exit(f"{mutant.name}: {mutant.path} has its text {changed.count(old)} times")
            changed = changed.replace(old, new)
        try:
            path.write_text(changed)
            for test in mutant.tests:
                reason, took = run(folder, target, test)
                print(f"{mutant.name}: {test}: {reason or 'NOT NOTICED'} ({took:.0f} s)", flush=True)
                if reason:
                    break
            else:
                survived.append(mutant.name)
        finally:
            path.write_text(original)
    if survived:
        sys.exit(f"not noticed: {', '.join(survived)}")


if __name__ == "__main__":
    main()
