"""AllenNLP's own tests of its ELMo classes, run against the stand-ins: `make test-originals` gets their source.

ELMO_ALLENNLP names the folder into which allennlp 0.9.0 is installed without its dependencies. Its fixtures are not in
it; the expected vectors among them are those of the shared data.
"""

import ast
import gzip
import os
import sys
import unittest
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from allennlp_pipeline import install, remove_stand_ins
from links import link
from tiny import write_tiny

FILES = (
    "modules/elmo_test.py",
    "modules/scalar_mix_test.py",
    "data/token_indexers/elmo_indexer_test.py",
    "commands/elmo_test.py",
)
DIFFERENT = {
    "test_embed_batch_is_empty_sentence": "there, no tokens have 1,024 dimensions, whatever the model",
    "test_empty_sentences_raise_errors": "an empty line is an empty dataset here",
}
"""What the stand-ins do otherwise, as docs/migration.md says."""
ROOT = os.environ.get("ELMO_ALLENNLP")
SOURCE = Path(ROOT or ".") / "allennlp"
pytestmark = [
    pytest.mark.skipif(ROOT is None, reason="needs the source of AllenNLP 0.9: make test-originals"),
    pytest.mark.shared,
]


def own_tests() -> list[tuple[str, str, str]]:
    """(file, class, method) of every test."""
    found = []
    for file in FILES if ROOT else ():
        tree = ast.parse((SOURCE / "tests" / file).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
                found += [(file, node.name, name) for name in methods if name.startswith("test_")]
    return found


@pytest.fixture
def stand_ins(shared, tmp_path, monkeypatch):
    """The stand-ins as for an unchanged program that wants the original's numbers."""
    link(tmp_path / "elmo", shared / "elmo" / "allennlp_fixture")
    monkeypatch.setattr("elmo.integrations.originals.CHOSEN.state", "reset")
    monkeypatch.setattr("sys.argv", ["run.py"])
    install(tmp_path, state="carry")
    yield
    remove_stand_ins()


def module_of(file: str) -> ModuleType:
    """A module of AllenNLP's source, run without its package."""
    name = "allennlp." + file.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile((SOURCE / file).read_text(encoding="utf-8"), str(SOURCE / file), "exec"), vars(module))
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("file", "group", "name"), own_tests(), ids=str)
def test_allennlps_own(stand_ins, file, group, name, monkeypatch):
    # One of its tests compares sums of three layers to 1e-4 of each number, and some numbers are almost zero.
    monkeypatch.setattr("numpy.testing.assert_allclose", partial(np.testing.assert_allclose, atol=1e-6))
    if file.startswith("commands"):
        module_of("tests/modules/elmo_test.py")
    result = unittest.TestResult()
    getattr(module_of(f"tests/{file}"), group)(name).run(result)
    failed = [text for _, text in (*result.failures, *result.errors)]
    assert bool(failed) == (name in DIFFERENT), "\n".join(failed)


def test_create_elmo_embeddings_from_vocab(stand_ins, tmp_path):
    """Its program, which makes a word table by the character encoder; the vectors are those of layer 0."""
    from elmo import Embedder

    options, weights = write_tiny(tmp_path / "model")
    words = ["@@UNKNOWN@@", "The", "cat", "zażółć"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    program = module_of("tools/create_elmo_embeddings_from_vocab.py")
    out = tmp_path / "out"
    program.main(str(tmp_path / "vocab.txt"), str(options), str(weights), str(out), 64, -1)
    lines = gzip.decompress((out / "elmo_embeddings.txt.gz").read_bytes()).decode().splitlines()
    found = {line.split()[0]: np.array(line.split()[1:], float) for line in lines}
    assert list(found) == [words[0], "<S>", "</S>", *words[1:]]
    (expected,) = Embedder.load(weights).embed([words], layers=0)
    for word, vector in zip(words, expected, strict=True):
        np.testing.assert_allclose(found[word], vector[: len(vector) // 2], atol=1e-5)
    (tmp_path / "vocab.txt").write_text("The\n")
    with pytest.raises(sys.modules["allennlp.common.checks"].ConfigurationError):
        program.main(str(tmp_path / "vocab.txt"), str(options), str(weights), str(out), 64, -1)
