"""The road to the Latin model, its first minutes: the recipe with a small network, and the probe of its senses."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run
from places import ROOT

import elmo

SMALL = (
    "model.lstm.dim=32",
    "model.lstm.projection_dim=16",
    "model.char_cnn.filters=[[1, 8], [2, 8], [3, 8]]",
    "objective.negatives=64",
    "streams=16",
    "vocab_size=2000",
    "max_words=6400",
)


@pytest.mark.shared
def test_the_recipe_of_latin_makes_a_model_of_one_spelling(shared: Path, tmp_path: Path) -> None:
    text, heldout = shared / "latin" / "latin.test.txt.xz", shared / "latin" / "latin.valid.txt.xz"
    given = ("--train", text, "--heldout", heldout, "--output", tmp_path / "run")
    assert run("train", "latin", *given, "--dry-run", *SMALL).returncode == 0
    done = run("train", "latin", *given, *SMALL)
    assert done.returncode == 0, done.stderr

    embedder = elmo.load(tmp_path / "run" / "model")
    one, same, other = embedder.embed([["Jam", "vēnit", "præda", "."], ["Iam", "uenit", "praeda", "."], ["Iam"] * 4])
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)

    senses = ROOT / "models" / "latin" / "senses.tsv"
    probed = run("probe", "senses", "--data", senses, "--model", tmp_path / "run" / "model", "--quiet", "--json")
    assert probed.returncode == 0, probed.stderr
    assert [json.loads(line)["layer"] for line in probed.stdout.splitlines()] == [0, 1, 2]
