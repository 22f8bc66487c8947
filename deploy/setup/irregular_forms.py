#!/usr/bin/env python3
"""Write the irregular forms of English words, storage/text/src/irregular_forms.txt, anew.

usage: irregular_forms.py > storage/text/src/irregular_forms.txt

Each line is a form and its base: "went go". They are those of WordNet's verb.exc and noun.exc, verbs first; of a form with
several bases the first. Forms that the stemmer knows stay in the list: they do no harm. The script downloads the
package wordnet-base with apt-get, without installing it. Nothing runs it but who changes the list. Standard library only.
"""

import subprocess
import tempfile
from pathlib import Path

HEAD = """\
# Irregular forms of English words, from WordNet 3.0. deploy/setup/irregular_forms.py writes this file.
#
"""
# The licence of WordNet is a part of each of its data files: lines that begin with two blanks and a number.
LICENCE = "data.adv"


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "wordnet-base"]
        subprocess.run(fetch, cwd=work, check=True)
        (package,) = Path(work).glob("wordnet-base_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, work], check=True)
        data = (Path(work) / "usr/share/wordnet" / LICENCE).read_text(encoding="utf-8").splitlines()
        licence = "\n".join(f"# {line.strip().partition(' ')[2].strip()}".rstrip() for line in data if line.startswith("  "))
        bases: dict[str, str] = {}
        for name in ["verb.exc", "noun.exc"]:
            for line in (Path(work) / "usr/share/wordnet" / name).read_text(encoding="utf-8").splitlines():
                form, base = line.split()[:2]
                if (form + base).isascii() and (form + base).isalpha() and form != base:
                    bases.setdefault(form, base)
    print(HEAD + licence)
    for form in sorted(bases):
        print(form, bases[form])


if __name__ == "__main__":
    main()
