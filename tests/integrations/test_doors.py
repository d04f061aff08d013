"""What all integrations have in common: the sentences of a text, a missing package, and the page that shows them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pages import blocks, sections
from refusals import names, refused
from tiny import tiny_model

from elmo.embedding.embedder import Embedder
from elmo.formats import native
from elmo.integrations import ray, spark
from elmo.text.tokenizer import TextConfig

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


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


@pytest.mark.parametrize(
    ("embed", "numbers"), [(spark.embed, {"threads": 0}), (ray.embed, {"threads": 0}), (ray.embed, {"workers": 0})]
)
def test_no_worker_and_no_thread_are_refused(embed, numbers):
    """Before a cluster starts: zero processors were divided by, and zero workers were as many as there was room for."""
    with refused(*numbers, "at least 1"):
        embed(None, **numbers)


PROGRAMS = {name: "".join(blocks(text, "python")) for name, text in sections("docs/integrations.md").items()}
WRITTEN = {
    "gensim": ["types", "text.txt", "words.txt"],
    "Arrow: polars, pandas, DuckDB, datasets": ["embed", "text.txt", "vectors.parquet"],
}
"""What the text of a section has the reader do before its program runs."""


@pytest.mark.slow
@pytest.mark.parametrize("section", [name for name, program in PROGRAMS.items() if program])
def test_what_the_page_says_runs(section, tmp_path):
    if section == "Flair":
        pytest.importorskip("flair.data")
    variables = os.environ | {"HOME": str(tmp_path), "FLAIR_CACHE_ROOT": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    if section in WRITTEN:
        (tmp_path / "text.txt").write_text("She wrote a play .\n", encoding="utf-8")
        subprocess.run([sys.executable, "-m", "elmo", *WRITTEN[section]], cwd=tmp_path, env=variables, check=True)
    command = [sys.executable, "-c", PROGRAMS[section]]
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
    from sentence_transformers import SentenceTransformer

    from elmo.integrations.sentence_transformers import Elmo
    from elmo.integrations.sklearn import ElmoVectorizer

    expected = Embedder.load(of_english, device="cpu").embed(TEXTS, "average")
    assert len(expected[0].sentences) == 3
    model = SentenceTransformer(modules=[Elmo(of_english, layers="average")], device="cpu")
    tokens = model.encode(TEXTS, output_value="token_embeddings")
    for seen, vectors in zip(tokens, expected, strict=True):
        np.testing.assert_allclose(seen.numpy(), vectors, atol=1e-5)
    pooled = [vectors.mean(axis=0) for vectors in expected]
    np.testing.assert_allclose(ElmoVectorizer(of_english, device="cpu").fit_transform(TEXTS), pooled, atol=1e-5)


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
