#!/usr/bin/env python3
"""Make the packages of a built binary.

usage: dist.py tree BINARY FOLDER
       dist.py dist BINARY FOLDER [--fast]
       dist.py sbom PARTS FOLDER

    tree    the files of an installation, copied into FOLDER: bin, lib, share
    dist    FOLDER/hearth-VERSION-ARCH-linux.tar.gz    the tree
            FOLDER/hearth_VERSION-1_ARCH.deb           the Debian package
            FOLDER/hearth_memory_{server,model,onnxruntime}-….whl
            FOLDER/SHA256SUMS
    sbom    FOLDER/hearth-VERSION.cdx.json: the crates in PARTS (cargo cyclonedx), and what else is in a package

The model and ONNX Runtime come from the cache (deploy/setup/fetch_model.py), whose files are checked.
The program finds them at ../share/hearth and ../lib/hearth from its own folder, so that all packages
have the same tree. The same binary gives the same bytes: each time in them is SOURCE_DATE_EPOCH, by
default that of the last commit. --fast compresses less. Needs Debian's debhelper for the Debian package,
and PyPI's wheel (deploy/setup/pypi.sh CACHE packaging). Standard library only.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "deploy" / "package"
CACHE = Path(os.environ["HEARTH_CACHE"])
MODEL = "all-MiniLM-L6-v2"
RUNTIME = "libonnxruntime.so.1.31.1"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
MAINTAINER = os.environ.get("HEARTH_MAINTAINER", "Hearth <hearth@localhost.localdomain>")
# Names under which crates ship the texts of their licences.
LICENCE_NAMES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)
SUMMARY = "Hearth, a self-hosted memory service for software agents"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["tree", "dist", "sbom"])
    parser.add_argument("binary", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fast", action="store_true", help="compress less")
    arguments = parser.parse_args()
    if "SOURCE_DATE_EPOCH" not in os.environ:
        os.environ["SOURCE_DATE_EPOCH"] = run(["git", "-C", ROOT, "log", "-1", "--format=%ct"]).strip()
    # Packages have the modes of files.
    os.umask(0o022)
    binary, folder = arguments.binary.absolute(), arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.what == "sbom":
        make_sbom(binary, folder)
        return
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        tree = work / f"hearth-{VERSION}"
        make_tree(binary, tree)
        if arguments.what == "tree":
            # Not in place: a program that runs is replaced as a whole. Existing folders stay as they are.
            run(["cp", "-r", "--remove-destination", f"{tree}/.", folder])
            return
        make_tarball(tree, folder, arguments.fast)
        make_debian(tree, work / "debian", folder, arguments.fast)
        make_wheels(tree, work / "wheels", folder)
    sums = [f"{sha256(path)}  {path.name}\n" for path in packages(folder)]
    (folder / "SHA256SUMS").write_text("".join(sums))


def packages(folder):
    """The packages in a folder."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".gz", ".deb", ".whl", ".json"))


# --- The tree ---------------------------------------------------------------------------------------


def make_tree(binary, tree):
    install(binary, tree / "bin" / "hearth", 0o755)
    hearth = tree / "bin" / "hearth"
    install(CACHE / "onnxruntime" / RUNTIME, tree / "lib/hearth" / RUNTIME)
    for path in sorted((CACHE / "models" / MODEL).iterdir()):
        install(path, tree / "share/hearth" / MODEL / path.name)
    run([hearth, "shell", "manual", tree / "share/man/man1"])
    for shell, path in [
        ("bash", "bash-completion/completions/hearth"),
        ("zsh", "zsh/site-functions/_hearth"),
        ("fish", "fish/vendor_completions.d/hearth.fish"),
    ]:
        target = tree / "share" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(run([hearth, "shell", "completions", shell]))
    documents = tree / "share/doc/hearth"
    for path in [ROOT / "LICENSE", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]:
        install(path, documents / path.name)
    for name in ["hearth.toml", "alerts.yml", "compose.yaml"]:
        install(ROOT / "deploy" / name, documents / name)
    for name in ["grafana", "helm", "kubernetes"]:
        shutil.copytree(ROOT / "deploy" / name, documents / name, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ["decisions", "images"]:
        shutil.copytree(ROOT / "docs" / name, documents / name)
    for path in sorted((ROOT / "docs").glob("*.md")):
        # These files stand beside the pages here.
        text = path.read_text().replace("](../deploy/", "](").replace("](../SECURITY.md", "](SECURITY.md")
        (documents / path.name).write_text(text.replace("](../CHANGELOG.md", "](CHANGELOG.md"))
    install(PACKAGE / "hearth.service", documents / "hearth.service")
    for name in ["LICENSE", "ThirdPartyNotices.txt"]:
        install(CACHE / "onnxruntime" / name, documents / "onnxruntime" / name)
    install(ROOT / "LICENSE", documents / MODEL / "LICENSE")
    (documents / "third-party-licences.txt").write_text(licences())
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        elif path != hearth:
            path.chmod(0o644)


def install(source, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def licences():
    """The licences of the libraries in the binary, with the texts that they ship. Equal texts stand once."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", ROOT / "Cargo.toml"]
    command += ["--filter-platform", f"{platform.machine()}-unknown-linux-gnu"]
    metadata = json.loads(run(command))
    resolved = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, ahead = set(), [package["id"] for package in metadata["packages"] if package["name"] == "node"]
    while ahead:
        package = ahead.pop()
        if package not in found:
            found.add(package)
            kinds = lambda dependency: [kind["kind"] for kind in dependency["dep_kinds"]]
            ahead += [it["pkg"] for it in resolved[package]["deps"] if None in kinds(it)]
    texts = {}
    for package in metadata["packages"]:
        if package["id"] not in found or package["source"] is None:
            continue
        name = f"{package['name']} {package['version']} ({package['license']})"
        folder = Path(package["manifest_path"]).parent
        # Crates with sources of C have their licences deeper.
        found_in = folder.rglob("*") if package["name"].endswith("-sys") else folder.iterdir()
        paths = [path for path in found_in if LICENCE_NAMES.match(path.name)]
        for path in sorted(path for path in paths if path.is_file()) or [None]:
            text = path.read_text(errors="replace").strip() if path else "The crate ships no text of its licence."
            texts.setdefault(text, []).append(name)
    parts = [", ".join(sorted(set(names))) + "\n\n" + text for text, names in texts.items()]
    # Of the packages of npm in the dashboard.
    parts.append((ROOT / "api/ui/dist/licences.md").read_text().strip())
    # Lists of its words are in the program.
    words = (ROOT / "storage/text/src/common_words.txt").read_text().splitlines()
    parts.append("\n".join(line.removeprefix("#").strip() for line in words if line.startswith("#")))
    return ("\n\n" + "-" * 100 + "\n\n").join(sorted(parts)) + "\n"


# --- Packages ---------------------------------------------------------------------------------------


def make_tarball(tree, folder, fast):
    target = folder / f"{tree.name}-{platform.machine()}-linux.tar.gz"
    tar = ["tar", "--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"]
    tar += [f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}", "-C", tree.parent, "-c", tree.name]
    with open(target, "wb") as file, subprocess.Popen(tar, stdout=subprocess.PIPE) as packed:
        check(subprocess.run(["gzip", "-n", "-1" if fast else "-9"], stdin=packed.stdout, stdout=file))
    if packed.returncode != 0:
        sys.exit("dist: tar failed")
    say(target)


def make_debian(tree, work, folder, fast):
    work.mkdir()
    shutil.copytree(PACKAGE / "debian", work / "debian")
    shutil.copytree(tree, work / "tree")
    shutil.copyfile(PACKAGE / "hearth.service", work / "debian/hearth.service")
    control = work / "debian/control"
    control.write_text(control.read_text().replace("@MAINTAINER@", MAINTAINER))
    date = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    (work / "debian/changelog").write_text(
        f"hearth ({VERSION}-1) stable; urgency=medium\n\n"
        f"  * Version {VERSION}: /usr/share/doc/hearth/CHANGELOG.md.gz says what changed.\n\n"
        f" -- {MAINTAINER}  {date}\n"
    )
    (work / "debian/copyright").write_text(copyright_text(tree))
    compression = "-Zgzip -z1" if fast else "-Zxz"
    rules = work / "debian/rules"
    rules.write_text(f"{rules.read_text()}\noverride_dh_builddeb:\n\tdh_builddeb -- {compression}\n")
    run(["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-check-builddeps"], cwd=work)
    for path in work.parent.glob("*.deb"):
        shutil.move(path, folder / path.name)
        say(folder / path.name)


def copyright_text(tree):
    """In the machine-readable format of Debian."""
    paragraphs = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Files: *\nCopyright: © the authors of Hearth\nLicense: Apache-2.0",
        f"Files: share/hearth/{MODEL}/*\nCopyright: © the authors of sentence-transformers\nLicense: Apache-2.0",
        "Files: lib/hearth/*\nCopyright: © Microsoft Corporation\nLicense: MIT",
        "License: Apache-2.0\n On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text.",
    ]
    mit = (tree / "share/doc/hearth/onnxruntime/LICENSE").read_text().split("\n", 2)[2]
    lines = [f" {line}" if line.strip() else " ." for line in mit.strip().splitlines()]
    paragraphs.append("License: MIT\n" + "\n".join(lines))
    paragraphs.append(
        "Comment: the licences of the libraries in the program are in\n"
        " /usr/share/doc/hearth/third-party-licences.txt.gz."
    )
    paragraphs[0] += "\n" + paragraphs.pop()
    return "\n\n".join(paragraphs) + "\n"


def make_wheels(tree, work, folder):
    """Three wheels, of which pip puts the files into bin, lib and share of an environment."""
    python = CACHE / "packaging/bin/python"
    runtime = RUNTIME.removeprefix("libonnxruntime.so.")
    wheels = [
        # Name, version, the file that decides where it runs, what it needs, and its files.
        ("hearth_memory_model", VERSION, None, [], [f"share/hearth/{MODEL}", f"share/doc/hearth/{MODEL}"]),
        ("hearth_memory_onnxruntime", runtime, f"lib/hearth/{RUNTIME}", [], ["lib/hearth", "share/doc/hearth/onnxruntime"]),
        (
            "hearth_memory_server",
            VERSION,
            "bin/hearth",
            [f"hearth-memory-model=={VERSION}", f"hearth-memory-onnxruntime=={runtime}"],
            ["share/man", "share/bash-completion", "share/zsh", "share/fish", "share/doc/hearth/hearth.toml"]
            + ["share/doc/hearth/LICENSE", "share/doc/hearth/third-party-licences.txt"],
        ),
    ]
    for name, version, code, requirements, paths in wheels:
        glibc = oldest_glibc(tree / code).replace(".", "_") if code else ""
        tag = f"manylinux_{glibc}_{platform.machine()}" if code else "any"
        wheel = work / name
        data = wheel / f"{name}-{version}.data"
        for path in paths:
            source, target = tree / path, data / "data" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
        if name == "hearth_memory_server":
            install(tree / "bin/hearth", data / "scripts/hearth", 0o755)
        information = wheel / f"{name}-{version}.dist-info"
        information.mkdir()
        fields = ["Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}"]
        fields += [f"Summary: {SUMMARY}", "License: MIT" if "onnx" in name else "License: Apache-2.0"]
        fields += [f"Requires-Dist: {it}" for it in requirements]
        (information / "METADATA").write_text("\n".join(fields) + "\n")
        (information / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: hearth\nRoot-Is-Purelib: {str(tag == 'any').lower()}\nTag: py3-none-{tag}\n"
        )
        run([python, "-m", "wheel", "pack", wheel, "--dest-dir", folder])
        say(next(folder.glob(f"{name}-{version}-*.whl")))


def make_sbom(parts, folder):
    """The list of parts: of crates, and of what else is in the packages. Without time, folder and chance."""
    text = parts.read_text().replace(f"file://{parts.parent.parent}", "file:///hearth")
    bom = json.loads(text)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    bom["metadata"]["timestamp"] = datetime.fromtimestamp(epoch, UTC).isoformat()
    bom["metadata"]["component"]["name"] = "hearth"
    hashes = lambda path: [{"alg": "SHA-256", "content": sha256(path)}]
    runtime = RUNTIME.removeprefix("libonnxruntime.so.")
    # What the bundle of the dashboard contains.
    bundled = re.findall(r"^## (\S+) - (\S+) \((\S+)\)$", (ROOT / "api/ui/dist/licences.md").read_text(), re.MULTILINE)
    for name, version, licence in bundled:
        purl = f"pkg:npm/{name}@{version}"
        licences = [{"license": {"id": licence}}]
        bom["components"].append({"type": "library", "name": name, "version": version, "licenses": licences, "purl": purl})
    # What the linker takes of Debian: the library of C++ and the allocator.
    shown = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\\n", "libstdc++-*-dev", "libjemalloc-dev"]
    for name, version in (line.split() for line in run(shown).splitlines() if " " in line.strip()):
        purl = f"pkg:deb/debian/{name}@{version}"
        bom["components"].append({"type": "library", "name": name, "version": version, "purl": purl})
    bom["components"] += [
        {
            "type": "library",
            "name": "onnxruntime",
            "version": runtime,
            "licenses": [{"license": {"id": "MIT"}}],
            "purl": f"pkg:pypi/onnxruntime@{runtime}",
            "hashes": hashes(CACHE / "onnxruntime" / RUNTIME),
        },
        {
            "type": "machine-learning-model",
            "name": MODEL,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "hashes": hashes(CACHE / "models" / MODEL / "model.onnx"),
        },
    ]
    del bom["serialNumber"]
    target = folder / f"hearth-{VERSION}.cdx.json"
    target.write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n")
    say(target)


def oldest_glibc(code):
    """The oldest version of glibc that has all symbols which a file needs."""
    versions = re.findall(r"GLIBC_(\d+\.\d+)", run(["objdump", "-T", code]))
    return max(versions, key=lambda version: tuple(map(int, version.split("."))))


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def say(path):
    print(f"dist: {path.name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def run(command, cwd=None):
    return check(subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd)).stdout


def check(result):
    if result.returncode != 0:
        said = ((result.stdout or "") + (result.stderr or "")).strip().splitlines()[-20:]
        sys.exit("\n    ".join([f"dist: failed: {' '.join(map(str, result.args[:4]))} …", *said]))
    return result


if __name__ == "__main__":
    main()
