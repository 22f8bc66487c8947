#!/usr/bin/env python3
"""Render the chart with its defaults into deploy/kubernetes/hearth.yaml, for those without Helm.

usage: render.py [--check]

    --check    write nothing; fail if the chart has a fault, if the file is not what the chart renders, or
               if Kubernetes would not accept it

Needs PyPI's helm-python-sdk and kubernetes-validate (deploy/setup/pypi.sh CACHE deploying).
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from helm_python.chart import Chart, lint

CHART = Path(__file__).resolve().parent / "hearth"
TARGET = CHART.parent.parent / "kubernetes/hearth.yaml"
# What a value can switch: all of it is checked.
VARIANTS = [
    {},
    {"replicas": 5, "antiAffinity": "preferred", "networkPolicy": {"enabled": False}},
    {
        "config": {
            "backup": {"url": "s3://backups/hearth", "keep": 3},
            "log": {"filter": "info,raft=debug"},
            "public": {"origins": "https://app.example", "plain_http": False},
        },
        "storage": {"className": "fast"},
    },
    {"networkPolicy": {"agents": [{"namespaceSelector": {"matchLabels": {"agents": "yes"}}}]}, "service": {"type": "LoadBalancer"}},
]
# The oldest that the chart names, and the newest that the schemas know.
KUBERNETES = ["1.27", "1.37"]
HEAD = """\
# Rendered from deploy/helm/hearth by deploy/helm/render.py: three nodes in the namespace "hearth". The secret
# with the certificates comes first: docs/kubernetes.md.
"""


def main(check):
    report = lint(CHART, strict=True)
    serious = [message for message in report["messages"] if message["severity"] > 1]
    if serious or report["errors"]:
        sys.exit(f"render: the chart has faults: {serious} {report['errors']}")
    text = render({})
    if not check:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text)
        return
    if not TARGET.exists() or TARGET.read_text() != text:
        sys.exit(f"render: {TARGET} is not what the chart renders: run deploy/helm/render.py")
    for variant in VARIANTS:
        found = settings(render(variant))
        for section, keys in variant.get("config", {}).items():
            if not keys.items() <= found[section].items():
                sys.exit(f"render: {section} is {found[section]}, and not {keys}")
        for version in KUBERNETES:
            validate(render(variant), version)


def render(values):
    chart = Chart.load(CHART)
    files = chart.render(values, name="hearth", namespace="hearth")
    manifests = [files[name].strip() for name in sorted(files) if name.endswith(".yaml") and files[name].strip()]
    return HEAD + "---\n" + "\n---\n".join(manifests) + "\n"


def settings(text):
    """The settings of a rendered chart. One that is written twice is a fault of TOML."""
    [toml] = [part["data"]["hearth.toml"] for part in yaml.safe_load_all(text) if part["kind"] == "ConfigMap"]
    return tomllib.loads(toml)


def validate(text, version):
    program = Path(sys.executable).parent / "kubernetes-validate"
    command = [program, "--strict", "--kubernetes-version", version, "-"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"render: Kubernetes {version} rejects it: {ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    main(sys.argv[1:] == ["--check"])
