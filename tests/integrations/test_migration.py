"""docs/migration.md: what it tells people to write runs, section by section, beside a small model in `model/`."""

import re
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest
from command import printed, run_program
from pages import FENCED, blocks, sections
from tiny import DIM, LAYERS, write_tiny

from elmo.embedding.embedder import Embedder

SECTIONS = sections("docs/migration.md")
UNCHANGED = SECTIONS.pop("Without changing the program")
STANZA = """
import json
from pathlib import Path
from stanza.models.common import pretrain

words = ["good", "bad", "film", "very", "a"]
sentences = (("0", ["a", "very", "bad", "film"]), ("1", ["a", "very", "good", "film"]))
rows = [{"sentiment": label, "text": sentence, "id": label} for label, sentence in sentences]
Path("data.json").write_text(json.dumps(rows * 8))
Path("words.txt").write_text("".join(f"{word}\\t0.1\\t0.2\\t0.3\\n" for word in words))
pretrain.Pretrain("words.pt", "words.txt").load()
arguments = ["--save_dir", "saved", "--save_name", "model.pt", "--wordvec_pretrain_file", "words.pt", "--cpu"]
arguments += ["--train_file", "data.json", "--dev_file", "data.json", "--test_file", "data.json", "--max_epochs", "2"]
arguments += ["--filter_channels", "8", "--fc_shapes", "6", "--bilstm_hidden_dim", "5", "--batch_size", "8"]
"""
"""A sentiment classifier with hardly any data."""
FLAIR = """
import pickle
import numpy as np
from flair.data import Dictionary, Sentence
from flair.models import SequenceTagger

files = {"options_file": "model/options.json", "weight_file": "model/weights.hdf5"}
layers = elmo.load("model").embed([["The", "cat", "sat"]])[0]
wanted = {"all": np.concatenate(layers, axis=-1), "top": layers[-1], "average": layers.mean(axis=0)}
for mode, expected in wanted.items():
    embeddings = ELMoEmbeddings(embedding_mode=mode, **files)
    for again in (embeddings, pickle.loads(pickle.dumps(embeddings))):
        sentences = [Sentence(["The", "cat", "sat"]), Sentence(["a"])]
        again.embed(sentences)
        found = np.stack([token.embedding.cpu().numpy() for token in sentences[0]])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert embeddings.embedding_length == expected.shape[-1]
tags = Dictionary(add_unk=False)
tags.add_item("A")
tags.add_item("B")
tagger = SequenceTagger(embeddings=embeddings, tag_dictionary=tags, tag_type="x", hidden_size=4, use_crf=False)
tagger.predict(sentences)
try:
    ELMoEmbeddings("small")
except FileNotFoundError as error:
    assert "elmo_2x1024_128_2048cnn_1xhighway" in str(error), error
else:
    raise AssertionError("a model that is not here was found")
"""
"""Every mode is what elmo gives; it is saved, opened and used in a tagger; a model that is not here is an error."""
GIVEN = {"TF-Hub": "import elmo\n", "SeqVec": "import elmo\n", "Stanza": STANZA}
"""What a reader's program has already."""
SHOWN = {
    "AllenNLP": "assert [v.shape for v in output['elmo_representations']] == [(2, 3, 8)] * 2\n"
    "assert output['mask'].tolist() == [[1, 1, 1], [1, 1, 0]]\n"
    "assert vectors.shape == (3, 2, 8)\n",
    "simple_elmo": "assert tokens.shape == (2, 2, 8) and means.shape == (2, 3, 8)\n",
    "ELMoForManyLangs": "assert [v.shape for v in vectors] == [(3, 8)] * 2\n",
    "TF-Hub": "assert [v.shape for v in vectors] == [(6, 8)]\n",
    "SeqVec": "assert {name: v.shape for name, v in proteins.items()} == {'P1': (8,), 'P2': (8,)}\n"
    "assert np.allclose(protein, proteins['P1'], atol=1e-5)\n",
    "Flair": f"assert embeddings.embedding_length == 8\n{FLAIR}",
    "Stanza": "saved = ['--no_train', '--load_name', 'saved/model.pt']\n"
    "classifier.main(['--use_elmo', '--elmo_model', 'model/', *arguments, *saved])\n",
}
"""What the page says of the results, with this model's sizes; a saved classifier is opened again."""
NEEDS = {"Flair": "flair", "Stanza": "stanza"}
"""Heavy, and no part of the `dev` extra."""


@pytest.fixture
def folder(tmp_path):
    write_tiny(tmp_path / "model")
    (tmp_path / "sentences.txt").write_text("The cat sat .\nA dog\n", encoding="utf-8")
    (tmp_path / "proteins.fasta").write_text(">P1 first\nSEQW\nENCE\n>P2\nMKV\n", encoding="utf-8")
    (tmp_path / "words.conllu").write_text("1\tSue\tSue\n2\tlikes\tlike\n\n1\tBill\tBill\n\n", encoding="utf-8")
    return tmp_path


def after(kind: str, body: str) -> list[str]:
    """The lines that a reader has in the end: of a difference, those that are added and those that stay."""
    return [line[1:] for line in body.splitlines() if line[0] in "+ "] if kind == "diff" else body.splitlines()


def steps(section: str) -> list[str]:
    """The commands and programs of a section, in order; lines of Python that follow one another are one program."""
    found: list[str] = []
    for kind, body in FENCED.findall(SECTIONS[section]):
        for line in after(kind, body):
            if line.startswith("elmo ") or not found or found[-1].startswith("elmo "):
                found.append("")
            found[-1] += f"{line}\n"
    return found


def test_every_peer_has_its_difference():
    assert " ".join(SECTIONS) == "AllenNLP bilm-tf simple_elmo ELMoForManyLangs TF-Hub SeqVec Flair Stanza"
    for name, text in SECTIONS.items():
        diffs = blocks(text, "diff")
        assert diffs, name
        assert all(re.search(r"^\+", body, re.MULTILINE) for body in diffs), name


@pytest.mark.parametrize("section", SECTIONS)
def test_what_the_page_says_runs(section, folder, monkeypatch):
    if section in NEEDS and find_spec(NEEDS[section]) is None:
        pytest.skip(f"{NEEDS[section]} is not installed: pip install 'elmo-torch[peers]'")
    monkeypatch.chdir(folder)
    program = GIVEN.get(section, "")
    for step in steps(section):
        if step.startswith("elmo "):
            printed(*step.split()[1:])
        else:
            program += step
    program += SHOWN.get(section, "")
    done = run_program(program, {"HOME": str(folder), "FLAIR_CACHE_ROOT": str(folder)})
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    check = CHECKS.get(section)
    if check is not None:
        check(folder)


def average_of(folder: Path, sentence: str) -> np.ndarray:
    return Embedder.load(folder / "model").embed([sentence.split()], "average")[0]


def check_allennlp(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5") as file:
        assert set(file) == {"0", "1", "sentence_to_index"}
        np.testing.assert_allclose(file["0"], average_of(folder, "The cat sat ."), atol=1e-6)


def check_bilm(folder: Path) -> None:
    with h5py.File(folder / "bilm.hdf5") as file:
        assert set(file) == {"0", "1"}
        assert file["1"].shape == (LAYERS, 2, DIM)


def check_many_langs(folder: Path) -> None:
    with h5py.File(folder / "many.hdf5") as file:
        np.testing.assert_allclose(file["0"], average_of(folder, "Sue likes"), atol=1e-6)


CHECKS = {"AllenNLP": check_allennlp, "bilm-tf": check_bilm, "ELMoForManyLangs": check_many_langs}


def test_the_stand_ins_are_registered_as_the_page_says():
    (body,) = blocks(UNCHANGED, "python")
    named = re.findall(r"`([a-z_]+)`", UNCHANGED.partition("stands in for ")[2].partition("which no longer")[0])
    assert len(named) == 4
    done = run_program(body + "\n".join(f"import {name}" for name in named))
    assert done.returncode == 0, done.stderr
