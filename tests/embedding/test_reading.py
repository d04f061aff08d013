"""Sentences that are read in parts have the vectors, and leave the state, of sentences that are read whole."""

from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo import ops
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import layer_selector
from elmo.embedding.reading import read_sentences
from elmo.embedding.words import WordVectors, word_encoder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.text.batching import to_batch
from elmo.types import BiLMOutput, LstmState

CONFIG = BiLMConfig(
    LstmConfig(dim=12, projection_dim=8, n_layers=3),
    CharCnnConfig(embedding_dim=4, filters=((1, 8), (2, 8)), n_highway=1),
)
WORDS = [f"w{number}" for number in range(40)]
LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    torch.manual_seed(1)
    bilm = BiLM(CONFIG).eval().requires_grad_(False)
    for layer in bilm.layers:
        torch.nn.init.normal_(layer.bias, std=0.3)
    return bilm


def text(lengths: list[int], seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[WORDS[number] for number in rng.integers(len(WORDS), size=length)] for length in lengths]


def whole(bilm: BiLM, sentences: list[list[str]], state: LstmState | None = None) -> BiLMOutput:
    with torch.no_grad():
        return bilm(to_batch(sentences), state)


@given(lengths=LENGTHS, seed=st.integers(0, 99), max_tokens=st.integers(1, 90), from_zero=st.booleans())
def test_parts_of_any_size_give_the_vectors_and_the_state_of_the_whole(bilm, lengths, seed, max_tokens, from_zero):
    sentences = text(lengths, seed)
    torch.manual_seed(seed)
    state = None if from_zero else LstmState(*(torch.randn_like(part) for part in bilm.initial_state(len(lengths))))
    given_state = None if state is None else LstmState(*(part.clone() for part in state))
    words = WordVectors(bilm, word_encoder(bilm.config, None), torch.device("cpu"))
    arrays, after = read_sentences(bilm, words, sentences, layer_selector("all", 4), state, max_tokens)
    expected = whole(bilm, sentences, state)
    for row, array in enumerate(arrays):
        np.testing.assert_allclose(array, expected.layers[:, row, 1 : lengths[row] + 1], rtol=0, atol=1e-5)
        assert array.base is None
    torch.testing.assert_close(after, expected.state, rtol=0, atol=1e-5)
    if state is not None:
        torch.testing.assert_close(state, given_state)  # the caller's own is left as it was


@pytest.mark.parametrize("policy", ["reset", "echo", "carry", "warm"])
@pytest.mark.parametrize("layers", ["all", "average", "top", 1, [0.1, 0.2, -0.3, 0.4]])
def test_policies_and_layers_do_not_depend_on_the_parts(bilm, policy, layers):
    sentences = text([60, 0, 3, 21, 1, 35, 12])
    options = {"state": policy, "batch_size": 3, "warm_text": ["w1 w2 w3 .", "w4 w5 ."]}
    one = Embedder(bilm, batch_tokens=100_000, **options).embed(sentences, layers)
    other = Embedder(bilm, batch_tokens=17, **options).embed(sentences, layers)
    for expected, seen in zip(one, other, strict=True):
        assert seen.dtype == np.float32
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-5)


def test_a_cache_of_words_that_is_smaller_than_a_sentence(bilm):
    (sentence,) = text([100])
    words = WordVectors(bilm, word_encoder(bilm.config, None), torch.device("cpu"), cache_bytes=10 * 4 * 8)  # ten words
    (array,), _ = read_sentences(bilm, words, [sentence], layer_selector("all", 4), max_tokens=16)
    np.testing.assert_allclose(array, whole(bilm, [sentence]).layers[:, 0, 1:-1], rtol=0, atol=1e-5)


def test_threads_share_the_known_words(bilm):
    one, other = WORDS[:5], WORDS[5:12]
    encode = word_encoder(bilm.config, None)
    seen = {}

    def slow(words):
        if "w0" in words and not seen:
            seen["begun"] = True
            thread.start()
            thread.join(timeout=0.2)  # by then it would be done, if it did not wait for this one
        return encode(words)

    words = WordVectors(bilm, slow, torch.device("cpu"))
    thread = Thread(target=lambda: seen.update(other=words(other)))
    seen["one"] = words(one)
    thread.join()
    for name, expected in (("one", one), ("other", other)):
        torch.testing.assert_close(seen[name], words.fresh(expected), rtol=0, atol=1e-6)
        torch.testing.assert_close(words(expected), words.fresh(expected), rtol=0, atol=1e-6)
    assert len(words) == 12


def test_long_words_are_known_up_to_a_number_of_characters(bilm):
    words = WordVectors(bilm, word_encoder(bilm.config, None), torch.device("cpu"), cache_bytes=40_000)
    for number in range(30):
        long = [f"{number}{'x' * 1000}", f"{number}", f"{'x' * 60}{number}"]
        torch.testing.assert_close(words(long), words.fresh(long), rtol=0, atol=1e-6)
        assert sum(map(len, words.known()[0])) <= 10_000
    assert words.times_emptied == 3
    huge = ["y" * 10_001, "y"]
    torch.testing.assert_close(words(huge), words.fresh(huge), rtol=0, atol=1e-6)
    assert len(words) == 0


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_parts_of_lower_precision_are_near_the_whole_of_it(bilm, precision):
    sentences = text([100, 20])
    library = ops.find_support(precision).libraries[0]  # named, it is used where float32 is faster, too
    one = Embedder(bilm, precision=precision, library=library, batch_tokens=100_000).embed(sentences)
    other = Embedder(bilm, precision=precision, library=library, batch_tokens=17).embed(sentences)
    for expected, seen in zip(one, other, strict=True):
        np.testing.assert_allclose(seen, expected, rtol=0, atol=0.02)
