"""Tests that odd input from Python works as expected, or is refused with the value and the remedy."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
import typechecker
from refusals import refused
from tiny import CONFIG

import elmo
from elmo.embedding.budget import parse_bytes
from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.store import read_vectors
from elmo.embedding.type_vectors import average_types, write_word2vec
from elmo.model.bilm import BiLM
from elmo.search.nearest import find_occurrences, search, static_neighbors
from elmo.search.senses import read_occurrences
from elmo.text.given import check_sentences
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary, count_vocabulary

NAN = math.nan


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch) -> None:
    """Users have no checker of annotations, which would refuse most of this before the library does."""
    monkeypatch.setattr(typechecker, "CHECKED", -1)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(1)
    return Embedder(BiLM(CONFIG), text=TextConfig(), device="cpu")


NEITHER = [
    (None, "None"),
    (NAN, "nan"),
    (pd.NA, "<NA>"),
    (True, "True"),
    (Path("text.txt"), "read_text"),
    *((given, "decode") for given in (b"a b", bytearray(b"a"))),
    (str, "<class 'str'>"),
    *((given, "order") for given in ({"a"}, {"text": "a"}.keys())),
    *((frame({"text": ["a"]}), "frame['text']") for frame in (pd.DataFrame, pl.DataFrame, pa.table)),
    (7, "7 is given"),
]
"""Neither texts nor sentences, and what is said of it."""
OF_ITEMS = [
    ([None], "missing"),
    ([NAN, "a"], "text 0", "missing"),
    (pd.Series([NAN, "a"]), "text 0", "missing"),
    ([["a"], NAN], "1", "missing"),
    (["a", pd.NA], "text 1", "missing"),
    (pd.Series(["a", None], index=["x", "y"]), "row 'y'", "dropna"),
    (pd.Series(["a", pd.NA], dtype="string", index=[4, 8]), "row '8'", "dropna"),
    (pd.Series([["a"], None], index=["x", "y"]), "row 'y'", "missing"),
    (pd.Series([["a"], ["b", 3]], index=[4, 8]), "row '8'"),
    (["a", 3], "text 1"),
    (["a", b"b"], "text 1", "decode"),
    ([b"a"], "0", "decode"),
    ([Path("a")], "0", "read_text"),
    (["a", np.array([1, 2])], "1"),
    ([["a", None]], "token None", "leave it out"),
    ([["a", b"b"]], "decode"),
    ([["a", 1]], "str(token)"),
    ([[["a"]]], "['a']", "parts"),
    ([{"a"}], "order"),
    (torch.ones(1, 2, 50), "tensor"),
    (range(3), "0"),
    ([np.array("a")], "text 0"),
    ([["a"], np.array("a")], "1", "array"),
    (np.ma.array(["a", "b"], mask=[False, True]), "text 1", "missing"),
    (pa.chunked_array([["a", None]]), "text 0", "to_pylist"),
    (pa.array([["a"]]), "token", "to_pylist"),
    (pd.DataFrame({"text": ["a"]}).to_dict("records"), "row['text']"),
    ([pd.DataFrame({"text": ["a"]})], "frame['text']"),
]
"""Lists with an item that is neither."""


@pytest.mark.parametrize(("given", "word", "more"), [(*case, "")[:3] for case in [*NEITHER, *OF_ITEMS]])
def test_what_is_no_text_is_refused_by_every_call(embedder, given, word, more):
    calls = [
        lambda: embedder.embed(given),
        lambda: list(embedder.embed_stream(given)),
        lambda: embedder.similarity("a", given),
        lambda: elmo.plot("a", given, embedder),
    ]
    for call in calls:
        if isinstance(given, torch.Tensor) and call in calls[2:]:
            continue  # they are refused for their shape
        with refused(word, more):
            call()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        *NEITHER,
        ("a text", "split"),
        (["a text"], "split"),
        ([["fine"], "two words"], "sentence 1"),
        ([["fine"], None], "sentence 1"),
        ([[3]], "sentence 0"),
        *((given, "order") for given in ([{"a": 1}], {("a", "b")}, {"a": ["b"]}, [["c"], frozenset("ab")])),
    ],
)
def test_what_is_no_list_of_tokens_is_refused_by_every_call(embedder, given, word):
    for call in (elmo.to_batch, elmo.batch_to_ids, lambda given: search(embedder, given, [(["a"], 0)])):
        with refused(word):
            call(given)


@pytest.mark.parametrize("given", [None, b"a", 7, ["a"], np.array(["a", "b"]), Path("a")])
def test_one_text_is_split_and_nothing_else(embedder, given):
    assert embedder.split(np.str_("A cat sat. It ran.")) == [["A", "cat", "sat", "."], ["It", "ran", "."]]
    with refused("the text is", "missing" if given is None else "one string"):
        embedder.split(given)


def test_unusual_texts_have_vectors(embedder):
    for text in (np.array("a b"), np.str_("a b")):
        assert np.isfinite(embedder.embed(text, "top")).all()
    for texts in (["x" * 100_000], ["a \ud800 b"], ["a\x00b"], [["\ud800", "\n"]], [""]):
        assert np.isfinite(embedder.embed(texts, "top")[0]).all()
    assert embedder.embed([iter(["a", "b"])], "top", to="pandas")["token"].tolist() == ["a", "b"]
    with refused("to='numpy'"):
        embedder.embed([["\ud800"]], to="pandas")


@pytest.mark.parametrize("layers", [np.array([0, 2]), torch.tensor([0, 2]), (0, 2), range(0, 3, 2)])
def test_layers_are_any_list_of_numbers(embedder, layers):
    np.testing.assert_array_equal(embedder.embed(["a b"], layers)[0], embedder.embed(["a b"], [0, 2])[0])
    weights = np.array([0.2, 0.3, 0.5])
    np.testing.assert_array_equal(embedder.embed("a", weights), embedder.embed("a", weights.tolist()))


OPTIONS: dict[str, list[Any]] = {
    "layers": [("Top", "did you mean top"), (b"top", "b'top'"), ({0: 1}, "{0: 1}"), ("last", "'top'")],
    "pool": [("meen", "did you mean mean"), (np.array(["mean", "max"]), "mean")],
    "to": [("Torch", "did you mean torch"), (torch, "numpy")],
    "progress": [("yes", "True"), (1, "True")],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_embed_is_named(embedder, name):
    for value, word in OPTIONS[name]:
        with refused(name, word):
            embedder.embed(["a"], **{name: value})


LOADED: dict[str, list[Any]] = {
    "precision": [(torch.float32, "did you mean float32"), (None, "int8")],
    "state": [("warn", "did you mean warm")],
    "dtype": [(np.float16, "float16"), ("bfloat16", "float16")],
    "device": [(1.5, "cpu"), (["cpu"], "cpu"), ("gpu", "cpu"), ("", "cpu")],
    "batch_size": [("100", "whole number"), (0, "at least 1"), (None, "whole number")],
    "batch_tokens": [(1.5, "whole number"), (0, "at least 1"), (10**20, "whole number")],
    "memory": [(b"1GB", "500MB"), (NAN, "500MB"), (True, "500MB")],
    "between": [(5, "function")],
    "warm_text": [([["a", "b"]], "texts"), (5, "texts")],
    "presision": [("int8", "did you mean precision")],
}


@pytest.mark.parametrize("name", LOADED)
def test_an_option_of_load_is_named(embedder, name):
    for value, word in LOADED[name]:
        options: dict[str, Any] = {"device": "cpu"} | {name: value}
        with refused("" if name == "memory" else name, word):
            if name == "presision":
                elmo.load(**options)
            Embedder(embedder.bilm, **options)


def test_sizes_are_numbers_of_any_kind_and_one_warm_text_is_one(embedder):
    assert parse_bytes(1e9) == parse_bytes("1GB") == parse_bytes(np.int64(10**9)) == 10**9
    one, several = (Embedder(embedder.bilm, state="warm", warm_text=given) for given in ("a b c", ["a b c"]))
    np.testing.assert_array_equal(one.embed([["a"]])[0], several.embed([["a"]])[0])


@pytest.mark.parametrize("value", [5, NAN, b"model", True, ["model"], "", "a\0b", "\ud800", BiLM(CONFIG)])
def test_what_is_no_path_is_named(value):
    for call in (elmo.load, lambda path: read_vectors(path).__enter__()):
        with refused("path"):
            call(value)


def test_a_name_that_no_file_can_have_is_not_found():
    with refused("long", error=FileNotFoundError):
        elmo.load("x" * 5000)
    with refused("did you mean english-base", error=FileNotFoundError):
        elmo.load("english_base")


@pytest.mark.parametrize(
    ("given", "word"),
    [(np.full(8, NAN), "finite"), (np.ones(7), "D"), (np.array(1.0), "vector"), ([np.ones(8), np.ones(7)], "size")],
)
def test_what_is_no_vector_has_no_cosine(embedder, given, word):
    with refused(word):
        embedder.similarity(given, np.ones(8))


def test_vectors_of_any_kind_have_cosines(embedder):
    one = np.arange(8.0)
    kinds: list[Any] = [one.tolist(), pd.Series(one), torch.from_numpy(one).bfloat16()]
    kinds.append(torch.ones(8, requires_grad=True) * 2)
    for given in kinds[:3]:
        assert embedder.similarity(given, one) == pytest.approx(1)
    assert embedder.similarity(kinds, one).shape == (4,)
    assert embedder.similarity([], "a").shape == (0,)
    assert embedder.similarity([np.array(["a", "b"])], "a").shape == (1,)
    frame = pd.DataFrame({"text": ["a b", "c"]})
    frame["vector"] = embedder.embed(frame["text"], "top", "mean")
    expected = embedder.similarity("a", list(frame["text"]), "top")
    lists = list(map(list, frame["vector"]))
    others = pd.Series(lists, index=[3, 3]), pl.Series([*map(np.array, lists)])
    for column in (frame["vector"], frame["vector"].values, *others):
        np.testing.assert_allclose(embedder.similarity("a", column, "top"), expected, atol=1e-6)
    np.testing.assert_allclose(embedder.similarity("a", frame["text"], "top"), expected, atol=1e-6)
    with refused("pool is None"):
        embedder.similarity("a", "b", pool=None)


@pytest.mark.parametrize(
    ("word", "occurrence", "said"), [(5, 0, "5"), ("Play", 0, "did you mean play"), ("play", 7, "2")]
)
def test_a_word_that_is_not_there(embedder, word, occurrence, said):
    with refused(said):
        embedder.embed("They play a play.").word(word, occurrence)
    for wrong in (None, "0", 1.0, True):
        with refused("occurrence"):
            embedder.embed("They play a play.").word("play", wrong)


@pytest.mark.parametrize("layers", ["top", ["0"], [], [0.5], True, NAN, 5, [-4], {0}])
def test_a_picture_has_numbers_of_layers(embedder, layers):
    with refused("layer", "layers 0 to 2"):
        elmo.plot("a", ["a a"], embedder, layers)
    assert len(elmo.plot("a", pd.Series(["a a"]), embedder, 1).axes) == 1


@pytest.mark.parametrize(
    ("queries", "word"),
    [(None, "None"), (["a"], "index"), ([(["a"], "0")], "'0'"), ([(None, 0)], "None"), ([], "no query")],
)
def test_a_search_has_queries(embedder, queries, word):
    with refused(word):
        search(embedder, [["a"]], queries)
    with refused("k is 0"):
        search(embedder, [["a"]], [(["a"], 0)], k=0)


def test_networks_take_batches_and_models():
    bilm = BiLM(CONFIG)
    for wrong in (["a"], elmo.batch_to_ids([["a"]]), None):
        with refused("to_batch"):
            elmo.Elmo(bilm)(wrong)
    with refused("formats.load"):
        elmo.Elmo("default")  # type: ignore[arg-type]
    with refused("BiLMConfig"):
        elmo.BiLM({"n_layers": 2})  # type: ignore[arg-type]
    for dropout in (2, -0.5, "none"):
        with refused("dropout", str(dropout)):
            elmo.Elmo(bilm, dropout=dropout)  # type: ignore[arg-type]
    for size in (0, 2.5, "3", True, None):
        with refused("n_layers"):
            elmo.ScalarMix(size)  # type: ignore[arg-type]


def test_settings_of_another_type_are_refused():
    with refused("keep_state", "yes", "True"):
        Embedder(BiLM(CONFIG), keep_state="yes")  # type: ignore[arg-type]
    for name, wrong in (("lstm", None), ("char_cnn", {"n_highway": 1})):
        with refused(name, wrong, "Config"):
            elmo.BiLMConfig(**{name: wrong})


def test_sentences_are_read_lazily():
    def sentences() -> Any:
        yield ["a"]
        raise AssertionError("read ahead")

    assert next(check_sentences(sentences())) == ["a"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (pd.Series(["a", None], index=["x", "y"]), ["row 'y'", "missing"]),
        ([["a", "b"]], ["line 0", "string"]),
        ([b"a"], ["line 0", "decode"]),
        (pd.DataFrame({"text": ["a"]}), ["frame['text']"]),
        (None, ["None", "lines"]),
    ],
)
def test_a_file_of_vectors_is_of_lines(tmp_path, embedder, lines, words):
    with refused(*words):
        embed_file(embedder, lines, tmp_path / "v.npz")
    assert list(tmp_path.iterdir()) == []
    with refused("output", "path"):
        embed_file(embedder, ["a"], lines)


@pytest.mark.parametrize("texts", [["play"], ["They play"], "They play", ["They", "play"]])
def test_texts_are_refused_where_only_tokens_are_read(embedder, texts) -> None:
    """Their letters were counted as words."""
    for function in (partial(average_types, embedder), partial(find_occurrences, word="play"), count_vocabulary):
        with refused("list of token", "split(text)"):
            function(texts)


def test_a_spelling_and_a_length_are_checked_where_batches_are_made() -> None:
    ids = elmo.to_batch([["ABC"]], normalize=("lower",)).char_ids
    assert torch.equal(elmo.to_batch([["ABC"]], normalize=["lower"]).char_ids, ids)
    for steps in ("lower", ("lowercase",)):
        with refused("normalize", "lower"):
            elmo.to_batch([["ABC"]], normalize=steps)
    for length in (2, "50", None):
        with refused("max_characters", repr(length), "3"):
            elmo.to_batch([["ABC"]], length)


def test_a_mix_names_the_layers_that_it_has() -> None:
    with refused("2 layers", "3"):
        elmo.ScalarMix(3)(torch.zeros(2, 1, 1, 4))


def test_names_of_files_may_be_strings(embedder, tmp_path) -> None:
    words = count_vocabulary([["a", "b", "a"]], min_count=1)[0]
    words.save(str(tmp_path / "vocab.txt"))
    assert Vocabulary.load(str(tmp_path / "vocab.txt")) == words
    write_word2vec(average_types(embedder, [["a", "b", "a"]]), str(tmp_path / "v.txt"))
    assert [each.word for each in static_neighbors(str(tmp_path / "v.txt"), "a")] == ["b"]
    with refused("senses", "3"):
        read_occurrences(3)
