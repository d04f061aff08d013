"""Texts are split as the model's training text was, and their arrays know their tokens."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from tiny import CONFIG

import elmo
from elmo.embedding.embedder import Embedder
from elmo.embedding.texts import TextVectors
from elmo.errors import InputError
from elmo.model.bilm import BiLM
from elmo.text.tokenizer import TextConfig

TEXTS = ["They opened the play. They play chess.", "", "One line\nAnother  line here"]
SENTENCES = [
    [["They", "opened", "the", "play", "."], ["They", "play", "chess", "."]],
    [],
    [["One", "line"], ["Another", "line", "here"]],
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(1)
    return Embedder(BiLM(CONFIG), text=TextConfig())


@pytest.mark.parametrize("layers", ["all", "top", "concat", [0, 2]])
def test_a_text_has_the_vectors_of_its_sentences_bit_for_bit(embedder, layers):
    found = embedder.embed(TEXTS, layers)
    flat = [sentence for sentences in SENTENCES for sentence in sentences or [[]]]
    expected = iter(embedder.embed(flat, layers))
    for vectors, text, sentences in zip(found, TEXTS, SENTENCES, strict=True):
        whole = np.concatenate([next(expected) for _ in sentences or [[]]], axis=-2)
        np.testing.assert_array_equal(vectors, whole)
        assert (vectors.text, [list(vectors.tokens[a:b]) for a, b in vectors.sentences]) == (text, sentences)
        assert [text[a:b] for a, b in vectors.offsets or ()] == list(vectors.tokens)


def test_a_byte_order_mark_is_no_character_of_a_word(embedder):
    """Lines of a file are read so, too; the places of tokens count the mark."""
    plain, marked = "They play chess.\nThey won.", "\ufeffThey play chess.\n\ufeffThey won."
    found = embedder.embed(marked)
    assert found.tokens == embedder.embed(plain).tokens
    assert [marked[a:b] for a, b in found.offsets or ()] == list(found.tokens)
    np.testing.assert_array_equal(found, embedder.embed(plain))


def test_a_word_that_looks_the_same_is_told_apart(embedder):
    for asked, there in (("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")):
        with refused(ascii(there), "NFC"):
            embedder.embed(f"un {there}").word(asked)


def test_states_read_texts_as_they_read_their_sentences(embedder):
    for state in ("echo", "carry", "warm"):
        other = Embedder(embedder.bilm, text=TextConfig(), state=state)
        expected = np.concatenate(other.embed(SENTENCES[0], "top"))
        np.testing.assert_array_equal(other.embed(TEXTS[:1], "top")[0], expected)


def test_lists_of_tokens_give_plain_arrays_and_are_not_mixed_with_texts(embedder):
    assert [type(array) for array in embedder.embed(SENTENCES[0])] == [np.ndarray, np.ndarray]
    assert embedder.embed([]) == []
    with pytest.warns(UserWarning, match="tokens"):
        assert len(embedder.embed(["They", "play", "."])) == 3  # texts, each of one word
    for given, place in ((["a b", ["fine"]], "text 1"), ([["fine"], "a b"], "sentence 1")):
        with refused(place):
            list(embedder.embed_stream(given))


def test_one_text_and_any_iterable(embedder):
    expected = embedder.embed(TEXTS, "top", "mean")
    np.testing.assert_allclose(embedder.embed(TEXTS[0], "top", "mean"), expected[0], atol=1e-5)
    for given in (iter(TEXTS), tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS, index=[5, 6, 7])):
        np.testing.assert_array_equal(embedder.embed(given, "top", "mean"), expected)
    np.testing.assert_array_equal(list(embedder.embed_stream(iter(TEXTS), "top", "mean")), expected)


def test_parts_and_results_are_plain_arrays_and_copies_know_their_text(embedder):
    vectors = embedder.embed(TEXTS[0], "top")
    plain = np.asarray(vectors)
    assert type(plain) is np.ndarray
    own = vectors[0], vectors * 2, vectors[::-1], vectors.mean(axis=0), next(iter(vectors))
    for part in (*own, np.sort(vectors, axis=0), np.roll(vectors, 1, axis=0), np.flip(vectors, 0)):
        assert type(part) is np.ndarray
    copies = [pickle.loads(pickle.dumps(vectors)), vectors.astype(np.float16), copy.copy(vectors), vectors.copy()]
    for known in [*copies, copy.deepcopy(vectors)]:
        assert isinstance(known, TextVectors)
        assert (known.tokens, known.text) == (vectors.tokens, TEXTS[0])
    assert torch.from_numpy(vectors).shape == vectors.shape


def test_an_array_with_other_axes_does_not_claim_the_tokens(embedder):
    """`word` would give another token's numbers."""
    vectors = embedder.embed(TEXTS[0])
    other = vectors.T, vectors.swapaxes(0, 1), vectors.transpose(1, 0, 2), vectors.take(range(9)[::-1], axis=1)
    for turned in (*other, vectors.reshape(9, 3, 8)):
        assert not getattr(turned, "tokens", ())
        with pytest.raises((InputError, AttributeError)):
            turned.word("play")


def test_a_word_has_its_vector_also_after_arithmetic_in_place(embedder):
    vectors = embedder.embed(TEXTS[0])
    np.testing.assert_array_equal(vectors.word("play"), vectors[:, 3])
    np.testing.assert_array_equal(vectors.word("They", -1), vectors[:, 5])
    doubled = vectors.word("play") * 2
    vectors *= 2
    np.testing.assert_array_equal(vectors.word("play"), doubled)
    with refused("pool"):
        embedder.embed(TEXTS[0], pool="mean").word("play")


def test_tensors(embedder):
    arrays, tensors = embedder.embed(TEXTS), embedder.embed(TEXTS, to="torch")
    for array, tensor in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
    assert embedder.embed(TEXTS, pool="mean", to="torch").shape == (3, 3, 8)
    assert embedder.embed([], pool="mean", to="torch").shape == (0, 3, 8)
    assert embedder.embed([], "concat", "max", to="torch").shape == (0, 24)
    assert embedder.embed(TEXTS[0], "top", to="torch").shape == (9, 8)


def test_data_frames_have_a_row_per_token_or_text(embedder):
    column = pd.Series(TEXTS, index=["x", "y", "z"])
    frame = embedder.embed(column, "top", to="pandas")
    assert frame["token"].tolist() == [token for sentences in SENTENCES for tokens in sentences for token in tokens]
    assert frame["text"].tolist() == ["x"] * 9 + ["z"] * 5
    assert frame["sentence"].tolist() == [0] * 5 + [1] * 4 + [0] * 2 + [1] * 3
    assert [column[row.text][row.start : row.end] for row in frame.itertuples()] == frame["token"].tolist()
    np.testing.assert_array_equal(np.stack(frame["vector"][:9]), embedder.embed(TEXTS, "top")[0])
    pooled = embedder.embed(column, "top", "mean", to="pandas")
    assert (pooled.index.tolist(), pooled["text"].tolist()) == (["x", "y", "z"], TEXTS)
    of_tokens = embedder.embed(iter(SENTENCES[0]), "top", to="pandas")
    assert of_tokens["text"].tolist() == [0] * 5 + [1] * 4


def test_similarity(embedder):
    one, other = embedder.embed(TEXTS[::2], "average")
    assert embedder.similarity(one.word("play"), one.word("play")) == pytest.approx(1)
    assert embedder.similarity(one, other).shape == (9, 5)
    a, b = (vectors.mean(axis=0) for vectors in (one, other))
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert embedder.similarity(TEXTS[0], TEXTS[2]) == pytest.approx(expected, abs=1e-5)
    assert embedder.similarity(TEXTS[0], TEXTS).tolist() == pytest.approx([1, 0, expected], abs=1e-5)
    assert embedder.similarity(SENTENCES[0], TEXTS).shape == (2, 3)
    for wrong in (("a", "b", "all"), (one, np.ones(3))):
        with refused("layers"):
            embedder.similarity(*wrong)


def test_progress_is_told_and_split_is_what_embed_reads(embedder):
    seen: list[tuple[int, int | None]] = []
    embedder.embed(TEXTS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [embedder.split(text) for text in TEXTS] == SENTENCES


def test_a_model_of_unknown_text_splits_at_white_space_and_says_so(embedder):
    other = Embedder(embedder.bilm)
    with pytest.warns(UserWarning, match="white"):
        assert other.embed("One, two.").tokens == ("One,", "two.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.embed(SENTENCES[0])


def test_load_shows_all_options():
    shown = inspect.signature(elmo.load).parameters
    of_class = set(inspect.signature(Embedder.__init__).parameters) - {"self", "bilm", "text", "vocabulary", "release"}
    assert set(shown) == of_class | {"path", "weights", "unknown"}
    assert {name for name, parameter in shown.items() if parameter.annotation is inspect.Parameter.empty} == set()


def test_dir_lists_the_public_names():
    assert set(elmo.__all__) <= set(dir(elmo))
    assert not {"import_module", "TYPE_CHECKING", "Any", "_HOMES"} & set(dir(elmo))
    for name in elmo.__all__:
        assert getattr(elmo, name) is not None
