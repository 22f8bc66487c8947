#!/usr/bin/env python3
"""Fetch the texts with which `make bench` and `make eval` measure search into a cache folder.

usage: glosses.py CACHE_DIR

    CACHE_DIR/glosses/glosses.txt    116,697 definitions, one per line
                      terms.txt      the same after the first word of each, and a tab

They are the definitions of WordNet 3.0, without their examples, each once, in the order of its
files for nouns, verbs, adjectives and adverbs. WordNet is by Princeton University; its licence
permits any use and is part of Debian's package. The script downloads the package wordnet-base with
apt-get, without installing it, and checks the results against a SHA-256. If the files exist, it does
nothing. Only measurements read the files. Standard library only.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

SHA256 = {
    "glosses.txt": "e6a538077fc086bf5a6425d3bea29df3c3004e5d544d41e94992764d90af2ab9",
    "terms.txt": "28b1f4af38772823860cae98b75ec6ee2d7955562eceeebaaad0d9c7e5170984",
}
FILES = ["data.noun", "data.verb", "data.adj", "data.adv"]


def is_right(path: Path) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[path.name]


def definitions(folder: Path) -> dict[str, str]:
    """The first word of each definition."""
    found: dict[str, str] = {}
    for name in FILES:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            # The file starts with the licence. Each of its lines starts with two blanks.
            if not line.startswith("  "):
                data, gloss = line.split("|", 1)
                word = data.split()[4].replace("_", " ")
                found.setdefault(gloss.strip().split('; "')[0].strip(), word)
    return found


def main() -> None:
    target = Path(sys.argv[1]) / "glosses"
    if all(is_right(target / name) for name in SHA256):
        return
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        # apt-get's own user may not write into this folder.
        fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "wordnet-base"]
        subprocess.run(fetch, cwd=work, check=True)
        (package,) = Path(work).glob("wordnet-base_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, work], check=True)
        found = definitions(Path(work) / "usr/share/wordnet")
        lines = {
            "glosses.txt": found,
            "terms.txt": [f"{word}\t{definition}" for definition, word in found.items()],
        }
        for name, texts in lines.items():
            made = Path(work) / name
            made.write_text("\n".join(texts) + "\n", encoding="utf-8")
            if not is_right(made):
                sys.exit(f"glosses.py: {len(found)} definitions, but {name} is not as expected")
            made.rename(target / name)


if __name__ == "__main__":
    main()
