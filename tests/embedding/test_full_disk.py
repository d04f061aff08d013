"""A full disk: what is written stops with one line, nothing is left half-written, and what was there before stays.

Twice: on a small tmpfs where one may be mounted (root), and under the limit on the size of a file, which every user
can set; the system calls fail alike.
"""

import errno
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.store import write_vectors
from elmo.formats import Model, allennlp, native
from elmo.formats.hdf5 import Hdf5Output
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig

LIMIT = 1_000_000
LARGE = BiLMConfig(LstmConfig(dim=128, projection_dim=64), CharCnnConfig(embedding_dim=4, filters=((1, 64), (2, 128))))
SMALL = BiLMConfig(LstmConfig(dim=4, projection_dim=2, n_layers=1), CharCnnConfig(embedding_dim=2, filters=((1, 2),)))


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={LIMIT}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], timeout=30, check=True)


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Path]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield tmp_path
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(params=["tmpfs", "limited"])
def disk(request: pytest.FixtureRequest) -> Path:
    """A folder in which about 1 MB can be written."""
    return request.getfixturevalue(request.param)


def model(config: BiLMConfig) -> Model:
    return Model(config, BiLM(config).state_dict())


def check_full(disk: Path, output: Path, write: Callable[[], object]) -> None:
    """`write` fails in one line that names `output`, and the folder is as it was before."""
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    with pytest.raises(OSError, match=r"(No space left on device|File too large).*free some space") as caught:
        write()
    assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert caught.value.filename == str(output)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("rows", [2, 100])
@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_full_disk_leaves_the_vectors_that_were_there(disk, suffix, rows):
    """In few large rows and in many small ones, which HDF5 keeps back until it closes the file."""
    output = disk / f"vectors{suffix}"
    output.write_bytes(b"of yesterday")
    vectors = np.random.default_rng(0).standard_normal((3, 2_000_000 // rows // 48, 4)).astype(np.float32)

    def write() -> None:
        with write_vectors(output, overwrite=True) as writer:
            for row in range(rows):
                writer.append(f"sentence {row}", ["token"] * vectors.shape[1], vectors)

    check_full(disk, output, write)


@pytest.mark.parametrize("rows", [3_000, 9_000])
def test_full_disk_while_hdf5_writes_its_own_tables(disk, rows):
    """With empty rows nothing but HDF5's tables is written."""
    output = disk / "vectors.hdf5"

    def write() -> None:
        with write_vectors(output) as writer:
            for row in range(rows):
                writer.append(
                    f"a sentence of some length, number {row}", ["token"] * 20, np.zeros((3, 0, 8), np.float32)
                )

    check_full(disk, output, write)


def test_full_disk_while_embedding_a_file(disk, tmp_path_factory):
    source = tmp_path_factory.mktemp("text") / "lines.txt"
    source.write_text("one two three four five six seven eight nine ten\n" * 3000, encoding="utf-8")
    embedder = Embedder(BiLM(SMALL))
    check_full(disk, disk / "v.h5", lambda: embed_file(embedder, source, disk / "v.h5"))


def test_a_full_disk_says_how_to_resume(tmpfs, tmp_path_factory):
    source = tmp_path_factory.mktemp("text") / "lines.txt"
    source.write_text("one two three four five six seven eight nine ten\n" * 3000, encoding="utf-8")
    with refused("v.npz.parts", "free some space", "--resume", error=OSError):
        embed_file(Embedder(BiLM(SMALL)), source, tmpfs / "v.npz", resume=True)


def test_full_disk_at_the_end_of_a_file_leaves_no_index_behind(tmpfs, tmp_path_factory):
    """safetensors copies all numbers when it is closed."""
    source = tmp_path_factory.mktemp("text") / "lines.txt"
    source.write_text("one two three four five six seven eight nine ten\n" * 1000, encoding="utf-8")
    output, embedder = tmpfs / "v.safetensors", Embedder(BiLM(SMALL))
    check_full(tmpfs, output, lambda: embed_file(embedder, source, output, index=tmpfs / "v.jsonl"))


@pytest.mark.parametrize("layout", [native, allennlp])
def test_full_disk_while_saving_a_model(disk, layout):
    layout.save(model(SMALL), disk / "model")
    check_full(disk, disk / "model", lambda: layout.save(model(LARGE), disk / "model", overwrite=True))


def test_hdf5_reads_back_what_a_full_disk_refused(limited):
    """After the first refusal the file goes on in memory, so that HDF5 itself never sees an error."""
    data = torch.arange(300_000).numpy()
    output = Hdf5Output(limited / "x.hdf5")
    for name in "abc":
        output.file[name] = data
    for name in "abc":
        np.testing.assert_array_equal(output.file[name][()], data)
    with pytest.raises(OSError, match="File too large"), output:
        pass
