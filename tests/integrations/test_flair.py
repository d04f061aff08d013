"""`ElmoEmbeddings` in Flair's own sentences, taggers and trainer."""

import warnings

import numpy as np
import pytest
import torch
from refusals import ADAPTER_OPTIONS, refused

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

with warnings.catch_warnings():  # Flair's own, of other packages
    warnings.simplefilter("ignore")
    import flair
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset
    from flair.embeddings import StackedEmbeddings
    from flair.models import SequenceTagger
    from flair.trainers import ModelTrainer

    from elmo.integrations.flair import ElmoEmbeddings

TEXTS = [["the", "cat", "sat"], ["dogs"], ["a", "very", "long", "walk", "home"], ["the", "end"], ["cat"]]


def embedded(embeddings) -> list[np.ndarray]:
    sentences = [Sentence(text) for text in TEXTS]
    with torch.no_grad():
        embeddings.embed(sentences)
    return [np.stack([token.embedding.cpu().numpy() for token in sentence]) for sentence in sentences]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("layers", ["mix", "average", "top", "concat", 0, [0.2, 0.3, 0.5]])
def test_vectors_are_those_of_the_embedder(folder, layers, frozen):
    embeddings = ElmoEmbeddings(folder, layers=layers, frozen=frozen)
    expected = Embedder.load(folder, device="cpu").embed(TEXTS, "average" if layers == "mix" else layers)
    for seen, rows in zip(embedded(embeddings), expected, strict=True):
        np.testing.assert_allclose(seen, rows, rtol=0, atol=1e-6)
    assert embeddings.embedding_length == expected[0].shape[1]
    assert embeddings.static_embeddings is (frozen and layers != "mix")


def test_two_kinds_are_stacked(folder):
    first, second = ElmoEmbeddings(folder, layers=0, name="tokens"), ElmoEmbeddings(folder, layers="top", name="top")
    side_by_side = embedded(StackedEmbeddings([first, second]))
    np.testing.assert_array_equal(side_by_side[0], np.concatenate([embedded(first)[0], embedded(second)[0]], axis=1))


def corpus() -> Corpus:
    sentences = [Sentence(text) for text in TEXTS]
    for sentence in sentences:
        for token in sentence:
            token.add_label("pos", "X" if "a" in token.text else "Y")
    data = FlairDatapointDataset(sentences)
    return Corpus(train=data, dev=data, test=data, name="toy")


def tagged(tagger: SequenceTagger) -> list[str]:
    sentences = [Sentence(text) for text in TEXTS]
    tagger.predict(sentences)
    return [sentence.to_tagged_string() for sentence in sentences]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_tagger_is_trained_saved_and_loaded(folder, tmp_path, frozen):
    toy = corpus()
    flair.set_seed(1)
    embeddings = ElmoEmbeddings(folder, frozen=frozen)
    tags = toy.make_label_dictionary("pos", add_unk=False)
    tagger = SequenceTagger(embeddings, tags, "pos", hidden_size=16, use_crf=False, dropout=0, locked_dropout=0)
    ModelTrainer(tagger, toy).fine_tune(
        tmp_path / "run",
        learning_rate=0.1 if frozen else 0.02,
        mini_batch_size=2,
        max_epochs=40,
        save_final_model=False,
    )
    assert embeddings.vectors.mix.scalars.abs().max() > 0.001, "the mix was learned"
    assert tagger.evaluate(toy.train, "pos").main_score > 0.8

    tagger.save(tmp_path / "tagger.pt")
    moved = tmp_path / "elsewhere"
    folder.rename(moved)  # the tagger has the model in it
    try:
        again = SequenceTagger.load(tmp_path / "tagger.pt")
    finally:
        moved.rename(folder)
    for seen, rows in zip(embedded(again.embeddings), embedded(embeddings), strict=True):
        np.testing.assert_allclose(seen, rows, rtol=0, atol=1e-6)
    assert tagged(again) == tagged(tagger)


@pytest.mark.parametrize(("options", "said"), ADAPTER_OPTIONS)
def test_bad_settings_are_said_in_one_line(folder, options, said):
    with refused(*said.split("; "), error=(InputError, FileNotFoundError)):
        ElmoEmbeddings(**({"model": folder} | options))
