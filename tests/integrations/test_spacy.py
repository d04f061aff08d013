"""The component `elmo` and the architecture `elmo.Tok2Vec.v1` in spaCy's own pipelines, found by their entry points."""

import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from refusals import refused
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import fix_random_seed, load_model_from_config, registry
from thinc.api import Config
from tiny import DIM, LAYERS

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import native

TEXTS = ["the cat sat", "dogs", "a  very long\twalk home", "", "  "]
TOKENS = [["the", "cat", "sat"], ["dogs"], ["a", "very", "long", "walk", "home"], [], []]


def blank(folder: Path, **settings) -> spacy.language.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(folder)} | settings)
    return nlp


def expected(folder: Path, layers="average", pool=None) -> list[np.ndarray]:
    return Embedder.load(folder, device="cpu").embed(TOKENS, layers, pool)


def words(doc: Doc) -> list[int]:
    return [token.i for token in doc if not token.is_space]


# The component


@pytest.mark.parametrize("layers", ["average", "top", "concat", 0, [0.2, 0.3, 0.5]])
def test_tensors_are_the_vectors_of_the_embedder_and_zero_at_white_space(folder, layers):
    nlp = blank(folder, layers=layers)
    for docs in (list(nlp.pipe(TEXTS, batch_size=2)), [nlp(text) for text in TEXTS]):
        for doc, rows in zip(docs, expected(folder, layers), strict=True):
            np.testing.assert_allclose(doc.tensor[words(doc)], rows, rtol=0, atol=1e-6)
            assert not np.delete(doc.tensor, words(doc), axis=0).any()


@pytest.mark.parametrize("static", [False, True])
def test_vectors_and_similarities_are_those_of_elmo(folder, static):
    nlp = blank(folder)
    if static:  # vectors that the pipeline has already do not come in the way
        nlp.vocab.set_vector("cat", np.ones(4, np.float32))
    docs, means = [nlp(text) for text in TEXTS], expected(folder, pool="mean")
    for doc, mean in zip(docs, means, strict=True):
        np.testing.assert_allclose(doc.vector, mean, rtol=0, atol=1e-6)
    for doc in docs:
        assert [token.i for token in doc if token.has_vector] == words(doc)
        assert doc.has_vector == doc[:].has_vector == bool(words(doc))
    cat, sat = docs[0][1], docs[0][2]
    np.testing.assert_array_equal(cat.vector, docs[0].tensor[1])
    np.testing.assert_allclose(docs[0][1:].vector, docs[0].tensor[1:].mean(axis=0), atol=1e-6)
    cosine = cat.vector @ sat.vector / np.linalg.norm(cat.vector) / np.linalg.norm(sat.vector)
    assert cat.similarity(sat) == pytest.approx(cosine, abs=1e-6)
    assert docs[0].similarity(docs[0][:]) == pytest.approx(1.0)
    assert docs[0].similarity(docs[3]) == 0.0


def test_sentences_are_read_one_by_one_where_their_ends_are_known(folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(folder)})
    first, second = Embedder.load(folder).embed([["cats", "sat", "."], ["dogs", "ran", "."]], "average")
    np.testing.assert_allclose(nlp("cats sat. dogs ran.").tensor, np.concatenate([first, second]), rtol=0, atol=1e-6)
    together = Embedder.load(folder).embed([["cats", "sat", ".", "dogs", "ran", "."]], "average")[0]
    np.testing.assert_allclose(blank(folder)("cats sat. dogs ran.").tensor, together, rtol=0, atol=1e-6)


def test_processes_give_the_same(folder):
    nlp = blank(folder)
    alone = [nlp(text).tensor for text in TEXTS[:3]]
    program = (
        "import sys, numpy as np, spacy\n"
        "nlp = spacy.blank('en')\n"
        f"nlp.add_pipe('elmo', config={{'model': {str(folder)!r}}})\n"
        "if __name__ == '__main__':\n"
        "    nlp('used in this process, too')\n"
        f"    docs = list(nlp.pipe({TEXTS[:3]!r} * 4, n_process=2, batch_size=2))\n"
        "    np.savez(sys.argv[1], *[doc.tensor for doc in docs], *[docs[0][1].vector])\n"
    )
    file = folder.parent / "tensors.npz"
    done = subprocess.run(
        [sys.executable, "-c", program, file], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = list(np.load(file).values())
    for tensor, rows in zip(seen[:12], alone * 4, strict=True):
        np.testing.assert_allclose(tensor, rows, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(seen[12], seen[0][1])


def test_a_pickle_of_another_process_keeps_the_threads(folder):
    """Only a process that was forked has one thread."""
    nlp = blank(folder)
    before = torch.get_num_threads()
    again = pickle.loads(pickle.dumps(nlp.get_pipe("elmo").bilm))
    try:
        torch.set_num_threads(2)
        again.read([nlp.make_doc(TEXTS[0])])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_pipeline_is_saved_with_its_model(folder, tmp_path):
    moved = tmp_path / "moved"
    native.save(native.load(folder), moved)
    nlp = blank(moved, layers="top")
    before = nlp(TEXTS[0]).tensor
    nlp.to_disk(tmp_path / "pipeline")
    content = nlp.to_bytes()
    assert formats.load(tmp_path / "pipeline" / "elmo").config == native.load(folder).config
    moved.rename(tmp_path / "elsewhere")
    (tmp_path / "pipeline" / "elmo" / "notes").mkdir()  # of the user's own
    loaded = spacy.load(tmp_path / "pipeline")
    for again in (
        loaded,
        blank(moved, layers="top").from_bytes(content),
        spacy.blank("en").from_bytes(loaded.to_bytes()),
    ):
        if again.has_pipe("elmo"):
            np.testing.assert_array_equal(again(TEXTS[0]).tensor, before)
    loaded.to_disk(tmp_path / "again")
    np.testing.assert_array_equal(spacy.load(tmp_path / "again")(TEXTS[0]).tensor, before)


def test_a_saved_pipeline_opens_where_its_model_s_name_is_something_else(folder, tmp_path):
    named = tmp_path / "named"
    native.save(native.load(folder), named)
    nlp = blank(named)
    nlp.to_disk(tmp_path / "pipeline")
    for file in named.iterdir():
        file.unlink()
    (named / "notes.txt").touch()
    np.testing.assert_array_equal(spacy.load(tmp_path / "pipeline")(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)
    with refused("named", "known model"):
        blank(named)(TEXTS[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": "middle"}, "layers is 'middle'"),
        ({"layers": 7}, "layers is 7"),
        ({"layers": "all"}, "'average'; 'concat'"),
        ({"layers": "mix"}, "elmo.Tok2Vec.v1"),
    ],
)
def test_bad_settings_are_said_in_one_line_when_the_component_is_made(folder, settings, said):
    with refused(*said.split("; "), error=ValueError) as caught:
        blank(folder, **settings)
    assert isinstance(caught.value, InputError)


def test_a_model_that_is_not_here_is_said_in_one_line_when_it_is_used():
    with pytest.raises(FileNotFoundError, match="no-such-model") as caught:
        blank(Path("no-such-model"))("text")
    assert "\n" not in str(caught.value)


# The architecture


def layer(folder: Path, **settings):
    made = registry.architectures.get("elmo.Tok2Vec.v1")(str(folder), **settings)
    made.initialize()
    return made


@cache
def docs() -> list[Doc]:
    nlp = spacy.blank("en")
    return [nlp(text) for text in TEXTS[:3]]


@pytest.mark.parametrize("layers", ["mix", "average", "concat", 1])
def test_outputs_are_the_vectors_of_the_embedder(folder, layers):
    made = layer(folder, layers=layers)
    assert made.get_dim("nO") == (DIM * LAYERS if layers == "concat" else DIM)
    rows = expected(folder, "average" if layers == "mix" else layers)
    for outputs in (made.predict(docs()), made.begin_update(docs())[0]):
        for doc, seen, row in zip(docs(), outputs, rows, strict=False):
            np.testing.assert_allclose(seen[words(doc)], row, rtol=0, atol=1e-6)


def test_the_gradient_of_the_mix_is_that_of_differences(folder):
    made, draw = layer(folder), np.random.default_rng(1)
    made.set_param("scalars", draw.normal(size=LAYERS).astype("f"))
    made.set_param("gamma", np.array([1.3], "f"))
    outputs, backprop = made.begin_update(docs())
    directions = [draw.normal(size=output.shape).astype("f") for output in outputs]
    backprop(directions)

    def value() -> float:
        return sum(float((output * part).sum()) for output, part in zip(made.predict(docs()), directions, strict=True))

    for name in ("scalars", "gamma"):
        gradient = made.get_grad(name)
        for place in range(len(gradient)):
            kept, ends = made.get_param(name).copy(), []
            for step in (1e-2, -1e-2):
                changed = kept.copy()
                changed[place] += step
                made.set_param(name, changed)
                ends.append(value())
            made.set_param(name, kept)
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-2, abs=2e-3)


CONFIG = """
[paths]
train = null
dev = null
elmo = "default"

[nlp]
lang = "en"
pipeline = ["tok2vec","tagger","ner"]

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "elmo.Tok2Vec.v1"
model = ${paths.elmo}

[components.tagger]
factory = "tagger"

[components.tagger.model]
@architectures = "spacy.Tagger.v2"

[components.tagger.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 8

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 16
maxout_pieces = 2
use_upper = true

[components.ner.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 8

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"
max_steps = 60
eval_frequency = 30
dropout = 0.0

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.05
"""
PEOPLE = ["Anna", "Bob", "Carla", "Dirk"]
VERBS = ["sees", "likes", "calls"]


def corpus() -> list[Doc]:
    """Somebody does something with somebody."""
    vocab, made = spacy.blank("en").vocab, []
    for one in PEOPLE:
        for verb in VERBS:
            for other in PEOPLE:
                doc = Doc(vocab, [one, verb, other, "."], tags=["NNP", "VBZ", "NNP", "."])
                doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 2, 3, "PERSON")]
                made.append(doc)
    return made


def test_a_tagger_and_a_recognizer_learn_the_mix(folder, tmp_path):
    fix_random_seed(0)
    config = Config().from_str(CONFIG, overrides={"paths.elmo": str(folder)})
    nlp = load_model_from_config(config, auto_fill=True)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in corpus()]
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    for _ in range(80):
        nlp.update(examples, sgd=optimizer)
    scores = nlp.evaluate(examples)
    assert scores["tag_acc"] > 0.9
    assert scores["ents_f"] > 0.9
    mix = nlp.get_pipe("tok2vec").model
    assert np.abs(mix.get_param("scalars")).max() > 0.01

    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline", config={"components.tok2vec.model.model": "not-here-any-more"})
    for again in (loaded, load_model_from_config(config, auto_fill=True).from_bytes(nlp.to_bytes())):
        for text in ("Anna likes Bob.", "Dirk calls Anna."):
            seen, wanted = again(text), nlp(text)
            np.testing.assert_allclose(seen.tensor, wanted.tensor, rtol=0, atol=1e-6)
            assert seen.to_json() == wanted.to_json()
        for name in ("scalars", "gamma"):
            np.testing.assert_array_equal(again.get_pipe("tok2vec").model.get_param(name), mix.get_param(name))


@pytest.mark.slow
def test_spacy_train_runs(folder, tmp_path):
    DocBin(docs=corpus()).to_disk(tmp_path / "corpus.spacy")
    (tmp_path / "config.cfg").write_text(CONFIG, encoding="utf-8")
    fill = ["init", "fill-config", "config.cfg", "filled.cfg"]
    paths = ["--paths.train", "corpus.spacy", "--paths.dev", "corpus.spacy", "--paths.elmo", str(folder)]
    for command in (fill, ["train", "filled.cfg", "--output", "run", *paths]):
        done = subprocess.run(
            [sys.executable, "-m", "spacy", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    nlp = spacy.load(tmp_path / "run" / "model-best")
    assert nlp.meta["performance"]["tag_acc"] > 0.9
    assert nlp.meta["performance"]["ents_f"] > 0.9
    assert [ent.text for ent in nlp("Anna likes Bob .").ents] == ["Anna", "Bob"]


def test_bad_settings_of_the_architecture_are_said_in_one_line(folder):
    with refused("layers is 'middle'"):
        layer(folder, layers="middle")
    with refused("no-such-model"):
        layer(Path("no-such-model"))
