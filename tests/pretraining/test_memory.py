"""Peak memory does not grow with the length of the input: what could be held of it is several times the bound.

What may grow, up to a bound: the shuffle's buffer of 16 million characters, HDF5's tables, the index of sentences.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command import Command
from small_run import TINY

from elmo.embedding.store import read_vectors
from elmo.formats import Model, native
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops.products import has_onednn

CONFIG = BiLMConfig(LstmConfig(dim=8, projection_dim=512), CharCnnConfig(embedding_dim=4, filters=((1, 4), (2, 4))))
"""Wide vectors of a quick model, so that they are what takes memory: 12 kB a token."""
MB = 1_000_000
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def write_lines(path: Path, count: int) -> Path:
    """A word of every line occurs nowhere else, as in real text."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(f"the old sailor waits beside boat b{number} .\n")
            if number % 7 == 6:
                file.write("\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    native.save(Model(CONFIG, BiLM(CONFIG).state_dict()), folder / "model")
    return folder / "model"


def peak(*arguments: object) -> int:
    command = Command(*arguments)
    done = command.wait()
    assert done.returncode == 0, done.stderr
    return command.peak


def test_training_memory_does_not_grow_with_the_corpus(tmp_path):
    """As lists of tokens the larger corpus would take 100 MB. The words to count are bounded by pruning, not here."""
    peaks = []
    for count in (1_000, 100_000):
        text = write_lines(tmp_path / f"{count}.txt", count)
        peaks.append(peak("train", "--train", text, *TINY, "max_words=400", "--output", tmp_path / f"{count}"))
    assert peaks[1] - peaks[0] < 40 * MB


@pytest.mark.parametrize("suffix", ["hdf5", "parquet"])
def test_embedding_memory_does_not_grow_with_the_text(model, tmp_path, suffix):
    """The vectors of the larger text are 118 MB more. HDF5's own tables grow with the first rows only."""
    peaks = []
    for count in (600, 1_800):
        text, output = write_lines(tmp_path / f"{count}.txt", count), tmp_path / f"{count}.{suffix}"
        peaks.append(peak("embed", text, output, "--model", model, "--pretokenized", "--memory", "32MB"))
    assert peaks[1] - peaks[0] < 40 * MB


def test_embedding_memory_of_a_long_line_is_that_of_its_vectors(model, tmp_path):
    """Read as one piece the longer one would take 160 MB more."""
    peaks = []
    for count in (1_000, 8_000):
        text, output = tmp_path / f"{count}.txt", tmp_path / f"{count}.hdf5"
        text.write_text(" ".join(f"w{number % 1000}" for number in range(count)) + "\n")
        options = ("--pretokenized", "--layers", "top", "--memory", "32MB")
        peaks.append(peak("embed", text, output, "--model", model, *options))
        with read_vectors(output) as vectors:
            assert vectors[0].shape == (count, 1024)
    vectors_and_tokens = 7_000 * (4 * 1024 + 200)
    assert peaks[1] - peaks[0] < vectors_and_tokens + 40 * MB


def test_embedding_memory_is_what_was_asked_for(model, tmp_path):
    """To `.npz`: HDF5's tables lie scattered, and keep what is freed between them from going back to the system."""
    text = write_lines(tmp_path / "text.txt", 2_000)
    peaks = {
        size: peak("embed", text, tmp_path / f"{size}.npz", "--model", model, "--pretokenized",
                   "--layers", "all", "--memory", f"{size}MB")
        for size in (32, 512)
    }  # fmt: skip
    assert 100 * MB < peaks[512] - peaks[32] < 512 * MB  # a bound that means something, and is kept


@pytest.mark.skipif(not has_onednn(torch.float32), reason="products are not oneDNN's here")
def test_tasks_keep_the_programs_of_few_shapes():
    """oneDNN tells whether it has made a program or had it: the first of 70 shapes is not kept, the last one is."""
    code = """import torch
{}
from elmo.ops.products import product
weight = torch.ones(2, 3)
for rows in (*range(1, 71), 70, 1):
    product(torch.ones(rows, 3), weight)
"""
    calls = ("", "from elmo.training.memory import keep_few_programs; keep_few_programs()")
    found = []
    for call in calls:
        environment = {name: value for name, value in os.environ.items() if name != CAPACITY} | {"ONEDNN_VERBOSE": "2"}
        command = [sys.executable, "-c", code.format(call)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(re.findall("create:cache_(hit|miss)", done.stdout))
    assert [made[-2:] for made in found] == [["hit", "hit"], ["hit", "miss"]]
