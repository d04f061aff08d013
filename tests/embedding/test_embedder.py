"""The same sentence gives the same vectors; boundaries, order, layers and state are what they are said to be."""

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch
from command import run_program
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from elmo import ops
from elmo.embedding.budget import parse_bytes, tokens_within
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import keeps_layers, layer_selector, parse_layers, written_layers
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.text.batching import to_batch
from elmo.text.marks import BOS, EOS

CONFIG = BiLMConfig(
    LstmConfig(dim=12, projection_dim=8, n_layers=2),
    CharCnnConfig(embedding_dim=4, filters=((1, 8), (2, 8), (3, 8)), n_highway=1),
)
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "quickly", "naïve", "東京", ".", "!"]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    torch.manual_seed(1)
    return BiLM(CONFIG)


def carried(bilm: BiLM, sentences: list[list[str]]) -> list[np.ndarray]:
    """All layers of each sentence by the model itself, one after another."""
    state, found = bilm.initial_state(1), []
    for sentence in sentences:
        with torch.no_grad():
            output = bilm(to_batch([sentence]), state)
        state = output.state
        found.append(output.layers[:, 0, 1:-1].numpy())
    return found


def alone(bilm: BiLM, sentence: list[str]) -> np.ndarray:
    """All layers (N, T, D) by the model itself."""
    with torch.no_grad():
        return bilm(to_batch([sentence])).layers[:, 0, 1:-1].numpy()


@given(sentences=SENTENCES, seed=st.integers(0, 99), batch_tokens=st.sampled_from([1, 20, 60, 4096]))
def test_same_sentence_same_vectors_in_any_batch_order_and_call(bilm, sentences, seed, batch_tokens):
    embedder = Embedder(bilm, batch_tokens=batch_tokens)
    order = np.random.default_rng(seed).permutation(len(sentences))
    first = embedder.embed(sentences)
    second = embedder.embed([sentences[row] for row in order])
    for place, row in enumerate(order):
        expected = alone(bilm, sentences[row])
        np.testing.assert_allclose(first[row], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(second[place], expected, rtol=0, atol=1e-5)


def test_shapes_have_no_boundaries(bilm):
    embedder = Embedder(bilm)
    sentences = [["the", "cat", "sat"], [], ["dog"]]
    assert [vectors.shape for vectors in embedder.embed(sentences)] == [(3, 3, 16), (3, 0, 16), (3, 1, 16)]
    for layers in ("average", "top", 1, [0.2, 0.3, 0.5]):
        assert [v.shape for v in embedder.embed(sentences, layers)] == [(3, 16), (0, 16), (1, 16)]
    assert all(vectors.dtype == np.float32 for vectors in embedder.embed(sentences))
    half = Embedder(bilm, dtype="float16").embed(sentences)
    assert all(vectors.dtype == np.float16 for vectors in half)
    np.testing.assert_allclose(half[0], embedder.embed(sentences)[0], atol=1e-3)
    assert embedder.embed([]) == []
    assert (embedder.n_layers, embedder.dim) == (3, 16)


def test_layers_by_name_are_what_all_has(bilm):
    embedder = Embedder(bilm)
    sentences = [["the", "cat", "sat"], ["a", "dog"]]
    weights = [0.2, -0.3, 0.5]
    for row, every in enumerate(embedder.embed(sentences)):
        joined = {"average": every.mean(axis=0), "sum": every.sum(axis=0), "top": every[2]}
        for layers, vectors in (joined | {number: every[number] for number in range(-3, 3)}).items():
            np.testing.assert_allclose(embedder.embed(sentences, layers)[row], vectors, rtol=0, atol=1e-6)
        mixed = np.einsum("n,ntd->td", weights, every)
        np.testing.assert_allclose(embedder.embed(sentences, weights)[row], mixed, rtol=0, atol=1e-6)


def test_stream_gives_what_embed_gives_and_reads_ahead_a_bounded_number(bilm):
    embedder = Embedder(bilm, batch_tokens=32)
    sentences = [WORDS[: 1 + row % 9] for row in range(500)]
    read = 0

    def counted():
        nonlocal read
        for sentence in sentences:
            read += 1
            yield sentence

    most_ahead = 0
    expected = embedder.embed(sentences, "top")
    for row, vectors in enumerate(embedder.embed_stream(counted(), "top")):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        most_ahead = max(most_ahead, read - row)
        np.testing.assert_allclose(vectors, expected[row], rtol=0, atol=1e-5)
    assert most_ahead <= 8 * 32


def test_few_large_tokens_are_read_ahead(bilm):
    embedder = Embedder(bilm, batch_tokens=32)  # 256 tokens are read ahead, or 256,000 characters
    sentences = [["a", f"{row}" + "x" * 99_999] for row in range(20)] + [["a"]] * 20
    assert [len(chunk) for chunk in embedder.chunks(iter(sentences))] == [3] * 6 + [22]
    for vectors, sentence in zip(embedder.embed(sentences), sentences, strict=True):
        np.testing.assert_allclose(vectors, alone(bilm, sentence), rtol=0, atol=1e-5)


def test_items_come_back_with_the_vectors_of_their_tokens(bilm):
    items = [(number, ["the"] * (number % 7)) for number in range(60)]
    embedder = Embedder(bilm, batch_tokens=32)
    read: list[int] = []

    def given():
        for item in items:
            read.append(item[0])
            yield item

    found = embedder.embed_items(given(), lambda item: item[1], "top")
    first, _ = next(found)
    assert (first, len(read) < len(items)) == (items[0], True)
    rest = list(found)
    assert [item for item, _ in rest] == items[1:]
    for (_, tokens), vectors in rest:
        np.testing.assert_allclose(vectors, alone(bilm, tokens)[-1], rtol=0, atol=1e-5)


# State


def test_carry_passes_the_state_of_a_row_to_the_same_row(bilm):
    embedder = Embedder(bilm, state="carry", batch_size=2)
    sentences = [["the", "cat", "sat"], ["a"], ["dog"], ["it", "ran"], ["under", "the", "mat"]]
    vectors = embedder.embed(sentences)
    for rows in ((0, 2, 4), (1, 3)):
        for row, expected in zip(rows, carried(bilm, [sentences[row] for row in rows]), strict=True):
            np.testing.assert_allclose(vectors[row], expected, rtol=0, atol=1e-6)


def test_carry_begins_anew_with_every_call_unless_told(bilm):
    sentences = [["the", "cat"], ["a", "dog"]]
    forgetful = Embedder(bilm, state="carry", batch_size=1)
    first, again = forgetful.embed(sentences), forgetful.embed(sentences)
    np.testing.assert_array_equal(first[0], again[0])

    keeping = Embedder(bilm, state="carry", batch_size=1, keep_state=True)
    np.testing.assert_array_equal(keeping.embed(sentences)[0], first[0])
    assert np.abs(keeping.embed(sentences)[0][1:] - first[0][1:]).max() > 1e-6
    keeping.reset_state()
    np.testing.assert_array_equal(keeping.embed(sentences)[0], first[0])


def test_rows_that_a_short_batch_leaves_out_keep_their_state(bilm):
    keeping = Embedder(bilm, state="carry", batch_size=2, keep_state=True)
    keeping.embed([["the", "cat"], ["a", "dog", "ran"], ["on"]])
    (_, second) = keeping.embed([["sat"], ["the", "mat"]])
    np.testing.assert_allclose(second, carried(bilm, [["a", "dog", "ran"], ["the", "mat"]])[1], rtol=0, atol=1e-5)


def test_warm_is_the_state_after_the_neutral_text_for_every_sentence(bilm):
    text = ["the cat sat .", "a dog ran ."]
    expected = carried(bilm, [sentence.split() for sentence in [*text, "on the mat"]])[-1]
    embedder = Embedder(bilm, state="warm", warm_text=text)
    vectors = embedder.embed([["dog"], ["on", "the", "mat"], [], ["on", "the", "mat"]])
    np.testing.assert_allclose(vectors[1], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(vectors[3], expected, rtol=0, atol=1e-5)
    assert np.abs(expected[1:] - alone(bilm, ["on", "the", "mat"])[1:]).max() > 1e-6
    np.testing.assert_array_equal(vectors[1][0], embedder.embed([["on", "the", "mat"]])[0][0])  # layer 0 has no state


@settings(max_examples=10)
@given(sentences=SENTENCES, batch_tokens=st.sampled_from([1, 20, 60, 4096]))
def test_echo_is_the_sentence_read_on_after_itself(bilm, sentences, batch_tokens):
    """Each direction by the model itself, over one sentence in which the given one stands twice."""
    vectors = Embedder(bilm, state="echo", batch_tokens=batch_tokens).embed(sentences)
    for sentence, found in zip(sentences, vectors, strict=True):
        forward = alone(bilm, [*sentence, BOS, *sentence])[:, len(sentence) + 1 :, : bilm.config.lstm.projection_dim]
        backward = alone(bilm, [*sentence, EOS, *sentence])[:, : len(sentence), bilm.config.lstm.projection_dim :]
        np.testing.assert_allclose(found, np.concatenate([forward, backward], axis=2), rtol=0, atol=1e-5)


# What cannot be embedded


@pytest.mark.parametrize("library", ops.find_support("float32").libraries)
def test_autocast_around_it_changes_nothing(bilm, library):
    """Nor afterwards: what a word's first vector is, is kept."""
    embedder, expected = Embedder(bilm, device="cpu", library=library), alone(bilm, WORDS)
    with torch.autocast("cpu", torch.bfloat16):
        inside = embedder.embed([WORDS])[0]
    for seen in (inside, embedder.embed([WORDS])[0]):
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("state", ["reset", "echo", "carry", "warm"])
@pytest.mark.parametrize(
    ("precision", "library"),
    [(name, library) for name in ("float32", "int8", "int8-weights") for library in ops.find_support(name).libraries],
)
def test_another_default_device_changes_nothing(bilm, precision, library, state):
    """Such as that of a program that has set a GPU as torch's default."""
    settings = {"device": "cpu", "precision": precision, "library": library, "state": state}
    expected = Embedder(bilm, **settings).embed([WORDS, ["a"]])
    with torch.device("meta"):
        found = Embedder(bilm, **settings).embed([WORDS, ["a"]])
    for seen, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(seen, wanted)


@pytest.mark.parametrize(
    "layers", [3, -4, "bottom", [0.5, 0.5], True, [0, 3], [], [-4], [True, False, True], "mix=1,2", "mix=a,b,c"]
)
def test_layers_that_the_model_does_not_have_are_refused(bilm, layers):
    with refused("layers", "3 layers", "'mix='"):
        Embedder(bilm).embed_stream([["cat"]], layers)


def test_batch_follows_from_memory(bilm):
    a_token = 4 * 16 * (1 + 2 * 2 + 9 * 3) * 5 // 3
    assert Embedder(bilm, memory=100 * a_token).batch_tokens == 100
    assert Embedder(bilm, memory=100 * a_token, batch_tokens=7).batch_tokens == 7
    assert Embedder(bilm, memory="1MB").batch_tokens == Embedder(bilm, memory=1_000_000).batch_tokens
    assert Embedder(bilm).batch_tokens == 8192  # of so small a model; more is no faster
    assert tokens_within(256_000_000, BiLMConfig(LstmConfig(8, 512), CONFIG.char_cnn)) > 1000
    with refused("2,000", "3,413"):
        Embedder(bilm, memory=2000)


def test_sizes_are_numbers_with_a_unit():
    sizes = {"2GB": 2 * 10**9, "500 MB": 5 * 10**8, "1.5k": 1500, "64kB": 64_000, "1T": 10**12, "123": 123}
    assert {text: parse_bytes(text) for text in sizes} == sizes
    for text in ("", "much", "-1MB", "1.GB", "5 XB", "1e9"):
        with refused("size", "2GB"):
            parse_bytes(text)


def test_whole_numbers_are_layers_and_a_mix_is_said_as_such(bilm):
    embedder = Embedder(bilm)
    (every,) = embedder.embed([["the", "cat"]])
    choices: list[Any] = [[0, 1, 2], [2, 0], [1], [1, 1], [0, -1], (0, 2), [np.int64(1), np.int64(2)]]
    for layers in choices:
        (found,) = embedder.embed([["the", "cat"]], layers)
        np.testing.assert_array_equal(found, every[list(layers)])
        np.testing.assert_allclose(embedder.embed([["the", "cat"]], layers, "sum")[0], found.sum(axis=1), atol=1e-6)
    for mix in ("mix=0,1,2", [0.0, 1.0, 2.0], [0, 1.0, 2]):
        (found,) = embedder.embed([["the", "cat"]], mix)
        np.testing.assert_allclose(found, every[1] + 2 * every[2], atol=1e-6)


def test_a_choice_of_layers_is_written_as_it_is_read():
    every = torch.randn(3, 2, 4, 5)
    for layers in ("all", "top", 1, [0, 2], [0.0, 1.0, 2.0], [0.1, 0.2, 0.7], "mix=1,0,0"):
        again = parse_layers(written_layers(layers))
        torch.testing.assert_close(layer_selector(again, 3)(every), layer_selector(layers, 3)(every))
        assert keeps_layers(again) == keeps_layers(layers)


def test_a_text_that_was_not_split_gets_a_warning(bilm):
    embedder = Embedder(bilm)
    with pytest.warns(UserWarning, match=r"sentence 1.*split\(text\)"):
        embedder.embed([["fine"], ["She wrote a play ."]])
    embedder.embed([["25 000", "people"]])  # a token may have spaces


def test_an_embedder_is_made_in_each_process(bilm):
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with refused("copied", "each process", error=TypeError):
            duplicate(Embedder(bilm))
    with refused("each process", error=TypeError):
        pickle.dumps(Embedder(bilm).bilm)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_uses_the_embedder_of_its_parent():
    """torch would wait in it for threads that only its parent has, also with an embedder of its own."""
    program = """
import multiprocessing, torch, elmo
torch.set_num_threads(2)
embedder = elmo.load("english-base")
sentences = [["They", "play", "."] * 40] * 40
expected = embedder.embed(sentences, "top", "mean")[0]

def read():
    for used in (embedder, elmo.load("english-base")):
        assert (used.embed(sentences, "top", "mean")[0] == expected).all()

process = multiprocessing.get_context("fork").Process(target=read, daemon=True)
process.start()
process.join(60)
print(process.exitcode)
"""
    done = run_program(program)
    assert done.stdout == "0\n", done.stderr
