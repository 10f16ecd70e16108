"""The Transformer as two ONNX graphs: the encoder, and a decoder with cached keys and values.

Names of files, inputs and outputs are those of Hugging Face's exports, which other programs expect. There is one
decoder for all steps: at the first step its caches are empty, and it computes the keys and values of the source.

Shapes: B batch, S source, T target, P earlier target positions, D d_model, H heads, K d_k, V vocabulary
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.interop.onnx.graph import Array, Graph
from regard.models.transformer import DecoderLayer, Transformer
from regard.nn import EncoderLayer, FeedForward, MultiHeadAttention, Residual

_EPSILON = 1e-5  # of LayerNorm; the default of torch
_HIDDEN = float(np.finfo(np.float32).min)  # score of what may not be seen


class GraphBuilder:
    """Adds the layers of a model to a graph. A value is the name of a tensor in it."""

    def __init__(self, model: Transformer, name: str) -> None:
        self.model, self.config = model, model.config
        self.graph = Graph(name)
        self.add, self.constant = self.graph.add, self.graph.constant

    def embed(self, ids: str, matrix: Tensor, positions: Array, first: str | None = None) -> str:
        """(B, T) → (B, T, D): embeddings × √d_model, plus the positions from `first` on."""
        vectors = self.add("Gather", self.constant(array(matrix), "embedding.weight"), ids)
        scaled = self.add("Mul", vectors, self.constant(float(self.config.d_model**0.5)))
        begin = first or self.constant([0])
        end = self.add("Add", begin, self.size(ids, 1))
        rows = self.add("Slice", self.constant(positions, "positions"), begin, end, self.constant([0]))  # (T, D)
        value: str = self.add("Add", scaled, rows)
        return value

    def encoder_layer(self, x: str, layer: nn.Module, mask: str, name: str) -> str:
        assert isinstance(layer, EncoderLayer)

        def attend(y: str) -> str:
            q, k, v = self.project(y, layer.self_attention, f"{name}.self_attention", (0, 3))
            return self.attend(q, k, v, mask, layer.self_attention, f"{name}.self_attention")

        x = self.residual(x, layer.residuals[0], attend, f"{name}.0")
        return self.residual(
            x, layer.residuals[1], lambda y: self.feed_forward(y, layer.feed_forward, name), f"{name}.1"
        )

    def residual(self, x: str, module: nn.Module, sublayer: Any, name: str) -> str:
        """Section 3.1, post-norm or pre-norm."""
        assert isinstance(module, Residual)
        total = self.add("Add", x, sublayer(x if module.post else self.norm(x, module.norm, name)))
        return self.norm(total, module.norm, name) if module.post else str(total)

    def norm(self, x: str, module: nn.Module, name: str) -> str:
        if not isinstance(module, nn.LayerNorm):
            return x  # post-norm has no norm behind a stack
        weight, bias = (
            self.constant(array(getattr(module, kind)), f"{name}.norm.{kind}") for kind in ("weight", "bias")
        )
        value: str = self.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=_EPSILON)
        return value

    def linear(self, x: str, weight: Tensor, bias: Tensor, name: str, graph: Graph | None = None) -> str:
        """xWᵀ + b; `graph` is the branch that it belongs to, if any."""
        matrix, vector = self.constant(array(weight.T), f"{name}.weight"), self.constant(array(bias), f"{name}.bias")
        add = (graph or self.graph).add
        value: str = add("Add", add("MatMul", x, matrix), vector)
        return value

    def project(
        self, x: str, module: MultiHeadAttention, name: str, parts: tuple[int, int], graph: Graph | None = None
    ) -> list[str]:
        """Queries, keys and values: those of 0, 1, 2 that `parts` covers, each (B, H, T, K)."""
        d, (first, last) = self.config.d_model, parts
        rows = slice(first * d, last * d)
        add = (graph or self.graph).add
        joined = self.linear(x, module.qkv.weight[rows], module.qkv.bias[rows], f"{name}.{'qkv'[first:last]}", graph)
        sizes = self.constant([d] * (last - first))
        split = add("Split", joined, sizes, axis=2, n=last - first) if last - first > 1 else [joined]
        shape = self.constant([0, 0, self.config.n_heads, self.config.d_k])
        return [str(add("Transpose", add("Reshape", part, shape), perm=[0, 2, 1, 3])) for part in split]

    def attend(self, q: str, k: str, v: str, mask: str, module: MultiHeadAttention, name: str) -> str:
        """softmax(scale · QKᵀ + mask)V of all heads, then W_O: (B, T, D)."""
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))  # (B, H, T, S)
        if module.has_scale:
            scores = self.add("Mul", scores, self.constant(float(self.config.d_k**-0.5)))
        weights = self.add("Softmax", self.add("Add", scores, mask), axis=-1)
        heads = self.add("Transpose", self.add("MatMul", weights, v), perm=[0, 2, 1, 3])  # (B, T, H, K)
        joined = self.add("Reshape", heads, self.constant([0, 0, self.config.d_model]))
        return self.linear(joined, module.out.weight, module.out.bias, f"{name}.out")

    def feed_forward(self, x: str, module: FeedForward, name: str) -> str:
        inner = self.linear(x, module.inner.weight, module.inner.bias, f"{name}.inner")
        return self.linear(self.activate(inner), module.outer.weight, module.outer.bias, f"{name}.outer")

    def activate(self, x: str) -> str:
        """The activations of FeedForward."""
        add = self.add
        value: str
        if self.config.activation == "relu":
            value = add("Relu", x)
        elif self.config.activation == "gelu":
            erf = add("Erf", add("Mul", x, self.constant(float(0.5**0.5))))
            value = add("Mul", add("Mul", x, self.constant(0.5)), add("Add", erf, self.constant(1.0)))
        elif self.config.activation == "silu":
            value = add("Mul", x, add("Sigmoid", x))
        else:
            gate, up = add("Split", x, self.constant([self.config.d_ff] * 2), axis=2, n=2)
            value = add("Mul", add("Mul", gate, add("Sigmoid", gate)), up)
        return value

    def padding_mask(self, attention_mask: str) -> str:
        """(B, S), 1 where a token is → (B, 1, 1, S), 0 where a token is."""
        is_padding = self.add("Equal", attention_mask, self.constant(0))
        scores = self.add("Where", is_padding, self.constant(_HIDDEN), self.constant(0.0))
        value: str = self.add("Unsqueeze", scores, self.constant([1, 2]))
        return value

    def causal_mask(self, first: str, end: str) -> str:
        """(T, P + T): 0 where a key is not later than the query."""
        one, zero = self.constant(1), self.constant(0)
        start, stop = (self.add("Squeeze", value, self.constant([0])) for value in (first, end))
        queries = self.add("Unsqueeze", self.add("Range", start, stop, one), self.constant([1]))
        seen = self.add("LessOrEqual", self.add("Range", zero, stop, one), queries)
        value: str = self.add("Where", seen, self.constant(0.0), self.constant(_HIDDEN))
        return value

    def size(self, value: str, dim: int) -> str:
        """(1,)"""
        result: str = self.add("Gather", self.add("Shape", value), self.constant([dim]))
        return result


def encoder_graph(model: Transformer, order: list[int], positions: int) -> Graph:
    """input_ids, attention_mask → last_hidden_state. `order` has our id of each row of the embedding."""
    builder = GraphBuilder(model, "encoder")
    graph = builder.graph
    ids = graph.input("input_ids", "int64", ["B", "S"])
    mask = builder.padding_mask(graph.input("attention_mask", "int64", ["B", "S"]))
    x = builder.embed(ids, model.source.embedding.weight[order], array(model.source.positions(positions)))
    for i, layer in enumerate(model.encoder):
        x = builder.encoder_layer(x, layer, mask, f"encoder.{i}")
    x = builder.norm(x, model.encoder_norm, "encoder")
    graph.output(x, "last_hidden_state", "float32", ["B", "S", model.config.d_model])
    return graph


def decoder_graph(model: Transformer, order: list[int], positions: int, is_quantized: bool = False) -> Graph:
    """input_ids, the encoder's output and mask, past_key_values.… → logits, present.…; or what the quantiser needs."""
    builder, config = GraphBuilder(model, "decoder"), model.config
    graph, add = builder.graph, builder.add
    mask = builder.padding_mask(graph.input("encoder_attention_mask", "int64", ["B", "S"]))
    ids = graph.input("input_ids", "int64", ["B", "T"])
    memory = graph.input("encoder_hidden_states", "float32", ["B", "S", config.d_model])
    layers = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
    past = [
        graph.input(f"past_key_values.{i}.{side}.{kind}", "float32", ["B", config.n_heads, length, config.d_k])
        for i in range(len(layers))
        for side, length in (("decoder", "P"), ("encoder", "Q"))
        for kind in ("key", "value")
    ]  # of each layer: keys and values of the target, then of the source
    source = _source_keys_values(builder, layers, memory, [value for i, value in enumerate(past) if i % 4 > 1])
    first = builder.size(past[0], 2)
    y = builder.embed(ids, model.target.embedding.weight[order], array(model.target.positions(positions)), first)
    causal = builder.causal_mask(first, add("Add", first, builder.size(ids, 1)))
    for i, layer in enumerate(layers):
        y, keys, values = _decoder_layer(
            builder, y, layer, past[4 * i : 4 * i + 2], source[2 * i : 2 * i + 2], (causal, mask), f"decoder.{i}"
        )
        for side, tensors, length in (("decoder", (keys, values), "P + T"), ("encoder", source[2 * i :], "S")):
            for kind, tensor in zip(("key", "value"), tensors, strict=False):
                dims: list[int | str] = ["B", config.n_heads, length, config.d_k]
                graph.output(tensor, f"present.{i}.{side}.{kind}", "float32", dims)
    logits = _logits(builder, builder.norm(y, model.decoder_norm, "decoder"), order, is_quantized)
    graph.output(logits, "logits", "float32", ["B", "T", len(order)])
    return graph


def _decoder_layer(
    builder: GraphBuilder,
    y: str,
    layer: DecoderLayer,
    past: list[str],
    source: list[str],
    masks: tuple[str, str],
    name: str,
) -> tuple[str, str, str]:
    """The output, and the keys and values of the target so far."""
    cache: list[str] = []

    def attend_target(x: str) -> str:
        q, *new = builder.project(x, layer.self_attention, f"{name}.self_attention", (0, 3))
        cache.extend(builder.add("Concat", *pair, axis=2) for pair in zip(past, new, strict=True))
        return builder.attend(q, cache[0], cache[1], masks[0], layer.self_attention, f"{name}.self_attention")

    def attend_source(x: str) -> str:
        (q,) = builder.project(x, layer.cross_attention, f"{name}.cross_attention", (0, 1))
        return builder.attend(q, source[0], source[1], masks[1], layer.cross_attention, f"{name}.cross_attention")

    y = builder.residual(y, layer.residuals[0], attend_target, f"{name}.0")
    y = builder.residual(y, layer.residuals[1], attend_source, f"{name}.1")
    y = builder.residual(
        y, layer.residuals[2], lambda x: builder.feed_forward(x, layer.feed_forward, name), f"{name}.2"
    )
    return y, cache[0], cache[1]


def _source_keys_values(builder: GraphBuilder, layers: list[DecoderLayer], memory: str, past: list[str]) -> list[str]:
    """Keys and values of the source, of all layers: computed if the caches are empty, else from the caches."""
    is_empty = builder.add("Equal", builder.size(past[0], 2), builder.constant([0]))
    computed, cached = Graph("computed"), Graph("cached")
    for i, layer in enumerate(layers):
        tensors = builder.project(memory, layer.cross_attention, f"decoder.{i}.cross_attention", (1, 3), computed)
        for kind, tensor, old in zip(("key", "value"), tensors, past[2 * i :], strict=False):
            dims: list[int | str] = ["B", builder.config.n_heads, "S", builder.config.d_k]
            computed.output(tensor, f"computed.{i}.{kind}", "float32", dims)
            cached.output(old, f"cached.{i}.{kind}", "float32", dims)
    condition = builder.add("Squeeze", is_empty, builder.constant([0]))
    values: list[str] = builder.add("If", condition, n=len(past), then_branch=computed, else_branch=cached)
    return values


def _logits(builder: GraphBuilder, y: str, order: list[int], is_quantized: bool) -> str:
    """(B, T, D) → (B, T, V), by the matrix of the embeddings if they share it.

    The quantiser needs a matrix of its own, and transposed, which would double the size of a file in float32.
    """
    model, add, constant = builder.model, builder.add, builder.constant
    matrix = array(model.output_weight[order])
    bias = None if model.output_bias is None else constant(array(model.output_bias[order]), "output.bias")
    if is_quantized:
        logits: str = add("MatMul", y, constant(np.ascontiguousarray(matrix.T), "output.weight"))
        return logits if bias is None else str(add("Add", logits, bias))
    shared = constant(matrix, "output.weight" if model.output is not None else "embedding.weight")
    rows = add("Reshape", y, constant([-1, builder.config.d_model]))
    logits = add("Gemm", rows, shared, *([] if bias is None else [bias]), transB=1)
    shape = add("Concat", add("Slice", add("Shape", y), constant([0]), constant([2])), constant([len(order)]), axis=0)
    return str(add("Reshape", logits, shape))


def array(tensor: Tensor) -> Array:
    """float32"""
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()
