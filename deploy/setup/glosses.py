#!/usr/bin/env python3
"""Fetch the texts that `make bench` measures recall on into a cache folder.

usage: glosses.py CACHE_DIR

    CACHE_DIR/glosses/glosses.txt    116,697 definitions, one a line

They are the definitions of WordNet 3.0 (Princeton University, under a licence of its own that
permits any use and that Debian's package carries), in the order of its files for nouns, verbs,
adjectives and adverbs, without their examples, each once. Comes from Debian's package
wordnet-base through apt-get, which is neither installed nor needed where the file is in place; the
result is checked against a SHA-256. Nothing but the bench reads it. Standard library only.
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
            # The licence stands in front, each of its lines behind two blanks.
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
        # As another user apt-get would complain that it cannot write here.
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
