"""`ElmoVectorizer` in scikit-learn's own pipelines, searches and checks."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from tiny import tiny_model

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import native
from elmo.integrations.sklearn import ElmoVectorizer

TEXTS = [["the", "cat", "sat"], ["dogs"], ["a", "very", "long", "walk", "home"], ["the", "end"], [], ["cat"]]
LABELS = [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("pool", ["mean", "max", "sum"])
@pytest.mark.parametrize("layers", ["average", "sum", "top", "concat", 0, 1, [0.2, 0.3, 0.5]])
def test_rows_are_the_vectors_of_the_embedder(folder, layers, pool):
    expected = Embedder.load(folder, device="cpu").embed(TEXTS, layers, pool)
    seen = ElmoVectorizer(folder, layers=layers, pool=pool, device="cpu").fit_transform(TEXTS)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, np.stack(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_weights_may_be_an_array(folder, pool):
    weights = np.array([0.2, 0.3, 0.5])
    seen, expected = (
        ElmoVectorizer(folder, layers=layers, pool=pool, device="cpu").fit_transform(TEXTS)
        for layers in (weights, weights.tolist())
    )
    np.testing.assert_array_equal(seen, expected)


def test_a_generator_of_texts_is_read_once(folder):
    vectorizer = ElmoVectorizer(folder, device="cpu")
    expected = vectorizer.fit_transform(TEXTS)
    np.testing.assert_array_equal(vectorizer.fit_transform(text for text in TEXTS), expected)
    np.testing.assert_array_equal(vectorizer.transform(text for text in TEXTS), expected)
    frame = vectorizer.set_output(transform="pandas").fit_transform(pd.Series(TEXTS, index=range(5, 11)))
    assert list(frame.index) == list(range(5, 11))


def test_an_array_of_strings_is_read(folder):
    texts = ["the cat sat", "dogs"]
    vectorizer = ElmoVectorizer(folder, device="cpu").fit(texts)
    np.testing.assert_array_equal(vectorizer.transform(np.array(texts)), vectorizer.transform(texts))


def test_a_search_over_layers_reads_each_text_once(folder, tmp_path, monkeypatch):
    read = []
    embed_stream = Embedder.embed_stream

    def counted(self, sentences, *arguments):
        read.append(len(sentences))
        return embed_stream(self, sentences, *arguments)

    monkeypatch.setattr(Embedder, "embed_stream", counted)
    pipeline = make_pipeline(ElmoVectorizer(folder, device="cpu", memory=str(tmp_path)), LogisticRegression())
    search = GridSearchCV(pipeline, {"elmovectorizer__layers": ["average", "top", 0, [1.0, 0.0, 0.0]]}, cv=2)
    search.fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert sum(read) == 2 * len(TEXTS), "two halves, each once for all choices; then all texts"
    scores = search.cv_results_["mean_test_score"]
    assert scores[2] == scores[3], "layer 0 is the weight of layer 0 alone"


def test_jobs_load_the_model_in_each_process(folder):
    pipeline = make_pipeline(ElmoVectorizer(folder, device="cpu"), LogisticRegression())
    found = GridSearchCV(pipeline, {"elmovectorizer__layers": ["average", 1]}, cv=2, n_jobs=2).fit(TEXTS, LABELS)
    alone = GridSearchCV(pipeline, {"elmovectorizer__layers": ["average", 1]}, cv=2).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_a_copy_gives_the_same_and_holds_no_model(folder):
    fitted = ElmoVectorizer(folder, layers="top", device="cpu").fit(TEXTS)
    expected = fitted.transform(TEXTS)
    stored = pickle.dumps(fitted)
    assert len(stored) < 2000
    np.testing.assert_array_equal(pickle.loads(stored).transform(TEXTS), expected)
    copy: Any = clone(fitted)
    assert copy.get_params() == fitted.get_params()


def test_another_model_is_loaded_when_the_parameter_changes(folder, tmp_path):
    native.save(tiny_model(seed=7), tmp_path / "other")
    vectorizer = ElmoVectorizer(folder, device="cpu").fit(TEXTS)
    before = vectorizer.transform(TEXTS)
    after = vectorizer.set_params(model=tmp_path / "other").fit_transform(TEXTS)
    assert not np.allclose(before, after)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"layers": 7}, "layers is 7"), ({"layers": "all"}, "'concat'"), ({"pool": None}, "pool is None")],
)
def test_choices_that_change_after_fit_are_checked_again(folder, change, said):
    fitted = ElmoVectorizer(folder, device="cpu").fit(TEXTS)
    with refused(*said.split("; ")):
        fitted.set_params(**change).transform(TEXTS)


def test_names_of_columns(folder):
    vectorizer = ElmoVectorizer(folder, device="cpu").set_output(transform="pandas")
    frame = vectorizer.fit_transform(TEXTS)
    assert list(frame.columns[:2]) == ["elmovectorizer0", "elmovectorizer1"]
    wider = vectorizer.set_params(layers="concat").transform(TEXTS)
    assert list(wider.columns) == [f"elmovectorizer{number}" for number in range(3 * frame.shape[1])]


@pytest.mark.parametrize("layers", ["concat", "top", [0.2, 0.3, 0.5]])
def test_no_texts_have_rows_of_the_same_size(folder, tmp_path, layers):
    vectorizer = ElmoVectorizer(folder, layers=layers, device="cpu", memory=tmp_path).fit(TEXTS)
    assert vectorizer.transform([]).shape == (0, vectorizer.transform(TEXTS).shape[1])


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("a text", {}, "list"),
        ([["a"], "b", 3], {}, "text 2; is 3"),
        (np.array([["a", "b"]]), {}, "dimension"),
        ([["a"]], {"layers": 9}, "3 layers"),
        ([["a"]], {"layers": "all"}, "'concat'"),
    ],
)
def test_what_cannot_be_used_is_a_value_error_of_one_line(folder, texts, options, message):
    with refused(*message.split("; "), error=ValueError) as caught:
        ElmoVectorizer(folder, device="cpu", **options).fit(texts)
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(("name", "value"), [("pool", "median"), ("pool", None), ("precision", "int3")])
def test_choices_are_checked_without_the_type_checks_of_these_tests(folder, name, value):
    program = (
        "from elmo.integrations.sklearn import ElmoVectorizer\n"
        f"ElmoVectorizer({str(folder)!r}, device='cpu', {name}={value!r}).fit([['a']])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"elmo.errors.InputError: {name} is {value!r}")


@pytest.mark.parametrize(
    "name",
    [
        "estimator_cloneable", "estimator_repr", "estimator_tags_renamed", "get_params_invariance", "mixin_order",
        "no_attributes_set_in_init", "parameters_default_constructible", "set_params", "valid_tag_types",
    ],
)  # fmt: skip
def test_the_checks_of_scikit_learn_that_need_no_numbers(name):
    """`check_estimator` leaves estimators of text out; these of its checks fit nothing."""
    getattr(estimator_checks, f"check_{name}")("ElmoVectorizer", ElmoVectorizer())
