"""Files of vectors as other programs read them, by their own means: gensim, polars, pandas, DuckDB, datasets."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import DIM, LAYERS, tiny_model

from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.type_vectors import average_types, write_word2vec

LINES = ["The cat sat .", "", 'naïve 東京 "quoted"', "The cat sat ."]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(tiny_model().bilm(), device="cpu")


def test_gensim_reads_types(embedder, tmp_path):
    models = pytest.importorskip("gensim.models")
    types = average_types(embedder, [line.split() for line in LINES])
    write_word2vec(types, tmp_path / "words.txt")
    found = models.KeyedVectors.load_word2vec_format(str(tmp_path / "words.txt"))
    assert sorted(found.index_to_key) == sorted(types.words)
    assert found.index_to_key[0] in {"The", "cat", "sat", "."}  # the most frequent first
    for word, mean in zip(types.words, types.means, strict=True):
        np.testing.assert_array_equal(found[word], mean)


@pytest.fixture(scope="module")
def parquet(embedder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    (folder / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    embed_file(embedder, folder / "text.txt", folder / "vectors.parquet")
    return folder / "vectors.parquet"


def check(rows: Iterable[Any], embedder: Embedder) -> None:
    """All rows, by the names of their columns."""
    rows = list(rows)
    assert [row["row"] for row in rows] == [0, 1, 2, 3]
    assert [list(row["tokens"]) for row in rows] == [line.split() for line in LINES]
    for row, wanted in zip(rows, embedder.embed([line.split() for line in LINES]), strict=True):
        vectors = np.reshape(np.asarray(row["vectors"], np.float32), tuple(row["shape"]))
        assert vectors.shape == (LAYERS, len(row["tokens"]), DIM)
        np.testing.assert_array_equal(vectors, wanted)


def test_polars_reads_parquet(parquet, embedder):
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(parquet)
    assert table.schema["vectors"] == polars.List(polars.Float32)
    check(table.iter_rows(named=True), embedder)


def test_pandas_reads_parquet(parquet, embedder):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(parquet)
    assert table["vectors"][0].dtype == np.float32
    check((row for _, row in table.iterrows()), embedder)


def test_duckdb_reads_parquet(parquet, embedder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM '{parquet}' ORDER BY row")
        names = [column[0] for column in found.description]
        check((dict(zip(names, row, strict=True)) for row in found.fetchall()), embedder)


def test_datasets_reads_parquet(parquet, embedder, tmp_path):
    datasets = pytest.importorskip("datasets")
    check(datasets.load_dataset("parquet", data_files=str(parquet), split="train", cache_dir=str(tmp_path)), embedder)
