"""Numbers on the command line that no machine bears, or that mean nothing, are refused before any work."""

from pathlib import Path

import numpy as np
import pytest
from command import run
from refusals import refusal, refused
from tiny import tiny_model

from elmo.embedding import store
from elmo.embedding.layers import layer_selector
from elmo.errors import Failure, InputError
from elmo.formats import native

HUGE = "1" + "0" * 12


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"serve --model MODEL --workers {HUGE}", ("--workers", "fewer")),
        ("serve --model MODEL --workers 0", ("--workers",)),
        ("serve --model MODEL --timeout nan", ("--timeout", "above 0")),
        ("serve --model MODEL --wait inf", ("--wait", "above 0")),
        (f"serve --model MODEL --most-tokens {HUGE}", ("--most-tokens", "up to")),
        ("embed text.txt out --model MODEL --engine local --threads 100000", ("--threads", "fewer")),
        ("types text.txt words.txt --model MODEL --min-count -1", ("--min-count", "at least 1")),
        (f"task compare queue --output out --jobs {HUGE}", ("--jobs", "fewer")),
        ("task compare queue --output out --jobs -1", ("--jobs", "at least 1")),
        ("probe ablate --output out --jobs 9000", ("--jobs", "fewer")),
    ],
)
def test_a_number_is_refused(tmp_path: Path, monkeypatch, command: str, words: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    native.save(tiny_model(), tmp_path / "model")
    (tmp_path / "text.txt").write_text("They play .\n")
    refusal(run(*command.replace("MODEL", "model").split()), *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "text.txt"]


@pytest.mark.parametrize("weight", ["nan", "inf", "1e40", "-3e38"])
def test_a_weight_that_makes_vectors_infinite_is_refused(weight: str) -> None:
    with refused("layers", "finite"):
        layer_selector(f"mix={weight},1,1", 3)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".safetensors"])
@pytest.mark.parametrize(("value", "error"), [(np.nan, Failure), (np.inf, Failure), (1e6, InputError)])
def test_vectors_that_are_not_finite_are_never_written(tmp_path: Path, suffix: str, value: float, error) -> None:
    vectors = np.full((1, 2), value, np.float32)
    dtype = "float16" if error is InputError else "float32"
    with refused("vector", error=error), store.write_vectors(tmp_path / f"out{suffix}", dtype) as writer:
        writer.append("a", ["a"], vectors)
    assert not list(tmp_path.iterdir())
