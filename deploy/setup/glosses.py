#!/usr/bin/env python3
"""Fetch the texts with which `make bench` measures recall into a cache folder.

usage: glosses.py CACHE_DIR

    CACHE_DIR/glosses/glosses.txt    116,697 definitions, one per line

They are the definitions of WordNet 3.0, without their examples, each once, in the order of its
files for nouns, verbs, adjectives and adverbs. WordNet is by Princeton University; its licence
permits any use and is part of Debian's package. The script downloads the package wordnet-base with
apt-get, without installing it, and checks the result against a SHA-256. If the file exists, it does
nothing. Only the bench reads the file. Standard library only.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

SHA256 = "e6a538077fc086bf5a6425d3bea29df3c3004e5d544d41e94992764d90af2ab9"
FILES = ["data.noun", "data.verb", "data.adj", "data.adv"]


def is_right(path: Path) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def definitions(folder: Path) -> list[str]:
    found: dict[str, None] = {}
    for name in FILES:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            # The file starts with the licence. Each of its lines starts with two blanks.
            if not line.startswith("  "):
                gloss = line.split("|", 1)[1].strip()
                found.setdefault(gloss.split('; "')[0].strip())
    return list(found)


def main() -> None:
    target = Path(sys.argv[1]) / "glosses" / "glosses.txt"
    if is_right(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        # apt-get's own user may not write into this folder.
        fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "wordnet-base"]
        subprocess.run(fetch, cwd=work, check=True)
        (package,) = Path(work).glob("wordnet-base_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, work], check=True)
        made = Path(work) / "glosses.txt"
        texts = definitions(Path(work) / "usr/share/wordnet")
        made.write_text("\n".join(texts) + "\n", encoding="utf-8")
        if not is_right(made):
            sys.exit(f"glosses.py: {len(texts)} definitions, but not those expected")
        made.rename(target)


if __name__ == "__main__":
    main()
