"""Record batches of any cut give the vectors of the bare Embedder; a row that cannot be embedded stops nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused
from tiny import tiny_model

from elmo.embedding import arrow
from elmo.embedding.arrow import embed_batches, with_errors
from elmo.embedding.embedder import Embedder

EMBEDDER = Embedder(tiny_model().bilm(), batch_tokens=16)  # a chunk is 128 tokens
WORDS = st.sampled_from(["a", "play", "über", "don't", "日本", "x" * 60])
SENTENCES = st.lists(st.lists(WORDS, max_size=12), max_size=40)
BAD = st.sampled_from([None, b"\xff", b"\xed\xa0\x80", b"ab" * 300, b"w " * 40])
"""Null, no UTF-8, a surrogate, too many bytes, too many tokens: of the limits below."""
LIMITS: dict[str, Any] = {"row_bytes": 500, "row_tokens": 30}


def batches(rows, sizes, name="text", kind=None):
    """Rows with their numbers as ids, cut into batches of these sizes, the last ones into what is left."""
    begin, found = 0, []
    for size in [*sizes, len(rows)]:
        part = rows[begin : begin + size]
        ids = pa.array(range(begin, begin + len(part)), pa.int64())
        found.append(pa.record_batch([ids, pa.array(part, kind)], names=["id", name]))
        begin += len(part)
    return found


def results(made):
    """Tokens and array by id, and reasons by id."""
    made = list(made)
    rows = [row for vectors, _ in made for row in vectors.to_pylist()]
    errors = [row for _, refused in made for row in refused.to_pylist()]
    found = {row["id"]: (row["tokens"], np.array(row["vectors"]).reshape(row["shape"])) for row in rows}
    assert list(found) == sorted(found)
    assert len(found) == len(rows)
    return found, {row["id"]: row["reason"] for row in errors}


@given(SENTENCES, st.lists(st.integers(0, 15), max_size=8))
def test_numbers_are_those_of_the_embedder_however_rows_are_cut(sentences, sizes):
    found, errors = results(embed_batches(EMBEDDER, batches([" ".join(words) for words in sentences], sizes)))
    assert not errors
    assert [tokens for tokens, _ in found.values()] == sentences
    for (_, vectors), expected in zip(found.values(), EMBEDDER.embed(sentences), strict=True):
        assert vectors.shape == expected.shape
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


@example([b"a " * 30, b"a " * 31, b"x" * 500, b"x" * 501], [])
@given(st.lists(st.one_of(BAD, WORDS.map(str.encode)), max_size=30), st.lists(st.integers(0, 9), max_size=5))
def test_each_row_is_vectors_or_an_error(rows, sizes):
    """Which of them is decided here by Python's own decoder and split."""
    found, errors = results(embed_batches(EMBEDDER, batches(rows, sizes, kind=pa.binary()), layers="top", **LIMITS))
    assert sorted([*found, *errors]) == list(range(len(rows)))
    for number, row in enumerate(rows):
        text = (row or b"").decode("utf-8", errors="replace")
        is_good = row is not None and "\ufffd" not in text and len(row) <= 500 and len(text.split()) <= 30
        assert (number in found) == is_good


@pytest.mark.parametrize("layers", ["all", "concat", "average", 1, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("pool", [None, "max"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_choices_are_those_of_the_embedder(layers, pool, dtype):
    sentences = [["a", "play"], [], ["x"] * 20]
    made = list(
        embed_batches(EMBEDDER, batches([" ".join(words) for words in sentences], []), None, layers, pool, dtype)
    )
    assert all(vectors.schema.field("vectors").type.value_type == pa.from_numpy_dtype(dtype) for vectors, _ in made)
    found, _ = results(made)
    for (_, vectors), expected in zip(found.values(), EMBEDDER.embed(sentences, layers, pool), strict=True):
        np.testing.assert_array_equal(vectors, expected.astype(dtype))


TEXT = ["a play", None, "über it"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXT),
        pa.array(TEXT, pa.large_string()),
        pa.array(TEXT, pa.large_binary()),
        pa.array(TEXT).dictionary_encode(),
        pa.array([text and text.split() for text in TEXT]),
        pa.array([text and text.split() for text in TEXT], pa.large_list(pa.large_string())),
        pa.array(TEXT, pa.string_view()),
        pa.array(TEXT, pa.binary_view()),
        pa.array([text and text.split() for text in TEXT], pa.list_(pa.string_view())),
        pa.ListArray.from_arrays([0, None, 2, 4], pa.array(["a", "play", "über", "it"]).dictionary_encode()),
        pa.array([None, *(text and text.split() for text in TEXT)], pa.list_(pa.string(), 2)).slice(1),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_text_and_tokens_is_read(column):
    name = "tokens" if "list" in str(column.type) else "text"
    batch = pa.record_batch([pa.array(["p", "q", "r"]), column], names=["id", name])
    found, errors = results(embed_batches(EMBEDDER, [batch]))
    assert {name: tokens for name, (tokens, _) in found.items()} == {"p": ["a", "play"], "r": ["über", "it"]}
    assert errors == {"q": "null"}


def test_strings_that_arrow_took_unchecked_are_errors_with_their_beginning():
    text = pa.array([b"good", b"bad \xff" + b"y" * 200]).view(pa.string())
    tokens = pa.ListArray.from_arrays([0, 2, 4], pa.array([b"a", b"b\xfe", b"c", None]).view(pa.string()))
    for column, reasons in (
        (text, {1: "not UTF-8: invalid start byte, byte 0xff"}),
        (tokens, {0: "0xfe", 1: "token 1"}),
    ):
        name = "text" if column is text else "tokens"
        ((_, errors),) = embed_batches(EMBEDDER, [pa.record_batch([pa.array([0, 1]), column], names=["id", name])])
        assert dict(zip(errors["id"].to_pylist(), errors["reason"].to_pylist(), strict=True)).keys() == reasons.keys()
        for row in errors.to_pylist():
            assert reasons[row["id"]] in row["reason"]
            assert len(row["begin"]) <= arrow.BEGIN_BYTES


def test_batches_are_bounded_even_where_all_rows_are_errors(monkeypatch):
    """What is read ahead of the first result does not grow with the input."""
    monkeypatch.setattr(arrow, "BATCH_BYTES", 2000)
    read = []

    def endless():
        for number in range(10_000):
            read.append(number)
            yield pa.record_batch([pa.array([number]), pa.array([None], pa.string())], names=["id", "text"])

    vectors, errors = next(embed_batches(EMBEDDER, endless()))
    assert len(vectors) == 0
    assert len(errors) == 20
    assert len(read) < 200


def test_batches_are_bounded_where_a_long_row_becomes_one_vector(monkeypatch):
    """Its tokens take more memory than its vector."""
    monkeypatch.setattr(arrow, "BATCH_BYTES", 20_000)
    batch = pa.record_batch([pa.array(range(50)), pa.array(["a play " * 50] * 50)], names=["id", "text"])
    sizes = [len(vectors) for vectors, _ in embed_batches(EMBEDDER, [batch], layers="top", pool="mean")]
    assert max(sizes) == 3
    assert sum(sizes) == 50


def test_vectors_and_errors_go_into_one_table():
    made = embed_batches(EMBEDDER, batches(["a b", None, ""], []), layers="top")
    table = pa.Table.from_batches([with_errors(*each) for each in made])
    assert table.schema.names == ["id", "tokens", "vectors", "shape", "sentence_ends", "error"]
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows[1] == {"id": 1, "tokens": None, "vectors": None, "shape": None, "sentence_ends": None, "error": "null"}
    assert [rows[row]["error"] for row in (0, 2)] == [None, None]
    assert [rows[row]["shape"] for row in (0, 2)] == [[2, 8], [0, 8]]


@pytest.mark.parametrize(
    ("names", "values", "match"),
    [
        (["id", "line"], ["a"], "columns; tokens"),
        (["key", "text"], ["a"], "columns; text"),
        (["id", "text"], [1], "int64; strings"),
        (["id", "tokens"], [[1]], "list<; int64"),
        (["id", "tokens"], [[["a"]]], "list<"),
        (["id", "text"], [{"a": "b"}], "struct<"),
        (["id", "tokens"], pa.array([["a"]], pa.list_view(pa.string())), "list_view<"),
    ],
)
def test_other_columns_are_refused(names, values, match):
    batch = pa.record_batch([pa.array([0]), values if isinstance(values, pa.Array) else pa.array(values)], names=names)
    with refused(*match.split("; ")):
        list(embed_batches(EMBEDDER, [batch]))


def test_ids_of_two_types_are_refused():
    made = [pa.record_batch([pa.array(ids), pa.array(["a"])], names=["id", "text"]) for ids in ([1], ["p"])]
    with refused("ids", "string", "int64", "cast"):
        list(embed_batches(EMBEDDER, made))


def test_a_row_beyond_float16_is_an_error():
    given = batches(["a play", "a b c"], [2])
    found, errors = results(embed_batches(EMBEDDER, given, layers=[1e6, 0.0, 0.0], dtype="float16"))
    assert (found, set(errors)) == ({}, {0, 1})
    assert "float16" in errors[0]
