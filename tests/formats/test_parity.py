"""Against the outputs of the original TensorFlow program, which cannot be committed: marker `shared`.

The fixture holds 3 lists of 10 sentences. The original read batches of 3, one sentence of each list, in order, and
carried the LSTM state from batch to batch. Of its outputs there is the top layer, both directions.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.formats import allennlp, native

TOLERANCE = 1e-5


@pytest.fixture
def fixture(shared: Path) -> Path:
    return shared / "elmo" / "allennlp_fixture"


@pytest.fixture
def sentences(fixture: Path) -> list[list[list[str]]]:
    lists = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    return [[sentence.split() for sentence in sentences] for sentences in lists]


def original(fixture: Path, k: int, i: int) -> np.ndarray:
    """Top layer (T, D) of sentence `i` of list `k`."""
    with h5py.File(fixture / f"lm_embeddings_{k}.hdf5") as file:
        forward, backward = file[str(i)][()]
    return np.concatenate([forward, backward], axis=-1)


def test_carry_gives_what_the_original_gave_for_all_sentences(fixture, sentences):
    embedder = Embedder.load(fixture, state="carry", batch_size=3)
    in_order = [sentence for batch in zip(*sentences, strict=True) for sentence in batch]
    vectors = iter(embedder.embed(in_order, layers="top"))
    compared = 0
    for i in range(10):
        for k in range(3):
            np.testing.assert_allclose(next(vectors), original(fixture, k, i), rtol=0, atol=TOLERANCE)
            compared += 1
    assert compared == 30


def test_carry_in_two_calls_gives_what_one_call_gives(fixture, sentences):
    in_order = [sentence for batch in zip(*sentences, strict=True) for sentence in batch]
    whole = Embedder.load(fixture, state="carry", batch_size=3).embed(in_order, layers="top")
    embedder = Embedder.load(fixture, state="carry", batch_size=3, keep_state=True)
    parts = embedder.embed(in_order[:12], layers="top") + embedder.embed(in_order[12:], layers="top")
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_reset_gives_what_the_original_gave_for_first_sentences(fixture, sentences):
    embedder = Embedder.load(fixture)
    for k in range(3):
        (vectors,) = embedder.embed([sentences[k][0]], layers="top")
        np.testing.assert_allclose(vectors, original(fixture, k, 0), rtol=0, atol=TOLERANCE)


def test_layer_0_is_the_original_token_embedding(fixture):
    """Row r of the original's token embeddings is the word on line r of the vocabulary."""
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    assert len(words) == len(expected) == 458
    vectors = np.concatenate(Embedder.load(fixture).embed([[word] for word in words], layers=0))
    np.testing.assert_allclose(vectors, np.concatenate([expected, expected], axis=1), rtol=0, atol=TOLERANCE)


def test_conversion_to_native_and_back_is_bit_identical(fixture, tmp_path):
    native.save(formats.load(fixture), tmp_path / "native")
    allennlp.save(formats.load(tmp_path / "native"), tmp_path / "back")

    before, after = {}, {}
    for path, datasets in ((fixture / "lm_weights.hdf5", before), (tmp_path / "back" / "weights.hdf5", after)):
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item, to=datasets: (
                    to.update({name: item[()].tobytes()}) if isinstance(item, h5py.Dataset) else None
                )
            )
    assert len(before) == 33
    assert before == after
    options = [json.loads(path.read_text()) for path in (fixture / "options.json", tmp_path / "back" / "options.json")]
    assert options[0] == options[1]
