#!/usr/bin/env python3
"""Write the lists of English words of storage/text/src anew: irregular_forms.txt and common_words.txt.

usage: english_words.py

Both come from WordNet. Each line of the first is a form and its base: "went go", those of verb.exc and noun.exc, verbs
first; of a form with several bases the first. Forms that the stemmer knows stay in the list: they do no harm. Plurals that
are forms of a common verb, too, are left out: "lives" is "live" and not "life". A word is common if WordNet's authors
found it at least three times in their texts (cntlist.rev). The second list has the common words in lower case with 4 to 12
letters. The script downloads the package wordnet-base with apt-get, without installing it. Nothing runs it but who changes
the lists. Standard library only.
"""

import subprocess
import tempfile
from collections import Counter
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "storage/text/src"
HEAD = "# {} of English, from WordNet 3.0. deploy/setup/english_words.py writes this file.\n#\n"
# The licence of WordNet is a part of each of its data files: lines that begin with two blanks and a number.
LICENCE = "data.adv"
FOUND_MIN = 3
LETTERS = range(4, 13)


def is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha()


def counts(folder: Path, kind: str = "") -> Counter[str]:
    """How often each word was found, as each part of speech or as one: "2" is a verb."""
    found: Counter[str] = Counter()
    for line in (folder / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        sense, _, count = line.split()
        word, _, rest = sense.partition("%")
        found[word] += int(count) if rest.startswith(kind) else 0
    return found


def irregular_forms(folder: Path) -> list[str]:
    bases: dict[str, str] = {}
    verbs = counts(folder, "2")
    for name in ["verb.exc", "noun.exc"]:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            form, base = line.split()[:2]
            is_of_verb = name == "noun.exc" and form.endswith("s") and verbs[form[:-1]] >= FOUND_MIN
            if is_plain(form + base) and form != base and not is_of_verb:
                bases.setdefault(form, base)
    return [f"{form} {bases[form]}" for form in sorted(bases)]


def common_words(folder: Path) -> list[str]:
    found, words = counts(folder), set()
    for name in ["data.noun", "data.verb", "data.adj", "data.adv"]:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("  "):
                fields = line.split()
                # Number of words in hexadecimal, then each word and its number. Markers of adjectives are in brackets.
                of_sense = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
                words.update(word.partition("(")[0] for word in of_sense)
    is_common = lambda word: is_plain(word) and word.islower() and len(word) in LETTERS and found[word] >= FOUND_MIN
    return sorted(filter(is_common, words))


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        fetch = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "wordnet-base"]
        subprocess.run(fetch, cwd=work, check=True)
        (package,) = Path(work).glob("wordnet-base_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, work], check=True)
        folder = Path(work) / "usr/share/wordnet"
        data = (folder / LICENCE).read_text(encoding="utf-8").splitlines()
        licence = "".join(f"# {line.strip().partition(' ')[2].strip()}".rstrip() + "\n" for line in data if line.startswith("  "))
        for name, title, lines in [
            ("irregular_forms.txt", "Irregular forms", irregular_forms(folder)),
            ("common_words.txt", "Common words", common_words(folder)),
        ]:
            text = HEAD.format(title) + licence + "".join(f"{line}\n" for line in lines)
            (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
