"""Real coding agents with Hearth: `hearth agents install` is all that they get. Each asks one question of a model on
loopback. What Hearth knows must reach the model, and what was said must be kept: on three nodes, also after
the leader was killed. Without a node, an agent must answer all the same.

    run.py CACHE BINARY
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import model
from cluster import Cluster

CACHE, BINARY = Path(sys.argv[1]), sys.argv[2]
MODULES = CACHE / "adapters/node_modules"
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
QUESTION = "which port does the deploy use?"
FACT = "The port of the deploy is 9090"
# Seconds for one question. An agent needs some; a slow machine more.
PATIENCE = 240


def claude_code(home, port):
    program = MODULES / f"@anthropic-ai/claude-code-linux-{MACHINE}/claude"
    environment = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "none",
                   "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return [program, "--print", QUESTION], environment


def codex(home, port):
    config = f"""
model = "m"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"

[features]
hooks = true
"""
    write(home / ".codex/config.toml", config)
    # A person trusts the hooks once, in a dialogue.
    options = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
    return [MODULES / ".bin/codex", "exec", *options, QUESTION], {"LOOPBACK_KEY": "none"}


def opencode(home, port):
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}
    config = {"provider": {"loopback": provider}, "model": "loopback/m", "autoupdate": False}
    write(home / ".config/opencode/opencode.json", json.dumps(config))
    program = MODULES / f"opencode-linux-{MACHINE}/bin/opencode"
    return [program, "run", QUESTION], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


AGENTS = {"claude-code": claude_code, "codex": codex, "opencode": opencode}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def until(what, condition):
    """Waits for what an agent leaves to a process of its own."""
    ends = time.monotonic() + 60
    while not condition():
        if time.monotonic() > ends:
            raise SystemExit(f"adapters: not within a minute: {what}")
        time.sleep(0.1)


def question(command, environment, folder, server):
    """Asks the question. Returns the requests that reached the model, as one text."""
    server.requests.clear()
    done = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=PATIENCE)
    if done.returncode != 0 or model.ANSWER not in done.stdout:
        raise SystemExit(f"adapters: {command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return "\n".join(server.requests)


def expect(holds, what):
    if not holds:
        raise SystemExit(f"adapters: {what}")


def run(name, work, cluster, server):
    home, folder = work / f"home-{name}", work / name
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    command, own = AGENTS[name](home, server.server_port)
    # Hooks have 300 ms by default. A slow machine needs more.
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "HEARTH_URL": ",".join(cluster.urls),
                   "HEARTH_CA": cluster.ca, "HEARTH_API_KEY": cluster.key, "HEARTH_HOOK_WAIT": "4000"} | own
    subprocess.run([BINARY, "agents", "install", name], env=environment, check=True, stdout=subprocess.DEVNULL)
    sent = question(command, environment, folder, server)
    expect(FACT in sent, f"{name}: the model did not get what Hearth knows")
    expect("sulcus_remember" in sent, f"{name}: the model has no tools of Hearth")
    turns = f"/agent/nodes?namespace=default/captured/{name}"
    labels = lambda: [memory["label"].strip('"') for memory in cluster.request(turns)["items"]]
    until(f"{name}: both turns are kept", lambda: sorted(labels()) == sorted([QUESTION, model.ANSWER]))
    question(command, environment, folder, server)
    expect(len(labels()) == 2, f"{name}: the same turns were kept twice")
    print(f"adapters: {name} recalls and captures", flush=True)
    return lambda: question(command, environment, folder, server)


def main():
    work = Path(tempfile.mkdtemp())
    server, cluster = model.start(), Cluster(BINARY, str(work / "cluster"))
    try:
        cluster.request("/agent/nodes", {"label": FACT})
        again = []
        for name in AGENTS:
            again.append(run(name, work, cluster, server))
            if len(again) == 1:
                cluster.kill(lambda node: node["id"] == cluster.leader)
        cluster.kill(lambda node: node["id"] != cluster.leader)
        for name, repeat in zip(AGENTS, again):
            repeat()
            print(f"adapters: {name} answers without a node", flush=True)
    finally:
        cluster.end()
        shutil.rmtree(work, ignore_errors=True)
    print("adapters: passed")


main()
