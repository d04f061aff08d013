"""The same sentences through every door: the numbers are the `Embedder`'s. And what cannot be read is said at each."""

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from places import ROOT
from refusals import names, refused
from tiny import tiny_model, write_tiny

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import native
from elmo.text.tokenizer import TextConfig

SENTENCES = [["The", "cat", "sat", "."], ["a"], ["zażółć", "gęślą", "東京"], ["the", "cat", "ran", "home", "again"]]
LAYERS = ["average", "top", 0]
Vectors = list[np.ndarray]


def by_sklearn(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    """One vector a text: the mean."""
    from elmo.integrations.sklearn import ElmoVectorizer

    return list(ElmoVectorizer(folder, layers=layers, device="cpu").fit_transform(texts))


def by_sentence_transformers(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    from sentence_transformers import SentenceTransformer

    from elmo.integrations.sentence_transformers import Elmo

    model = SentenceTransformer(modules=[Elmo(folder, layers=layers)], device="cpu")
    return [vectors.numpy() for vectors in model.encode(texts, output_value="token_embeddings")]


def by_transformers(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    from transformers import AutoModel, AutoTokenizer

    import elmo.integrations.transformers  # noqa: F401

    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        every = torch.stack(model(**batch, output_hidden_states=True).hidden_states).numpy()
    chosen = _chosen(every, layers)
    return [row[1 : len(text) + 1] for row, text in zip(chosen, texts, strict=True)]


def by_flair(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    with warnings.catch_warnings():  # Flair's own, of other packages
        warnings.simplefilter("ignore")
        flair_data = pytest.importorskip("flair.data")
        from elmo.integrations.flair import ElmoEmbeddings

    sentences = [flair_data.Sentence(text) for text in texts]
    ElmoEmbeddings(folder, layers=layers).embed(sentences)
    return [np.stack([token.embedding.cpu().numpy() for token in sentence]) for sentence in sentences]


def by_spacy(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"model": str(folder), "layers": layers})
    return [doc.tensor for doc in nlp.pipe([Doc(nlp.vocab, text) for text in texts])]


def by_spacy_tok2vec(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    import spacy
    from spacy.tokens import Doc

    vocab = spacy.blank("xx").vocab
    layer = spacy.registry.architectures.get("elmo.Tok2Vec.v1")(str(folder), layers=layers)
    return layer.predict([Doc(vocab, text) for text in texts])


def by_allennlp(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    from elmo.integrations.allennlp import ElmoEmbedder

    with tempfile.TemporaryDirectory() as other:
        embedder = ElmoEmbedder(*map(str, write_tiny(Path(other) / "model")))
    return [_chosen(embedder.embed_sentence(text), layers) for text in texts]


def by_simple_elmo(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    from elmo.integrations.simple_elmo import ElmoModel

    model = ElmoModel()
    model.load(folder)
    every = model.get_elmo_vectors(texts, layers="all")
    return [_chosen(layers_of[:, : len(text)], layers) for layers_of, text in zip(every, texts, strict=True)]


def by_elmoformanylangs(folder: Path, layers: Any, texts: Sequence[Any] = SENTENCES) -> Vectors:
    from elmo.integrations.elmoformanylangs import Embedder as TheirEmbedder

    return TheirEmbedder(folder).sents2elmo(texts, {"average": -1, "top": 2}.get(layers, layers))


def _chosen(every: np.ndarray, layers: Any) -> np.ndarray:
    return {"average": every.mean(axis=0), "top": every[-1]}[layers] if isinstance(layers, str) else every[layers]


DOORS: list[Callable[..., Vectors]] = [
    by_sklearn,
    by_sentence_transformers,
    by_transformers,
    by_flair,
    by_spacy,
    by_spacy_tok2vec,
    by_allennlp,
    by_simple_elmo,
    by_elmoformanylangs,
]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("doors") / "model"
    native.save(tiny_model(), folder)
    return folder


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door_gives_the_numbers_of_the_embedder(folder, door, layers):
    pool = "mean" if door is by_sklearn else None
    expected = Embedder.load(folder, device="cpu").embed(SENTENCES, layers, pool)
    for seen, rows in zip(door(folder, layers), expected, strict=True):
        np.testing.assert_allclose(seen, rows, rtol=0, atol=1e-6)


# What cannot be read: every door's error is one line with the remedy, and of the type that its framework has for it.

NO_TOKENS = {
    by_sklearn: "is a string; a list of texts is expected",
    by_sentence_transformers: "a string or a list of tokens is expected",
    by_transformers: "is_split_into_words=True needs a list of words",
    by_allennlp: "is the string",
    by_simple_elmo: "is the string",
    by_elmoformanylangs: "is the string",
}
"""By those that are given tokens; Flair and spaCy are given objects of their own."""


@pytest.mark.parametrize("door", NO_TOKENS, ids=lambda door: door.__name__)
def test_a_string_or_a_number_in_the_place_of_tokens(folder, door):
    texts: Any = {by_sklearn: "a text", by_transformers: "a text", by_sentence_transformers: [1.5]}.get(
        door, ["a text"]
    )
    with pytest.raises(ValueError, match=NO_TOKENS[door]) as caught:
        door(folder, "top", texts)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layers", ["middle", 7, [1.0]])
@pytest.mark.parametrize(
    "door",
    [by_sklearn, by_sentence_transformers, by_flair, by_spacy, by_spacy_tok2vec],
    ids=lambda door: door.__name__,
)
def test_a_layer_that_is_not_there(folder, door, layers):
    with refused("layers", "3 layers", error=ValueError) as caught:
        door(folder, layers)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "package", "remedy"),
    [
        ("sklearn", "sklearn", "[sklearn]"),
        ("sentence_transformers", "sentence_transformers", "[sentence]"),
        ("transformers", "transformers", "[transformers]"),
        ("transformers_tokenizer", "transformers", "[transformers]"),
        ("spacy", "spacy", "[text]"),
        ("flair", "flair", "flair"),
    ],
)
def test_a_package_that_is_missing(module, package, remedy):
    program = f"import sys; sys.modules[{package!r}] = None; import elmo.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    names(done.stderr.splitlines()[-1], "pip install", remedy)


PAGE = ROOT / "docs" / "integrations.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITTEN = {
    "gensim": ["types", "text.txt", "words.txt"],
    "Arrow: polars, pandas, DuckDB, datasets": ["embed", "text.txt", "vectors.parquet"],
}
"""What the text of a section has the reader do before its program runs."""


@pytest.mark.slow
@pytest.mark.parametrize("section", [name for name, text in SECTIONS.items() if BLOCK.search(text)])
def test_what_the_page_says_runs(section, tmp_path):
    if section == "Flair":
        pytest.importorskip("flair.data")
    program = "".join(BLOCK.findall(SECTIONS[section]))
    variables = os.environ | {"HOME": str(tmp_path), "FLAIR_CACHE_ROOT": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    if section in WRITTEN:
        (tmp_path / "text.txt").write_text("She wrote a play .\n", encoding="utf-8")
        subprocess.run([sys.executable, "-m", "elmo", *WRITTEN[section]], cwd=tmp_path, env=variables, check=True)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Texts

TEXTS = ["They sat. The cat ran!\nHome again", "a"]


@pytest.fixture(scope="module")
def of_english(tmp_path_factory) -> Path:
    """A model that splits text by English rules."""
    folder = tmp_path_factory.mktemp("english") / "model"
    native.save(replace(tiny_model(), text=TextConfig()), folder)
    return folder


def test_a_text_has_the_sentences_of_the_embedder_in_every_library(of_english) -> None:
    embedder = Embedder.load(of_english, device="cpu")
    expected = embedder.embed(TEXTS, "average")
    assert len(expected[0].sentences) == 3
    for seen, vectors in zip(by_sentence_transformers(of_english, "average", TEXTS), expected, strict=True):
        np.testing.assert_allclose(seen, vectors, atol=1e-5)
    pooled = [vectors.mean(axis=0) for vectors in expected]
    np.testing.assert_allclose(by_sklearn(of_english, "average", TEXTS), pooled, atol=1e-5)


def test_a_biLM_that_is_trained_reads_each_sentence_alone(of_english) -> None:
    """By the network itself, not by an `Embedder`."""
    from elmo.integrations.reader import Reader
    from elmo.integrations.token_vectors import TokenVectors

    reader = Reader(str(of_english))
    vectors = TokenVectors(reader, "average", frozen=False)([reader.split(text) for text in TEXTS])
    expected = Embedder.load(of_english, device="cpu").embed(TEXTS, "average")
    for seen, each in zip(vectors.detach().numpy(), expected, strict=True):
        np.testing.assert_allclose(seen[: len(each)], each, atol=1e-5)
        assert not seen[len(each) :].any()


def test_a_document_without_sentences_gets_those_of_the_model(of_english) -> None:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(of_english), "layers": "average"})
    (expected,) = Embedder.load(of_english, device="cpu").embed(TEXTS[:1], "average")
    doc = nlp(TEXTS[0])
    there = [token.i for token in doc if not token.is_space]
    assert [doc[i].text for i in there] == list(expected.tokens)
    np.testing.assert_allclose(doc.tensor[there], expected, atol=1e-5)
    assert not doc.has_annotation("SENT_START"), "the component adds vectors alone"


@pytest.mark.parametrize("frozen", [True, False])
def test_transformers_reads_each_sentence_of_a_text_alone(of_english, frozen) -> None:
    from transformers import AutoModel, AutoTokenizer

    import elmo.integrations.transformers  # noqa: F401

    texts = [*TEXTS, "", "One. Two! Three? Four. " * 3]
    model = AutoModel.from_pretrained(of_english, frozen=frozen)
    batch = AutoTokenizer.from_pretrained(of_english)(texts, padding=True, return_tensors="pt")
    output = model(**batch)
    assert output.last_hidden_state.requires_grad is not frozen
    expected = Embedder.load(of_english, device="cpu").embed(texts, "top")
    assert [len(vectors.sentences) for vectors in expected] == [3, 1, 0, 12]
    for row, (seen, vectors) in enumerate(zip(output.last_hidden_state.detach().numpy(), expected, strict=True)):
        words = batch.word_ids(row)
        assert [word for word in words if word is not None] == list(range(len(vectors)))
        np.testing.assert_allclose(seen[[word is not None for word in words]], vectors, atol=1e-5)
        there = batch["attention_mask"][row].bool().numpy()
        assert not seen[~there].any()
        assert seen[there].any(axis=1).all(), "boundaries have vectors, too"
