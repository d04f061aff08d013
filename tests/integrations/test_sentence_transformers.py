"""`Elmo` in sentence-transformers' own models, folders, trainer and evaluators."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from refusals import ADAPTER_OPTIONS, refused
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from sentence_transformers.sentence_transformer.modules import Pooling

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import native
from elmo.integrations.sentence_transformers import Elmo

TEXTS = ["the cat sat", "dogs", "a very long walk home", "the end", "cat"]
PAIRS = {"one": TEXTS, "other": ["a dog ran", "dogs", "home", "a start", "dog"], "score": [0.9, 1.0, 0.3, 0.1, 0.8]}


def sentence_model(*arguments, **options) -> SentenceTransformer:
    elmo = Elmo(*arguments, **options)
    return SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")], device="cpu")


def vectors(folder: Path, layers) -> np.ndarray:
    return np.stack(Embedder.load(folder, device="cpu").embed([text.split() for text in TEXTS], layers, "mean"))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("layers", ["mix", "average", "sum", "top", "concat", 0, 1, [0.2, 0.3, 0.5]])
def test_vectors_are_those_of_the_embedder(folder, layers, frozen):
    expected = vectors(folder, "average" if layers == "mix" else layers)
    model = sentence_model(folder, layers=layers, frozen=frozen)
    np.testing.assert_allclose(model.encode(TEXTS, batch_size=2), expected, rtol=0, atol=1e-6)
    assert model.get_embedding_dimension() == expected.shape[1]


def test_weights_may_be_an_array(folder, tmp_path):
    weights = np.array([0.2, 0.3, 0.5])
    model = sentence_model(folder, layers=weights, frozen=False)
    np.testing.assert_allclose(model.encode(TEXTS), vectors(folder, weights.tolist()), rtol=0, atol=1e-6)
    model.save(str(tmp_path / "saved"))
    assert SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True)[0].layers == weights.tolist()


def test_vectors_of_tokens_are_those_of_the_embedder(folder):
    tokens = sentence_model(folder).encode(TEXTS, output_value="token_embeddings", convert_to_numpy=False)
    expected = Embedder.load(folder, device="cpu").embed([text.split() for text in TEXTS], "average")
    for seen, rows in zip(tokens, expected, strict=True):
        np.testing.assert_allclose(seen.detach().numpy(), rows, rtol=0, atol=1e-6)


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_vectors_have_the_type_of_the_module(folder, frozen, learning):
    elmo = sentence_model(folder, frozen=frozen)[0]
    with torch.set_grad_enabled(learning):
        whole = elmo(elmo.preprocess(TEXTS))["token_embeddings"]
        half = elmo.half()(elmo.preprocess(TEXTS))["token_embeddings"]
    assert half.dtype == torch.float16
    assert torch.allclose(half.float(), whole, atol=0.02)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_model_that_has_encoded_can_be_copied(folder, frozen):
    """As sentence-transformers does to encode in several processes."""
    model = sentence_model(folder, frozen=frozen)
    expected = model.encode(TEXTS)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.encode(TEXTS), expected)


def test_prompts_are_ignored(folder):
    model = sentence_model(folder)
    np.testing.assert_array_equal(model.encode(TEXTS, prompt="query: "), model.encode(TEXTS))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("pool", ["mean", "max", "cls", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"])
def test_no_tokens_are_zero_in_every_pooling(folder, pool, frozen):
    elmo = Elmo(folder, frozen=frozen)
    model = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), pool)], device="cpu")
    assert not model.encode(["", " "]).any()
    none, some = model.encode(["", "the cat sat"])
    assert not none.any()
    np.testing.assert_allclose(some, model.encode("the cat sat"), rtol=0, atol=1e-6)


def trained(model: SentenceTransformer, output: Path) -> SentenceTransformer:
    arguments = SentenceTransformerTrainingArguments(
        str(output), num_train_epochs=4, per_device_train_batch_size=5, learning_rate=0.05, report_to=[], use_cpu=True
    )
    data = Dataset.from_dict(PAIRS)
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=CosineSimilarityLoss(model)).train()
    return model


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
@pytest.mark.parametrize("frozen", [True, False])
def test_the_trainer_learns_the_mix_and_the_bilm_if_asked(folder, tmp_path, frozen):
    model = sentence_model(folder, frozen=frozen)
    scores = EmbeddingSimilarityEvaluator(PAIRS["one"], PAIRS["other"], PAIRS["score"])
    before = CosineSimilarityLoss(model)(
        [model.preprocess(PAIRS["one"]), model.preprocess(PAIRS["other"])], torch.tensor(PAIRS["score"])
    ).item()
    trained(model, tmp_path / "run")
    after = CosineSimilarityLoss(model)(
        [model.preprocess(PAIRS["one"]), model.preprocess(PAIRS["other"])], torch.tensor(PAIRS["score"])
    ).item()
    assert after < before
    assert model[0].vectors.mix.scalars.abs().max() > 0.01
    assert np.isfinite(list(scores(model).values())).all()

    model.save(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(again.encode(TEXTS), model.encode(TEXTS), rtol=0, atol=1e-6)
    assert torch.equal(again[0].vectors.mix.scalars, model[0].vectors.mix.scalars)
    kept = native.load(tmp_path / "saved" / "0_Elmo").weights
    same = [torch.equal(weight, kept[name]) for name, weight in native.load(folder).weights.items()]
    assert all(same) is frozen


def test_a_model_is_saved_over_itself(folder, tmp_path):
    model, there = sentence_model(folder), str(tmp_path / "saved")
    model.save(there)
    loaded = SentenceTransformer(there, device="cpu", trust_remote_code=True)
    with torch.no_grad():
        loaded[0].vectors.mix.gamma.fill_(2.0)
    loaded.save(there)
    again = SentenceTransformer(there, device="cpu", trust_remote_code=True)
    assert again[0].vectors.mix.gamma == 2.0
    np.testing.assert_array_equal(again.encode(TEXTS), loaded.encode(TEXTS))


@pytest.mark.parametrize(("options", "said"), ADAPTER_OPTIONS)
def test_bad_settings_are_said_in_one_line(folder, options, said):
    with refused(*said.split("; "), error=(InputError, FileNotFoundError)):
        Elmo(**({"model": folder} | options))


def test_numbers_in_the_place_of_texts_are_refused(folder):
    with refused("string", "list of tokens", error=ValueError):
        Elmo(folder).preprocess([1.5])


@pytest.mark.parametrize("made", [pd.Series, iter])
def test_what_the_library_takes_for_one_text_is_not_read_as_its_tokens(folder, made):
    with refused("list(texts)"):
        sentence_model(folder).encode(made(TEXTS))
    with refused("frame['text']"):
        sentence_model(folder).encode(pd.DataFrame({"text": TEXTS}))
