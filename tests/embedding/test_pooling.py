"""Layers side by side and one vector a sentence: padding and batch mates never count."""

import numpy as np
import pytest
from tiny import DIM, LAYERS, tiny_model

from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import pool_tokens

SENTENCES = [["The", "cat", "sat", "."], [], ["a"], ["b", "c"]]


@pytest.fixture(scope="module")
def embedder():
    return Embedder(tiny_model().bilm())


@pytest.fixture(scope="module")
def every(embedder):
    return embedder.embed(SENTENCES)


def test_concat_puts_the_layers_of_a_token_side_by_side(embedder, every):
    for vectors, layers in zip(embedder.embed(SENTENCES, "concat"), every, strict=True):
        assert vectors.shape == (layers.shape[1], LAYERS * DIM)
        for token in range(layers.shape[1]):
            np.testing.assert_array_equal(vectors[token], np.concatenate([layer[token] for layer in layers]))


@pytest.mark.parametrize("pool", ["mean", "max", "sum"])
@pytest.mark.parametrize("layers", ["all", "concat", "average", 1])
def test_pooling_is_over_the_tokens_of_the_sentence_alone(embedder, layers, pool):
    """Against one sentence at a time, by numpy."""
    together = embedder.embed(SENTENCES, layers, pool)
    for sentence, vector in zip(SENTENCES, together, strict=True):
        (tokens,) = embedder.embed([sentence], layers)
        expected = getattr(np, pool)(tokens, axis=-2) if sentence else np.zeros_like(tokens[..., :1, :].sum(axis=-2))
        assert vector.dtype == np.float32
        assert vector.shape == ((LAYERS, DIM) if layers == "all" else (DIM * (LAYERS if layers == "concat" else 1),))
        np.testing.assert_allclose(vector, expected, atol=1e-6)


@pytest.mark.parametrize("pool", ["mean", "max", "sum"])
def test_pooled_vectors_have_the_type_of_the_vectors(embedder, pool):
    half = Embedder(embedder.bilm, dtype="float16").embed(SENTENCES, "top", pool)
    assert {vector.dtype for vector in half} == {np.dtype(np.float16)}


def test_the_mean_of_many_tokens_is_exact():
    """Float32 would lose the last digits of a sum over a long protein."""
    vectors = np.full((100_000, 2), 0.1, np.float32)
    np.testing.assert_allclose(pool_tokens(vectors, "mean"), vectors[0], rtol=1e-6)
