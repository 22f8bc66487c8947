#!/usr/bin/env python3
"""Compute reference embeddings with all-MiniLM-L6-v2, slowly and in plain steps.

usage: reference_vectors.py MODEL_DIR OUT.json

The expected output of Hearth's embedder for the texts below. It shares no part with the embedder:
no ONNX file, no ONNX Runtime, no tokenizer library. It reads weights and vocabulary from the
published files (MODEL_DIR: config.json, model.safetensors, tokenizer.json). Tokenizer and network
are plain Python and numpy, one text at a time, in double precision. So the tests find a wrong
graph, truncation, padding or pooling.

Run it only when the texts or the model change; tests read the result. Texts must not contain
"[SEP]" or other special tokens: a tokenizer library treats these as tokens, this script as text.
Needs numpy.
"""

import json
import math
import sys
import unicodedata
from pathlib import Path

import numpy as np

MODEL = "all-MiniLM-L6-v2"
MAX_TOKENS = 256
MAX_WORD_LENGTH = 100

# Control, format (such as the zero-width joiner) and private-use characters.
INVISIBLE = {"Cc", "Cf", "Co"}

TEXTS = [
    # One word; then two sentences of the same meaning in different words.
    "Hearth",
    "The deployment failed because the disk was full.",
    "The release did not go out: there was no space left on the volume.",
    # Punctuation, ASCII and typographic.
    "Wait... what?! (Really?) -- “yes”; no: it's 50/50, e.g. [maybe] {perhaps} <not> — «voilà»…",
    # Accents, composed and (the last word) decomposed.
    "Señor Núñez ordered crème brûlée at the Café Ångström; Zoë's naïve résumé had arrived in "
    "I\u0302le-de-France.",
    "Die Kundin möchte ihre Rechnung künftig per E-Mail erhalten, außer im Dezember; "
    "ihre Straße heißt jetzt Mühlenweg.",
    # Chinese, Japanese with voiced sounds (marks that count as accents), Korean.
    "用户更喜欢深色模式。会议改到下周三下午三点。 東京タワーのガラスは夜に光ります。 "
    "서울에는 비가 온다.",
    # Emoji, one of them joined from two by an invisible character.
    "Great job 🎉🚀 the build is green ✅ and the whole team is happy 👩\u200d💻❤️",
    # Code with tabs and line ends, and a word too long to be looked up.
    "fn heat(age: f64) -> f64 {\n\tlet half_life = 24.0; // hours\r\n"
    "\t(-age / half_life).exp2()\n}\nlet key = '" + "0123456789abcdef" * 7 + "';",
    "Invoice 2024-0815: 3 × 1,299.95 € = 3,899.85 €, due 2024-12-31 09:30 UTC, id "
    "550e8400-e29b-41d4-a716-446655440000, mask 0xDEADBEEF, π ≈ 3.14159, +49 30 901820",
    "memory " * 40 + "Memory MEMORY memories",
    # Beyond 256 tokens: the end must be ignored, tokens 128 to 256 must count.
    "The customer has run the support desk of a mid-sized logistics company for eleven years and "
    "prefers short answers with the reason first. On Mondays she reviews the tickets of the "
    "weekend; anything about customs papers goes to Rotterdam, anything about cold storage to "
    "the night shift in Gdansk. She asked us twice not to suggest video calls before ten "
    "o'clock. Last spring the warehouse changed its label printers, and for about three weeks "
    "one parcel in forty carried the barcode of its neighbour. The cause turned out to be a "
    "buffer that was flushed only when the lid was opened. Since then every incident report must "
    "name the printer, the firmware and the person who opened the lid. In June the company moved "
    "its bookings from spreadsheets to a small database. The nightly export still writes dates "
    "with the month first, which the finance team in Lyon reads the other way round, so the "
    "twelfth of July became the seventh of December in one memorable invoice. The agreed remedy "
    "is to write dates in full, year first, everywhere, and to refuse files that do not. Her "
    "deputy, Tomasz, looks after the drivers. He keeps a paper diary of road works and knows "
    "which ferries take refrigerated trailers. When he is on leave, routes north of Malmo are "
    "planned by the agency, which charges by the hour and does not answer on public holidays. "
    "The contract with the agency ends in March and will not be renewed if the new planner "
    "passes its trial. None of this concerns the bakery around the corner, whose sourdough, "
    "baked at four in the morning with rye from the island, is the best in town and sold out by "
    "nine.",
]


# --- Tokenizer: BERT, uncased ---------------------------------------------------------------------


def clean(text):
    """Lower-case words without accents. Each Chinese character is one word."""
    kept = []
    for char in text:
        invisible = unicodedata.category(char) in INVISIBLE and char not in "\t\n\r"
        if invisible or char == "\ufffd":
            continue
        if char.isspace():
            kept.append(" ")
        elif is_chinese(char):
            kept.append(f" {char} ")
        else:
            kept.append(char)
    decomposed = unicodedata.normalize("NFD", "".join(kept))
    # Lowered one by one: str.lower() on the whole would treat a Greek final sigma differently.
    return "".join(char.lower() for char in decomposed if unicodedata.category(char) != "Mn")


def is_chinese(char):
    """The ideographs of the Chinese, Japanese and Korean blocks; not kana, not hangul."""
    blocks = [
        (0x4E00, 0x9FFF),
        (0x3400, 0x4DBF),
        (0x20000, 0x2A6DF),
        (0x2A700, 0x2B73F),
        (0x2B740, 0x2B81F),
        (0x2B820, 0x2CEAF),
        (0xF900, 0xFAFF),
        (0x2F800, 0x2FA1F),
    ]
    return any(first <= ord(char) <= last for first, last in blocks)


def is_punctuation(char):
    """ASCII signs such as $ or + count too, although Unicode calls them symbols."""
    ascii_sign = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return ascii_sign or unicodedata.category(char).startswith("P")


def words(text):
    """Split at spaces; every punctuation mark is a word."""
    spaced = "".join(f" {char} " if is_punctuation(char) else char for char in clean(text))
    return spaced.split()


def word_pieces(word, vocabulary):
    """WordPiece: the longest prefix in the vocabulary, then the longest continuation, to the end."""
    if len(word) > MAX_WORD_LENGTH:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


def token_ids(text, vocabulary, limit=MAX_TOKENS):
    pieces = [piece for word in words(text) for piece in word_pieces(word, vocabulary)]
    return [vocabulary[piece] for piece in ["[CLS]", *pieces[: limit - 2], "[SEP]"]]


def read_vocabulary(path):
    return json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]


# --- Network --------------------------------------------------------------------------------------


class Network:
    def __init__(self, config, weights):
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.epsilon = config["layer_norm_eps"]
        self.weights = weights

    def embed(self, ids):
        """One text's token ids to one vector of length 1."""
        table = "embeddings.{}_embeddings.weight".format
        x = self.weights[table("word")][ids]
        x = x + self.weights[table("position")][: len(ids)]
        x = x + self.weights[table("token_type")][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for number in range(self.layers):
            x = self.layer(x, f"encoder.layer.{number}")
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def layer(self, x, name):
        gathered = self.attend(x, f"{name}.attention.self")
        attended = self.linear(gathered, f"{name}.attention.output.dense")
        x = self.norm(x + attended, f"{name}.attention.output.LayerNorm")
        wide = gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.norm(x + self.linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def attend(self, x, name):
        def per_head(part):
            return np.split(self.linear(x, f"{name}.{part}"), self.heads, axis=1)

        heads = zip(per_head("query"), per_head("key"), per_head("value"), strict=True)
        gathered = [
            softmax(query @ key.T / math.sqrt(query.shape[1])) @ value
            for query, key, value in heads
        ]
        return np.concatenate(gathered, axis=1)

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.epsilon)
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def softmax(x):
    grown = np.exp(x - x.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def gelu(x):
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return x * (1 + erf(x / math.sqrt(2))) / 2


def read_weights(path):
    """A safetensors file: eight bytes of header length, a JSON header, the numbers."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    weights = {}
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            values = np.frombuffer(content[start + first : start + last], dtype="<f4")
            weights[name] = values.reshape(entry["shape"]).astype(np.float64)
    return weights


# --- Output ---------------------------------------------------------------------------------------


def as_json(vectors):
    """One text and one vector per line, so that a diff names the text."""
    entries = [
        f'{{"text": {json.dumps(text, ensure_ascii=False)},\n'
        f' "vector": [{",".join(rounded(x) for x in vector)}]}}'
        for text, vector in zip(TEXTS, vectors, strict=True)
    ]
    return f'{{"model": "{MODEL}",\n"texts": [\n' + ",\n".join(entries) + "\n]}\n"


def rounded(x):
    return f"{round(x, 7) + 0:.7f}"  # Plus 0 makes -0 a 0.


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: reference_vectors.py MODEL_DIR OUT.json")
    model_dir, out = map(Path, sys.argv[1:])
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (model_dir / name).is_file():
            sys.exit(
                f"reference_vectors: error: {model_dir / name} is missing; "
                "fetch_model.py --keep-work leaves one behind"
            )

    vocabulary = read_vocabulary(model_dir / "tokenizer.json")
    config = json.loads((model_dir / "config.json").read_text())
    network = Network(config, read_weights(model_dir / "model.safetensors"))
    vectors = []
    for number, text in enumerate(TEXTS, start=1):
        ids = token_ids(text, vocabulary)
        print(f"reference_vectors: {number}/{len(TEXTS)}, {len(ids)} tokens: {text[:40]!r}")
        vectors.append(network.embed(ids))
    out.write_text(as_json(vectors), encoding="utf-8")
    print(f"reference_vectors: wrote {out}")


if __name__ == "__main__":
    main()
