"""Against the outputs of the original TensorFlow program, which cannot be committed: marker `shared`.

The fixture holds 3 lists of 10 sentences. The original read batches of 3, one sentence of each list, in order, and
carried the LSTM state from batch to batch. Of its outputs there is the top layer, both directions.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.embedding.embedder import Embedder

TOLERANCE = 1e-5


@pytest.fixture
def fixture(shared: Path) -> Path:
    return shared / "elmo" / "allennlp_fixture"


@pytest.fixture
def sentences(fixture: Path) -> list[list[str]]:
    """All sentences in the order in which the original read them."""
    lists = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    return [sentence.split() for batch in zip(*lists, strict=True) for sentence in batch]


@pytest.fixture
def original(fixture: Path) -> list[np.ndarray]:
    """The top layer (T, D) of each of the sentences."""
    files = [h5py.File(fixture / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    return [np.concatenate(file[str(i)][()], axis=-1) for i in range(10) for file in files]


@pytest.mark.parametrize("weights", ["lm_weights.hdf5", "elmo_token_embeddings.hdf5"], ids=["characters", "words"])
def test_carry_gives_what_the_original_gave_for_all_sentences(fixture, sentences, original, weights):
    """The original reads characters, or its own table of words in their place."""
    embedder = Embedder.load(fixture / weights, state="carry", batch_size=3)
    assert embedder.bilm.config.n_tokens_vocab == (458 if weights.startswith("elmo") else None)
    for ours, theirs in zip(embedder.embed(sentences, layers="top"), original, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


def test_carry_in_two_calls_gives_what_one_call_gives(fixture, sentences):
    whole = Embedder.load(fixture, state="carry", batch_size=3).embed(sentences, layers="top")
    embedder = Embedder.load(fixture, state="carry", batch_size=3, keep_state=True)
    parts = embedder.embed(sentences[:12], layers="top") + embedder.embed(sentences[12:], layers="top")
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_reset_gives_what_the_original_gave_for_first_sentences(fixture, sentences, original):
    vectors = Embedder.load(fixture).embed(sentences[:3], layers="top")
    for ours, theirs in zip(vectors, original[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


def test_layer_0_is_the_original_token_embedding(fixture):
    """Row r of the original's token embeddings is the word on line r of the vocabulary."""
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    assert len(words) == len(expected) == 458
    vectors = np.concatenate(Embedder.load(fixture).embed([[word] for word in words], layers=0))
    np.testing.assert_allclose(vectors, np.concatenate([expected, expected], axis=1), rtol=0, atol=TOLERANCE)
