"""Files of vectors: rows come back as they were written, in the layout that others read."""

import json
import multiprocessing
import os
import resource
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
import typechecker
from bilm_files import write_zip
from pyarrow.parquet import ParquetFile
from refusals import refused

from elmo.embedding import store_hdf5, store_parquet, store_rows, store_safetensors
from elmo.embedding.store import read_vectors, write_vectors

ROWS = [
    ("The cat sat .", ["The", "cat", "sat", "."]),
    ("", []),
    ('a "quoted" \\ word', ['a "quoted"', "\\", "word"]),
    ("zażółć 東京", ["zażółć", "東京\u2028"]),
    ("The cat sat .", ["The", "cat", "sat", "."]),
    ("null \x00", ["null", "\x00"]),
]


@pytest.fixture(params=[".hdf5", ".npz", ".parquet", ".safetensors"])
def path(tmp_path, request) -> Path:
    """A file that is still to be written, of each format."""
    return tmp_path / f"v{request.param}"


def vectors(row: int, tokens: int, layers: int | None = 3) -> np.ndarray:
    shape = (tokens, 4) if layers is None else (layers, tokens, 4)
    return np.random.default_rng(row).standard_normal(shape).astype(np.float32)


def written(path: str | Path, rows: int, tokens: int = 1) -> None:
    with write_vectors(path) as writer:
        for row in range(rows):
            writer.append("a", ["a"] * tokens, vectors(row, tokens))


@pytest.mark.parametrize("layers", [3, None])
@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet", ".safetensors", ".h5", ".H5", ".NPZ"])
def test_rows_come_back_in_any_order(tmp_path, suffix, layers, monkeypatch):
    monkeypatch.setattr(store_parquet, "GROUP_BYTES", 300)
    monkeypatch.setattr(store_hdf5, "ROWS_AT_ONCE", 4)
    path = tmp_path / f"v{suffix}"
    with write_vectors(path) as writer:
        for row, (sentence, tokens) in enumerate(ROWS):
            writer.append(sentence, tokens, vectors(row, len(tokens), layers))
    with read_vectors(path) as found:
        assert len(found) == len(ROWS)
        for row in (5, 0, 3, 1, 2, 4):
            tokens = ROWS[row][1]
            np.testing.assert_array_equal(found[row], vectors(row, len(tokens), layers))
            assert found[row].dtype == np.float32
            assert found.tokens(row) == tokens
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_long_row_is_written_in_pieces(path, monkeypatch):
    for module in (store_hdf5, store_rows):
        monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 30)  # of two tokens and a half
    rows = [vectors(0, 7), vectors(1, 11, None), vectors(2, 1)]
    with write_vectors(path) as writer:
        for row in rows:
            writer.append("", ["a"] * row.shape[-2], row)
        writer.append("", [], rows[0].ravel())  # pooled
    with read_vectors(path) as found:
        for number, row in enumerate([*rows, rows[0].ravel()]):
            np.testing.assert_array_equal(found[number], row)


def test_float16_is_stored_as_float16_and_lone_surrogates_are_written(path):
    tokens = ["a", "b\ud800c", "é"]
    with write_vectors(path, dtype="float16") as writer:
        writer.append(" ".join(tokens), tokens, vectors(0, 3))
    with read_vectors(path) as found:
        assert found.tokens(0) == (["a", "b?c", "é"] if path.suffix == ".parquet" else tokens)
        assert found[0].dtype == np.float16
        np.testing.assert_array_equal(found[0], vectors(0, 3).astype(np.float16))


@pytest.mark.parametrize("size", [2, 1 << 22])
def test_numbers_beyond_float16_are_refused(path, size):
    large = np.full((1, 2, size), 7e4, np.float32)
    with refused("float16", "float32"), write_vectors(path, dtype="float16") as writer:
        writer.append("a b", ["a", "b"], large)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("module", "bound", "suffix"),
    [(store_parquet, "MOST_NUMBERS", ".parquet"), (store_safetensors, "MOST_HEADER_BYTES", ".safetensors")],
)
def test_a_row_beyond_the_bounds_of_its_format_is_refused(tmp_path, monkeypatch, module, bound, suffix):
    monkeypatch.setattr(module, bound, 100)
    with refused("row 0", ".hdf5"):
        written(tmp_path / f"v{suffix}", 1, tokens=9)
    assert not list(tmp_path.iterdir())


def test_hdf5_has_the_layout_of_allennlp(tmp_path):
    path = tmp_path / "v.hdf5"
    with write_vectors(path) as writer:
        for row, (sentence, tokens) in enumerate(ROWS):
            writer.append(sentence, tokens, vectors(row, len(tokens)))
    with h5py.File(path) as file:
        assert set(file) == {*map(str, range(6)), "sentence_to_index", "tokens"}
        assert (file["0"].shape, file["1"].shape, file["0"].dtype) == ((3, 4, 4), (3, 0, 4), np.float32)
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {sentence: str(row) for row, (sentence, _) in enumerate(ROWS)}  # of equal sentences the last


@pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
def test_few_large_tokens_wait_in_memory(tmp_path, suffix, monkeypatch):
    """Tokens of 100,000 characters: three rows may wait, not all thirty."""
    monkeypatch.setattr(store_hdf5, "CHARACTERS_AT_ONCE", 300_000)
    monkeypatch.setattr(store_parquet, "GROUP_BYTES", 300_000)

    def tokens(row: int) -> list[str]:
        return [f"{row}" + "x" * 99_999, "a"]

    with write_vectors(tmp_path / f"v{suffix}") as writer:
        writer.append("", tokens(0), vectors(0, 2)[:, :, :1])  # what is imported at the first row does not count
        tracemalloc.start()
        for row in range(1, 30):
            writer.append("", tokens(row), vectors(row, 2)[:, :, :1])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1_500_000
    with read_vectors(tmp_path / f"v{suffix}") as found:
        assert all(found.tokens(row) == tokens(row) for row in range(30))


def test_hdf5_index_of_sentences_is_left_out_where_it_grows_large(tmp_path, monkeypatch):
    monkeypatch.setattr(store_hdf5, "MAX_INDEX_CHARACTERS", 100)
    written(tmp_path / "v.hdf5", 20)
    with h5py.File(tmp_path / "v.hdf5") as file:
        assert "sentence_to_index" not in file
    with read_vectors(tmp_path / "v.hdf5") as found:
        assert len(found) == 20


def test_hdf5_of_others_without_tokens_is_read(tmp_path):
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file["0"] = vectors(0, 2)
        file["sentence_to_index"] = ['{"a b": "0"}']
    with read_vectors(tmp_path / "v.hdf5") as found:
        assert len(found) == 1
        np.testing.assert_array_equal(found[0], vectors(0, 2))
        with refused("v.hdf5", "tokens", "elmo embed"):
            found.tokens(0)


def test_npz_is_read_by_numpy_alone(tmp_path):
    written(tmp_path / "v.npz", 4)
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["3"], vectors(3, 1))


def test_rows_are_taken_by_their_numbers_from_either_end_inside_the_block(path, monkeypatch):
    monkeypatch.setattr(typechecker, "CHECKED", -1)  # users have no checker of annotations
    written(path, 0)
    with read_vectors(path) as found:
        assert len(found) == 0
    path.unlink()
    written(path, 3)
    with read_vectors(path) as found:
        assert len(list(found)) == 3
        np.testing.assert_array_equal(found[-1], found[2])
        assert found.tokens(-1) == found.tokens(-3) == ["a"]
        for read in (found.__getitem__, found.tokens):
            for row in (3, -4):
                with pytest.raises(IndexError):
                    read(row)
            for row in (slice(0, 1), "0", [0], True):
                with refused("row is", row):
                    read(row)
    for read in (found.__getitem__, found.tokens):
        with refused(path.name, "with read_vectors"):
            read(0)


def test_threads_may_share_a_parquet_reader(tmp_path, monkeypatch):
    """Two that read the file at a time would end the process, so here they are only counted."""
    monkeypatch.setattr(store_parquet, "GROUP_BYTES", 100)
    written(tmp_path / "v.parquet", 9)
    with read_vectors(tmp_path / "v.parquet") as found:
        read, reading = ParquetFile.read_row_group, threading.Lock()

        def alone(file: ParquetFile, group: int):
            assert reading.acquire(blocking=False), "two threads read"
            time.sleep(0.001)
            try:
                return read(file, group)
            finally:
                reading.release()

        monkeypatch.setattr(ParquetFile, "read_row_group", alone)
        order = [*range(9), *reversed(range(9))] * 3
        with ThreadPoolExecutor(4) as pool:
            for row, seen in zip(order, pool.map(found.__getitem__, order), strict=True):
                np.testing.assert_array_equal(seen, vectors(row, 1))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")
def test_a_forked_process_does_not_move_its_parents_place_in_the_file(path):
    written(path, 3, tokens=5000)
    with read_vectors(path) as found:

        def read() -> None:
            assert found.tokens(2) == ["a"] * 5000
            np.testing.assert_array_equal(found[0], vectors(0, 5000))

        places = _places(path.parent)
        child = multiprocessing.get_context("fork").Process(target=read)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert _places(path.parent) == places
        np.testing.assert_array_equal(found[1], vectors(1, 5000))


def _places(folder: Path) -> dict[str, int]:
    """Where this process is in each file of `folder` that it has open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists() and link.resolve().parent == folder]
    return {link.name: os.lseek(int(link.name), 0, os.SEEK_CUR) for link in links}


def test_a_failure_leaves_nothing_and_keeps_the_old_file(path):
    path.write_bytes(b"old")
    with refused("Ctrl-C", error=KeyboardInterrupt), write_vectors(path, overwrite=True) as writer:
        writer.append("a", ["a"], vectors(0, 1))
        raise KeyboardInterrupt("Ctrl-C")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_never_replaced_by_a_file(path):
    path.mkdir()
    with refused(path, "folder", error=IsADirectoryError), write_vectors(path, overwrite=True):
        pass
    assert list(path.parent.iterdir()) == [path]


def test_a_truncated_or_missing_file_is_named(path):
    with refused(path, error=FileNotFoundError), read_vectors(path):
        pass
    written(path, 1)
    path.write_bytes(path.read_bytes()[:-20])
    with refused(path, "complete"), read_vectors(path):
        pass


@pytest.mark.parametrize("content", [b"", b"no array", np.array([{}], dtype=object)])
def test_a_row_that_is_no_array_of_numbers_is_named(tmp_path, content):
    if isinstance(content, bytes):
        write_zip(tmp_path / "v.npz", {"0.npy": content})
    else:
        np.savez(tmp_path / "v.npz", **{"0": content})
    with read_vectors(tmp_path / "v.npz") as found, refused("v.npz", "row 0", "write"):
        found[0]


def test_what_the_system_cannot_open_is_not_said_to_be_damaged(path):
    written(path, 1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with path.open("rb") as file:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno() + 1, before[1]))
        try:
            with pytest.raises(OSError, match="open files"), read_vectors(path):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="only here a name may be any bytes")
@pytest.mark.parametrize("name", ["run:1/v.parquet", "~v.parquet", "caf\udce9.parquet"])
def test_any_name_of_a_parquet_file_is_a_path(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    written(name, 1)
    with read_vectors(name) as found:
        np.testing.assert_array_equal(found[0], vectors(0, 1))
    assert [file.name for file in Path(name).parent.iterdir()] == [Path(name).name]
