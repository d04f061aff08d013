"""Layers side by side and one vector a sentence: padding and batch mates never count."""

import numpy as np
import pytest
from tiny import DIM, LAYERS

from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import pool_tokens

SENTENCES = [["The", "cat", "sat", "."], [], ["a"], ["b", "c"]]


def test_concat_puts_the_layers_of_a_token_side_by_side(embedder):
    for vectors, layers in zip(embedder.embed(SENTENCES, "concat"), embedder.embed(SENTENCES), strict=True):
        assert vectors.shape == (layers.shape[1], LAYERS * DIM)
        for token in range(layers.shape[1]):
            np.testing.assert_array_equal(vectors[token], np.concatenate([layer[token] for layer in layers]))


@pytest.mark.parametrize("pool", ["mean", "max", "sum"])
@pytest.mark.parametrize("layers", ["all", "concat", "average", 1])
def test_pooling_is_over_the_tokens_of_the_sentence_alone(embedder, layers, pool):
    """Against one sentence at a time, by numpy."""
    together, half = embedder.embed(SENTENCES, layers, pool), Embedder(embedder.bilm, dtype="float16")
    assert {vector.dtype for vector in half.embed(SENTENCES, layers, pool)} == {np.dtype(np.float16)}
    for sentence, vector in zip(SENTENCES, together, strict=True):
        (tokens,) = embedder.embed([sentence], layers)
        expected = getattr(np, pool)(tokens, axis=-2) if sentence else np.zeros_like(tokens[..., :1, :].sum(axis=-2))
        assert vector.dtype == np.float32
        assert vector.shape == ((LAYERS, DIM) if layers == "all" else (DIM * (LAYERS if layers == "concat" else 1),))
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_the_mean_of_many_tokens_is_exact():
    """Float32 would lose the last digits of a sum over a long protein."""
    vectors = np.full((100_000, 2), 0.1, np.float32)
    np.testing.assert_allclose(pool_tokens(vectors, "mean"), vectors[0], rtol=1e-6)
