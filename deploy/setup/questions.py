#!/usr/bin/env python3
"""Fetch the questions with which `make eval` measures search into a cache folder.

usage: questions.py CACHE_DIR

    CACHE_DIR/questions/friendsqa_dev.json    questions about dialogues
                        friendsqa_tst.json

FriendsQA is by Emory University, under Apache-2.0. The files come from one commit of its repository
on github.com, and each is checked against a SHA-256. Present files are not fetched again. Only the
evaluation reads them. Standard library only.
"""

import hashlib
import sys
import urllib.request
from pathlib import Path

COMMIT = "9ce6c98a6acf13c87d96b6811e4409b5de43bdfe"
SOURCE = f"https://raw.githubusercontent.com/emorynlp/FriendsQA/{COMMIT}/dat/"
FILES = {
    "friendsqa_dev.json": "3a85d3fcb175589ffd050fb4bf431da77a6e12589c8ec03f1d54060ce33ec703",
    "friendsqa_tst.json": "a98f24d4b04ac9f8d9468088febf304bd90eada134537277c1a425e31c0372bc",
}


def is_right(content: bytes, name: str) -> bool:
    return hashlib.sha256(content).hexdigest() == FILES[name]


def main() -> None:
    folder = Path(sys.argv[1]) / "questions"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        target = folder / name
        if target.exists() and is_right(target.read_bytes(), name):
            continue
        try:
            with urllib.request.urlopen(SOURCE + name, timeout=60) as response:
                content = response.read()
        except OSError as error:
            sys.exit(f"questions.py: {SOURCE}{name}: {error}; put the file into {folder} by hand")
        if not is_right(content, name):
            sys.exit(f"questions.py: {name} is not the expected file")
        target.write_bytes(content)


if __name__ == "__main__":
    main()
