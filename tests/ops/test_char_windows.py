"""The compiled filters of a character CNN: equal to a convolution, and used only where they are right."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model

import elmo
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops import packing
from elmo.ops.char_windows import CompiledWindows, can_compile_windows
from elmo.ops.int8_weights import row_quantized

needs_compiler = pytest.mark.skipif(
    not can_compile_windows(torch.zeros(1, 1), [torch.zeros(1, 1, 1)]), reason="no C compiler"
)
needs_int8 = pytest.mark.skipif("compiled" not in packing.find_support("int8-weights").libraries, reason="no AVX2")


@needs_compiler
@given(
    seed=st.integers(0, 10**6),
    filters=st.lists(st.tuples(st.integers(1, 7), st.sampled_from([1, 5, 31, 32, 33, 70])), min_size=1, max_size=4),
    words=st.integers(0, 40),
    more=st.integers(0, 12),
    alphabet=st.sampled_from([1, 3, 262]),
)
def test_they_are_the_largest_values_of_a_convolution(seed, filters, words, more, alphabet):
    """For words of any length: the characters after a word's end are the same, and some words have no end."""
    draw = torch.Generator().manual_seed(seed)
    embedding = torch.randn(alphabet, 5, generator=draw)
    weights = [torch.randn(count, 5, width, generator=draw) for width, count in filters]
    columns = max(width for width, _ in filters) + more
    ids = torch.randint(alphabet, (words, columns), generator=draw)
    lengths = torch.randint(columns + 1, (words, 1), generator=draw)
    ids = torch.where(torch.arange(columns) < lengths, ids, ids[:, -1:])
    seen = CompiledWindows(embedding, weights)(ids)
    characters = embedding[ids].mT
    expected = torch.cat([torch.conv1d(characters, weight).amax(2) for weight in weights], dim=1)
    torch.testing.assert_close(seen, expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("id_", [-1, 7])
def test_an_id_outside_the_alphabet_is_an_error(id_):
    windows = CompiledWindows(torch.zeros(7, 2), [torch.zeros(3, 2, 1)])
    with pytest.raises(IndexError):
        windows(torch.tensor([[0, id_]]))


def model() -> BiLM:
    torch.manual_seed(0)
    bilm = BiLM(BiLMConfig(LstmConfig(64, 32, 2), CharCnnConfig(8, ((1, 8), (3, 24)), 1))).eval()
    for layer in bilm.modules():
        if isinstance(layer, torch.nn.Linear):  # as weights are stored with 8 bits
            integers, scales = row_quantized(layer.weight.data)
            layer.weight.data = integers * scales[:, None]
    return bilm


def word_vectors(bilm: BiLM, ids: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return bilm.packed("int8-weights", "compiled").encode_words(ids)


WITHOUT = ("no compiler", "large alphabet")


@needs_int8
@pytest.mark.parametrize("case", ["compiled", "no compiler", "large alphabet", "weights that 8 bits would round"])
def test_words_have_the_same_vectors_with_and_without_them(case, monkeypatch):
    if case == "no compiler":
        monkeypatch.setattr("elmo.ops.char_windows.compile_windows", lambda: None)
    if case == "large alphabet":
        monkeypatch.setattr("elmo.ops.char_windows.LARGEST_TABLE", 1000)
    bilm = model()
    if case == "weights that 8 bits would round":  # they stay float32
        torch.nn.init.normal_(bilm.token_encoder.highways[0].carry.weight)  # type: ignore[union-attr]
    ids = torch.randint(262, (300, 50))
    packed = bilm.packed("int8-weights", "compiled")
    assert isinstance(packed.token_encoder.windows, CompiledWindows) == (case not in WITHOUT)  # type: ignore[union-attr]
    with torch.inference_mode():
        torch.testing.assert_close(packed.encode_words(ids), bilm.encode_words(ids), rtol=0, atol=1e-4)


@needs_int8
def test_a_filter_that_is_not_a_number_is_seen():
    bilm = model()
    bilm.token_encoder.convolutions[1].weight.data[3, 2, 1] = torch.nan  # type: ignore[union-attr, index]
    assert word_vectors(bilm, torch.randint(262, (3, 50))).isnan().any()


@needs_int8
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_word_has_the_same_vector_among_any_others(threads):
    embedder = elmo.Embedder(tiny_model(model().config).bilm(), precision="int8-weights")
    words = ["a", "incomprehensibilities", "x" * 80, *(f"word{number}" for number in range(200))]
    torch.set_num_threads(threads)
    together = embedder.words.fresh(words)
    alone = torch.cat([embedder.words.fresh([word]) for word in words])
    assert np.array_equal(together.numpy(), alone.numpy())
