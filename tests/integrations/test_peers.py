"""The doors of ELMoForManyLangs and simple_elmo by what their READMEs say; the stand-ins' names.

Flair and Stanza are tried as docs/migration.md shows them.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from allennlp_pipeline import remove_stand_ins
from refusals import refused
from tiny import DIM, LAYERS, write_tiny

from elmo.embedding.embedder import Embedder
from elmo.integrations import elmoformanylangs, install_shims, simple_elmo

SENTENCES = [["今", "天", "天氣"], [], ["潮水"], ["a", "b", "c", "d"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("peers") / "model")[0].parent


@pytest.fixture(scope="module")
def every(folder):
    return Embedder.load(folder).embed(SENTENCES)


# ELMoForManyLangs


@pytest.mark.parametrize("output_layer", [-1, -2, 0, 1, 2])
def test_sents2elmo_gives_the_layer_that_is_asked_for(folder, every, output_layer):
    vectors = elmoformanylangs.Embedder(str(folder), batch_size=2).sents2elmo(SENTENCES, output_layer=output_layer)
    pick = {-1: lambda layers: layers.mean(axis=0), -2: lambda layers: layers}
    for ours, layers in zip(vectors, every, strict=True):
        expected = pick.get(output_layer, lambda all_layers: all_layers[output_layer])(layers)
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_sents2elmo_averages_by_default_and_repeats_itself(folder, every):
    embedder = elmoformanylangs.Embedder(folder)
    first, second = embedder.sents2elmo(SENTENCES), embedder.sents2elmo(SENTENCES)
    assert [array.shape for array in first] == [(len(sentence), DIM) for sentence in SENTENCES]
    for one, other, layers in zip(first, second, every, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, layers.mean(axis=0), atol=1e-6)
    assert embedder.sents2elmo([]) == []


def test_sents2elmo_refuses_a_layer_that_is_not_there_and_a_string(folder):
    with refused("output_layer is 3"):
        elmoformanylangs.Embedder(folder).sents2elmo(SENTENCES, output_layer=3)
    with refused("is the string", "'a text'"):
        elmoformanylangs.Embedder(folder).sents2elmo(["a text"])


# simple_elmo


@pytest.fixture(scope="module")
def model(folder):
    model = simple_elmo.ElmoModel()
    model.load(str(folder))
    return model


def test_get_elmo_vectors_is_one_array_with_zeros_after_a_sentence(model, every):
    vectors = model.get_elmo_vectors(SENTENCES)
    assert vectors.shape == (4, 4, DIM)
    for row, layers in zip(vectors, every, strict=True):
        tokens = layers.shape[1]
        np.testing.assert_allclose(row[:tokens], layers.mean(axis=0), atol=1e-6)
        assert not row[tokens:].any()
    np.testing.assert_allclose(model.get_elmo_vectors(SENTENCES, layers="top")[0, :3], every[0][-1], atol=1e-6)
    assert model.get_elmo_vectors([]).shape == (0, 0, DIM)


def test_all_layers_are_an_axis_and_not_scrambled(model, every):
    vectors = model.get_elmo_vectors(SENTENCES, layers="all")
    assert vectors.shape == (4, LAYERS, 4, DIM)
    for row, layers in zip(vectors, every, strict=True):
        np.testing.assert_allclose(row[:, : layers.shape[1]], layers, atol=1e-6)
    means = model.get_elmo_vector_average(SENTENCES, layers="all")
    assert means.shape == (4, LAYERS, DIM)
    layers = every[0].mean(axis=1)
    np.testing.assert_allclose(means[0], layers / np.linalg.norm(layers), atol=1e-6)


def test_averages_count_no_padding(model, every):
    alone = model.get_elmo_vector_average([SENTENCES[0]])
    beside_longer = model.get_elmo_vector_average(SENTENCES)
    assert beside_longer.shape == (4, DIM)
    np.testing.assert_allclose(beside_longer[0], alone[0], atol=1e-6)
    mean = every[0].mean(axis=(0, 1))
    np.testing.assert_allclose(alone[0], mean / np.sqrt((mean**2).sum()), atol=1e-6)
    assert (model.vector_size, model.n_layers) == (DIM, len(every[0]))
    assert not beside_longer[1].any()  # of an empty sentence


def test_simple_elmo_says_what_is_missing_or_wrong(model):
    with refused("load(path)"):
        simple_elmo.ElmoModel().get_elmo_vectors(SENTENCES)
    with refused("layers is 'concat'"):
        model.get_elmo_vectors(SENTENCES, layers="concat")
    with refused("is the string", "'a text'"):
        model.get_elmo_vectors(["a text"])


# Stand-ins


@pytest.fixture
def clean_modules():
    """Modules that a test registers are gone after it."""
    yield
    remove_stand_ins()


@pytest.mark.usefixtures("clean_modules")
def test_dead_names_are_registered_on_request():
    """What they give is tried in `test_shims.py`."""
    for name in ("allennlp", "elmoformanylangs", "simple_elmo"):
        assert find_spec(name) is None
    names = {"allennlp.commands.elmo", "allennlp.modules.elmo", "bilm", "elmoformanylangs", "simple_elmo"}
    assert names <= set(install_shims())
    assert install_shims() == []

    for name in ("allennlp", "elmoformanylangs", "simple_elmo"):
        assert find_spec(name) is not None  # programs ask this way whether a package is there


@pytest.mark.usefixtures("clean_modules")
def test_an_installed_package_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "allennlp").mkdir()
    (tmp_path / "allennlp" / "__init__.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not any(name.startswith("allennlp") for name in install_shims())
    import allennlp

    assert allennlp.real
    with pytest.raises(ModuleNotFoundError):
        import allennlp.commands.elmo
