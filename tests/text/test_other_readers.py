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


def by_polars(file: Path) -> Iterable[Any]:
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(file)
    assert table.schema["vectors"] == polars.List(polars.Float32)
    return table.iter_rows(named=True)


def by_pandas(file: Path) -> Iterable[Any]:
    table = pytest.importorskip("pandas").read_parquet(file)
    assert table["vectors"][0].dtype == np.float32
    return table.to_dict("records")


def by_duckdb(file: Path) -> Iterable[Any]:
    with pytest.importorskip("duckdb").connect() as connection:
        found = connection.execute(f"SELECT * FROM '{file}' ORDER BY row")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def by_datasets(file: Path) -> Iterable[Any]:
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(file.parent))


@pytest.mark.parametrize("read", [by_polars, by_pandas, by_duckdb, by_datasets])
def test_others_read_parquet(embedder, tmp_path, read):
    """All rows, by the names of their columns."""
    embed_file(embedder, LINES, tmp_path / "vectors.parquet")
    rows = list(read(tmp_path / "vectors.parquet"))
    assert [row["row"] for row in rows] == [0, 1, 2, 3]
    assert [list(row["tokens"]) for row in rows] == [line.split() for line in LINES]
    for row, wanted in zip(rows, embedder.embed([line.split() for line in LINES]), strict=True):
        vectors = np.reshape(np.asarray(row["vectors"], np.float32), tuple(row["shape"]))
        assert vectors.shape == (LAYERS, len(row["tokens"]), DIM)
        np.testing.assert_array_equal(vectors, wanted)
