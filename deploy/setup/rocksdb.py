#!/usr/bin/env python3
"""Compile the RocksDB library once; every profile links it.

usage: rocksdb.py TARGET_FOLDER [JOBS]

    TARGET_FOLDER/librocksdb.a    from the sources of the crate librocksdb-sys that Cargo.lock names
    TARGET_FOLDER/libstdc++.a     the compiler's; the linker takes it here before it finds the shared one,
                                  so the binary runs without it, and on older systems

RocksDB's files are short, and most of what a compiler reads of each is headers. So this script
compiles *unity files* that include many sources each, in the order of upstream's list, as
upstream's own target unity_test does. If one does not compile, its sources are compiled one by one.

The flags are those of the crate's build.rs for Linux, with upstream's -O2 and -fno-rtti, and with the
instructions that make checksums fast; a build for another processor leaves them out of INSTRUCTIONS
and of node/src/process.rs, which looks for them at start. ARM's are chosen when they run.

Prints "N/M" on standard output after each unity file. A later run keeps those that are finished.
Standard library only.
"""

import concurrent.futures
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

# The fewer files, the less time in all: as many as this process may use processors. Each takes 1 GB of
# memory.
PROCESSORS = len(os.sched_getaffinity(0))
UNITY_FILES = min(PROCESSORS, 8)
# Features above the engine, such as transactions. Hearth uses none but checkpoints, which link files:
# this part is compiled without optimisation, in half the time.
UNOPTIMISED = "utilities/"

INSTRUCTIONS = {
    "x86_64": ["-msse4.2", "-mpclmul"],
    "aarch64": ["-march=armv8-a+crc+crypto"],
}

# What build.rs of the crate defines for Linux, with the feature lz4.
DEFINITIONS = [
    "NDEBUG",
    "LZ4",
    "HAVE_ALIGNED_NEW",
    "HAVE_UINT128_EXTENSION",
    "OS_LINUX",
    "ROCKSDB_PLATFORM_POSIX",
    "ROCKSDB_LIB_IO_POSIX",
    "ROCKSDB_SCHED_GETCPU_PRESENT",
    "ROCKSDB_AUXV_GETAUXVAL_PRESENT",
    "ROCKSDB_FALLOCATE_PRESENT",
    "ROCKSDB_RANGESYNC_PRESENT",
]

# Faults of RocksDB that this script corrects: in this source, this text becomes that one.
CORRECTIONS = {
    # After a loss of power, the log may end in any bytes. If they look like the header of a recycled record,
    # RocksDB reads them again without end (its issue 13333). They are damage like any other.
    "db/log_reader.cc": (
        """        // A recycled log should have started with a recycled record
        return kBadRecord;
""",
        """        *drop_size = buffer_.size();
        buffer_.clear();
        return kBadRecordChecksum;
""",
    ),
}


def main(target, jobs):
    work = target.with_name(f"{target.name}.build-{UNITY_FILES}")
    work.mkdir(parents=True, exist_ok=True)

    crates = sources_of_crates("librocksdb-sys", "lz4-sys")
    crate = crates["librocksdb-sys"]
    includes = [crate, crate / "rocksdb/include", crate / "rocksdb", crates["lz4-sys"] / "liblz4/lib"]
    compiler = [
        *os.environ.get("CXX", "clang++").split(),
        *["-c", "-std=c++20", "-O2", "-fno-rtti", "-fPIC", "-ffunction-sections", "-fdata-sections", "-w"],
        *INSTRUCTIONS.get(platform.machine(), []),
        *["-include", "cstdint"],
        # No folder of this machine is in the library: the same sources give the same bytes.
        *[f"-ffile-prefix-map={folder}=" for folder in (crate.parent, work)],
        *[f"-D{name}=1" for name in DEFINITIONS],
        *[f"-I{folder}" for folder in includes],
    ]

    done, objects = 0, []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        compiling = [
            pool.submit(compile_unity, [*compiler, *flags], work / str(n), group)
            for n, (flags, group) in enumerate(groups(crate, work))
        ]
        try:
            for result in concurrent.futures.as_completed(compiling):
                objects += result.result()
                done += 1
                print(f"{done}/{len(compiling)}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)

    (work / "librocksdb.a").unlink(missing_ok=True)
    run(["ar", "crs", work / "librocksdb.a", *sorted(objects)])
    target.mkdir(exist_ok=True)
    standard = run([compiler[0], "-print-file-name=libstdc++.a"]).strip()
    shutil.copyfile(standard, target / "libstdc++.a")
    # Renamed last: an interrupted run leaves no partial library.
    os.replace(work / "librocksdb.a", target / "librocksdb.a")
    shutil.rmtree(work)


def sources_of_crates(*names):
    """The folders of these crates, at the versions of Cargo.lock."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    packages = json.loads(run(command))["packages"]
    return {p["name"]: Path(p["manifest_path"]).parent for p in packages if p["name"] in names}


def corrected(crate, name, work):
    """The path of a source, or of a copy in `work` if it has a fault."""
    path = crate / "rocksdb" / name
    if name not in CORRECTIONS:
        return path
    fault, correction = CORRECTIONS[name]
    text = path.read_text()
    if text.count(fault) != 1:
        sys.exit(f"rocksdb: {name} is not the source that the correction was written for")
    copy = work / Path(name).name
    copy.write_text(text.replace(fault, correction))
    return copy


def groups(crate, work):
    """RocksDB's sources in the order of the list, in groups of like size, with flags of each group."""
    names = (crate / "rocksdb_lib_sources.txt").read_text().split()
    # The crate has a version of this one that needs no script.
    names.remove("util/build_version.cc")
    paths = [corrected(crate, name, work) for name in names if not name.startswith(UNOPTIMISED)]
    paths.append(crate / "build_version.cc")
    share = sum(path.stat().st_size for path in paths) / UNITY_FILES
    optimised, before = [[] for _ in range(UNITY_FILES)], 0
    for path in paths:
        optimised[min(int(before / share), UNITY_FILES - 1)].append(path)
        before += path.stat().st_size
    unoptimised = [crate / "rocksdb" / name for name in names if name.startswith(UNOPTIMISED)]
    return [([], group) for group in optimised] + [(["-O0"], unoptimised)]


def compile_unity(compiler, stem, group):
    """The object of one unity file, or, if that does not compile, one object per source."""
    unity, output = stem.with_suffix(".cc"), stem.with_suffix(".o")
    unity.write_text("".join(f'#include "{path}"\n' for path in group))
    if output.exists():
        return [output]
    result = compile([*compiler, unity], output)
    if result.returncode == 0:
        return [output]
    if result.returncode < 0:
        sys.exit(f"rocksdb: signal {-result.returncode} ended the compiler: is there 1 GB of memory for each of {UNITY_FILES}?")
    print(result.stderr[-2000:], file=sys.stderr)
    print(f"{len(group)} sources do not compile as one file: compiling them one by one", file=sys.stderr)
    outputs = [stem.with_name(f"{stem.name}-{n}.o") for n in range(len(group))]
    for path, output in zip(group, outputs):
        if not output.exists():
            check(compile([*compiler, path], output))
    return outputs


def compile(command, output):
    """Renames the object last: one that exists is whole."""
    part = output.with_suffix(".part")
    result = subprocess.run([*command, "-o", part], capture_output=True, text=True)
    if result.returncode == 0:
        os.replace(part, output)
    return result


def run(command):
    return check(subprocess.run(command, capture_output=True, text=True)).stdout


def check(result):
    if result.returncode != 0:
        sys.stderr.write(result.stderr)
        sys.exit(f"rocksdb: failed: {' '.join(map(str, result.args[:4]))} …")
    return result


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "librocksdb.a").exists():
        main(folder.absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else PROCESSORS)
