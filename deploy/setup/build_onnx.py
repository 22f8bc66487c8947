#!/usr/bin/env python3
"""Write the all-MiniLM-L6-v2 sentence encoder as an ONNX file.

usage: build_onnx.py MODEL_DIR OUT.onnx

MODEL_DIR contains config.json and model.safetensors as published. The graph uses standard
operators only (opset 17). It pools and normalises, so its output needs no further step:

    in   input_ids, attention_mask, token_type_ids    int64 [batch, sequence]
    out  sentence_embedding                           float [batch, 384], of length 1

The same input gives the same bytes, so fetch_model.py can pin their hash. It converts one
architecture (BERT, exact GELU, absolute positions) and stops with an error at any other.
Needs onnx, numpy and safetensors; fetch_model.py pins their versions.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "sentence_embedding"

# Tensors of the published file that a sentence embedding does not use: the position ids 0..511 and
# the pooling head of BERT's pre-training.
UNUSED_WEIGHTS = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}


class Encoder:
    """A graph under construction. Methods add a node and return the name of its output."""

    def __init__(self, config, weights):
        self.hidden_size = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.head_size = self.hidden_size // self.heads
        self.layers = config["num_hidden_layers"]
        self.epsilon = config["layer_norm_eps"]
        self.weights = weights
        self.unread = set(weights) - UNUSED_WEIGHTS
        self.nodes = []
        self.constants = {}

    # --- Operators and constants -----------------------------------------------------------------------------------

    def op(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name, value, dtype=np.float32):
        """A small number or list. A second call with the same name returns the same constant."""
        self.constants[name] = np.array(value, dtype)
        return name

    def weight(self, name, transpose=False):
        self.unread.discard(name)
        value = self.weights[name]
        self.constants[name] = value.T if transpose else value
        return name

    def linear(self, x, source, output):
        # Published as [out, in]; MatMul takes [in, out]. Transposed here, once.
        product = self.op(
            "MatMul", [x, self.weight(f"{source}.weight", transpose=True)], f"{output}.product"
        )
        return self.op("Add", [product, self.weight(f"{source}.bias")], output)

    def layer_norm(self, x, source, output):
        scale, shift = self.weight(f"{source}.weight"), self.weight(f"{source}.bias")
        return self.op(
            "LayerNormalization", [x, scale, shift], output, axis=-1, epsilon=self.epsilon
        )

    def gelu(self, x, output):
        # x · (1 + erf(x / √2)) · ½, in the order of steps that ONNX Runtime fuses.
        x_scaled = self.op("Div", [x, self.constant("root_two", np.sqrt(2))], f"{output}.scaled")
        erf = self.op("Erf", [x_scaled], f"{output}.erf")
        gate = self.op("Add", [erf, self.constant("one", 1)], f"{output}.gate")
        gated = self.op("Mul", [x, gate], f"{output}.gated")
        return self.op("Mul", [gated, self.constant("half", 0.5)], output)

    # --- Layers, in the order of evaluation -------------------------------------------

    def embeddings(self):
        """Token, segment and position embeddings, added: [batch, sequence, hidden]."""
        table = "embeddings.{}_embeddings.weight".format
        words = self.op("Gather", [self.weight(table("word")), "input_ids"], "words")
        kinds = self.op("Gather", [self.weight(table("token_type")), "token_type_ids"], "kinds")
        # The first `sequence` rows, for every text of the batch.
        length = self.op("Shape", ["input_ids"], "sequence_length", start=1, end=2)
        axis = start = self.constant("zero_index", [0], np.int64)
        positions = self.op(
            "Slice", [self.weight(table("position")), start, length, axis], "positions"
        )
        tokens = self.op("Add", [words, kinds], "tokens")
        placed = self.op("Add", [tokens, positions], "tokens_placed")
        return self.layer_norm(placed, "embeddings.LayerNorm", "embedded")

    def padding_bias(self):
        """0 for tokens, -10,000 for padding, as [batch, 1, 1, sequence].

        Added before the softmax, so the weight of padding is exactly zero. The length of the padding
        therefore does not change an embedding. (Minus infinity would give 0/0 for an empty text.)
        """
        mask = self.op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        padding = self.op("Sub", [self.constant("one", 1), mask], "padding")
        bias = self.op("Mul", [padding, self.constant("minus_much", -10_000)], "padding.flat_bias")
        axes = self.constant("head_and_query_axes", [1, 2], np.int64)
        return self.op("Unsqueeze", [bias, axes], "padding.bias")

    def split_heads(self, x, output, order):
        # A 0 in a shape keeps that dimension: batch and sequence.
        shape = self.constant("split_shape", [0, 0, self.heads, self.head_size], np.int64)
        split = self.op("Reshape", [x, shape], f"{output}.split")
        return self.op("Transpose", [split], output, perm=order)

    def join_heads(self, x, output):
        shape = self.constant("joined_shape", [0, 0, self.hidden_size], np.int64)
        turned = self.op("Transpose", [x], f"{output}.turned", perm=[0, 2, 1, 3])
        return self.op("Reshape", [turned, shape], output)

    def attention(self, x, source, bias, here):
        """Scaled dot-product attention: softmax(query · key / √head_size) · value."""
        query, key, value = (
            self.split_heads(
                self.linear(x, f"{source}.self.{part}", f"{here}.{part}"), f"{here}.{part}s", order
            )
            for part, order in [
                ("query", [0, 2, 1, 3]),  # [batch, head, sequence, size]
                ("key", [0, 2, 3, 1]),  # [batch, head, size, sequence]: transposed for MatMul
                ("value", [0, 2, 1, 3]),
            ]
        )
        scale = self.constant("attention_scale", 1 / np.sqrt(self.head_size))
        scores = self.op("MatMul", [query, key], f"{here}.scores")
        scaled = self.op("Mul", [scores, scale], f"{here}.scaled")
        masked = self.op("Add", [scaled, bias], f"{here}.masked")
        shares = self.op("Softmax", [masked], f"{here}.shares", axis=-1)
        gathered = self.op("MatMul", [shares, value], f"{here}.gathered")
        joined = self.join_heads(gathered, f"{here}.joined")
        return self.linear(joined, f"{source}.output.dense", f"{here}.output")

    def layer(self, number, x, bias):
        """Attention, then a feed-forward network per token; each added to its input and normalised."""
        source, here = f"encoder.layer.{number}", f"layer{number}"
        attended = self.attention(x, f"{source}.attention", bias, f"{here}.attention")
        summed = self.op("Add", [attended, x], f"{here}.attention.sum")
        x = self.layer_norm(summed, f"{source}.attention.output.LayerNorm", f"{here}.attended")

        wide = self.linear(x, f"{source}.intermediate.dense", f"{here}.wide")
        bent = self.gelu(wide, f"{here}.gelu")
        narrow = self.linear(bent, f"{source}.output.dense", f"{here}.narrow")
        summed = self.op("Add", [narrow, x], f"{here}.sum")
        return self.layer_norm(summed, f"{source}.output.LayerNorm", f"{here}.result")

    def mean_over_tokens(self, x):
        """The mean of the token vectors, without padding."""
        last_axis = self.constant("last_axis", [2], np.int64)
        sequence_axis = self.constant("sequence_axis", [1], np.int64)
        mask = self.op("Unsqueeze", ["mask", last_axis], "mask.column")
        kept = self.op("Mul", [x, mask], "pool.kept")
        total = self.op("ReduceSum", [kept, sequence_axis], "pool.total", keepdims=0)
        count = self.op("ReduceSum", [mask, sequence_axis], "pool.count", keepdims=0)
        return self.op("Div", [total, count], "pool.mean")

    def write(self):
        bias = self.padding_bias()
        x = self.embeddings()
        for number in range(self.layers):
            x = self.layer(number, x, bias)
        self.op("LpNormalization", [self.mean_over_tokens(x)], OUTPUT, axis=-1, p=2)
        if self.unread:
            fail(f"weights that this script does not use: {', '.join(sorted(self.unread))}")

    def model(self):
        graph = helper.make_graph(
            self.nodes,
            "sentence-encoder",
            [tensor(name, TensorProto.INT64, ["batch", "sequence"]) for name in INPUTS],
            [tensor(OUTPUT, TensorProto.FLOAT, ["batch", self.hidden_size])],
            [
                numpy_helper.from_array(np.ascontiguousarray(value), name)
                for name, value in self.constants.items()
            ],
        )
        # Opset 17 is the first with LayerNormalization. IR version 8 belongs to it, so older
        # runtimes can read the file.
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
            producer_name="hearth build_onnx",
        )


def tensor(name, element, shape):
    return helper.make_tensor_value_info(name, element, shape)


def read_config(path):
    config = json.loads(path.read_text())
    for key, known in [
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        ("position_embedding_type", "absolute"),
    ]:
        if config[key] != known:
            fail(f"{path}: {key} is {config[key]!r}; only {known!r} is supported")
    return config


def read_weights(path):
    weights = load_file(path)
    for name, value in weights.items():
        if name not in UNUSED_WEIGHTS and value.dtype != np.float32:
            fail(f"{path}: {name} is {value.dtype}, not float32")
    return weights


def fail(text):
    sys.exit(f"build_onnx: error: {text}")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: build_onnx.py MODEL_DIR OUT.onnx")
    model_dir, out = map(Path, sys.argv[1:])
    for name in ("config.json", "model.safetensors"):
        if not (model_dir / name).is_file():
            fail(f"{model_dir / name} is missing; fetch_model.py --keep-work leaves one behind")

    config = read_config(model_dir / "config.json")
    encoder = Encoder(config, read_weights(model_dir / "model.safetensors"))
    encoder.write()
    model = encoder.model()
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    out.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    print(f"build_onnx: wrote {out} ({len(content):,} bytes, sha256 {digest})")


if __name__ == "__main__":
    main()
