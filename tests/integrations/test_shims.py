"""Programs written for older packages run unchanged: what their READMEs say, the names, and `python -m elmo.shims`.

Every test imports by the old names, as a program does. Flair and Stanza are tried as docs/migration.md shows them.
"""

import abc
import json
import os
import pickle
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import typechecker
from allennlp_pipeline import remove_stand_ins
from places import ROOT
from refusals import names, refused
from tiny import DIM, LAYERS, tiny_model, write_tiny
from torch import nn

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.formats.stored import Model
from elmo.integrations import install_shims, originals
from elmo.model.lm_head import LmHead
from elmo.pretraining.scoring import Scorer
from elmo.text.vocabulary import Vocabulary

SENTENCES = [["The", "cat", "sat", "."], ["a"], ["zażółć", "東京"], []]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[str, str]:
    options, weights = write_tiny(tmp_path_factory.mktemp("shims") / "model")
    return str(options), str(weights)


@pytest.fixture(scope="module")
def every(files):
    return Embedder.load(files[1]).embed(SENTENCES)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.setattr(originals, "CHOSEN", originals.Originals())
    install_shims()
    yield
    remove_stand_ins()


def test_mixes_have_allennlps_parameters(files, every):
    from allennlp.modules import Elmo, ScalarMix
    from allennlp.modules.elmo import batch_to_ids

    elmo = Elmo(*files, 2, dropout=0.0)
    mix = elmo.scalar_mix_0
    assert isinstance(mix, ScalarMix)
    assert elmo._scalar_mixes == [elmo.scalar_mix_0, elmo.scalar_mix_1]
    assert [parameter.shape for parameter in mix.scalar_parameters] == [(1,)] * LAYERS
    assert mix.gamma.shape == (1,)
    for parameter, value in zip(mix.scalar_parameters, (-9e9, 3.0, -9e9), strict=True):
        parameter.data.fill_(value)
    mix.gamma.data[0] = 2.0
    vectors = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].detach()
    np.testing.assert_allclose(vectors[0], 2 * every[0][1], atol=1e-6)
    weights = torch.softmax(torch.cat([parameter.data for parameter in mix.scalar_parameters]), 0)
    assert weights.tolist() == [0, 1, 0]


def test_a_mix_of_a_list_of_any_shape(files):
    from allennlp.common.checks import ConfigurationError
    from allennlp.modules.scalar_mix import ScalarMix

    mix = ScalarMix(2, initial_scalar_parameters=[0.0, 0.0], trainable=False)
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    torch.testing.assert_close(mix([torch.ones(3, 4), torch.zeros(3, 4)]), torch.full((3, 4), 0.5))
    with pytest.raises(ConfigurationError, match="3 tensors"):
        mix([torch.ones(1)] * 3)
    layers = [torch.randn(2, 3, 4) for _ in range(2)]
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    mixed = ScalarMix(2, do_layer_norm=True)(layers, mask)[mask == 1]
    inside = [layer[mask == 1] for layer in layers]
    expected = sum((numbers - numbers.mean()) / numbers.std(unbiased=False) for numbers in inside) / 2
    torch.testing.assert_close(mixed, expected, atol=1e-5, rtol=0)


def test_the_character_encoder_gives_layer_0(files, every):
    from allennlp.data import Token, Vocabulary
    from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
    from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
    from allennlp.modules.elmo import _ElmoBiLm, _ElmoCharacterEncoder
    from allennlp.nn.util import remove_sentence_boundaries

    indexer = ELMoTokenCharactersIndexer()
    ids = indexer.tokens_to_indices([Token(word) for word in SENTENCES[0]], Vocabulary(), "words")["words"]
    assert ids == [ELMoCharacterMapper().convert_word_to_char_ids(word) for word in SENTENCES[0]]
    padded = indexer.as_padded_tensor({"words": ids}, {"words": 6}, {})["words"]
    assert torch.equal(padded, indexer.as_padded_tensor_dict({"elmo_tokens": ids}, {"elmo_tokens": 6})["elmo_tokens"])
    bilm = _ElmoBiLm(*files)
    for encoder in (_ElmoCharacterEncoder(*files), bilm._token_embedder):
        output = encoder(padded[None])
        assert encoder.get_output_dim() == DIM // 2
        assert output["mask"].sum() == 6
        vectors, mask = remove_sentence_boundaries(output["token_embedding"], output["mask"])
        assert mask.tolist() == [[1, 1, 1, 1, 0, 0]]
        np.testing.assert_allclose(vectors[0, :4].detach(), every[0][0][:, : DIM // 2], atol=1e-6)
    weights = {name: weight.data_ptr() for name, weight in bilm._token_embedder.named_parameters()}
    assert weights["token_encoder.embedding"] == bilm.bilm.token_encoder.embedding.data_ptr()  # not a copy


def test_an_added_token_has_the_character_that_stands_for_it():
    from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper

    mapper = ELMoCharacterMapper({"<first>": 1})
    assert mapper.convert_word_to_char_ids("<first>")[:4] == [259, 2, 260, 261]
    assert mapper == ELMoCharacterMapper({"<first>": 1}) != ELMoCharacterMapper()


@pytest.mark.parametrize("way", ["stateful", "reset_states", "_states"])
def test_the_state_is_found_among_the_modules(files, way):
    from allennlp.modules.elmo import Elmo, batch_to_ids

    install_shims(state="carry")
    elmo, ids = Elmo(*files, 1).eval(), batch_to_ids(SENTENCES)
    first, second = (elmo(ids)["elmo_representations"][0] for _ in range(2))
    assert not torch.allclose(first, second)
    (memory,) = [module for module in elmo.modules() if hasattr(module, "stateful")]
    if way == "stateful":
        memory.stateful = False
    elif way == "reset_states":
        memory.reset_states()
    else:
        elmo._elmo_lstm._elmo_lstm._states = None
    torch.testing.assert_close(elmo(ids)["elmo_representations"][0], first)


def test_the_lstm_has_its_sizes(files):
    from allennlp.modules.elmo import _ElmoBiLm

    lstm = _ElmoBiLm(*files)._elmo_lstm
    assert (lstm.input_size, lstm.hidden_size, lstm.cell_size, lstm.num_layers) == (DIM // 2, DIM // 2, 6, LAYERS - 1)


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_an_embedder_trains_the_bilm_if_the_program_lets_it(files, state):
    from allennlp.commands.elmo import ElmoEmbedder

    install_shims(state=state)
    embedder = ElmoEmbedder(*files)
    assert not embedder.batch_to_embeddings(SENTENCES)[0].requires_grad
    embedder.elmo_bilm.requires_grad_(True)
    vectors, _ = embedder.batch_to_embeddings(SENTENCES)
    vectors.square().sum().backward()
    assert all(weight.grad is not None for weight in embedder.elmo_bilm.parameters())
    assert [array.shape[1] for array in embedder.embed_batch(SENTENCES)] == [4, 1, 2, 0]
    assert embedder.embed_batch([]) == []


@pytest.mark.parametrize(
    ("version", "kind"), [("0.9", torch.int64), ("0.8.5", torch.int64), ("1", torch.bool), ("2.10.1", torch.bool)]
)
def test_masks_have_the_type_of_the_version(files, version, kind):
    from allennlp.modules.elmo import Elmo, _ElmoBiLm, batch_to_ids
    from allennlp.nn.util import remove_sentence_boundaries

    install_shims(allennlp=version)
    elmo, ids = Elmo(*files, 1), batch_to_ids(SENTENCES)
    output = elmo(ids)
    assert output["mask"].dtype == kind
    assert _ElmoBiLm(*files)(ids)["mask"].dtype == kind
    encoded = elmo._elmo_lstm._token_embedder(ids)
    assert encoded["mask"].dtype == kind
    assert remove_sentence_boundaries(encoded["token_embedding"], encoded["mask"])[1].dtype == kind
    if kind == torch.bool:
        assert len(output["elmo_representations"][0][output["mask"]]) == sum(map(len, SENTENCES))
    assert Elmo(*files, 1, allennlp="0.9")(ids)["mask"].dtype == torch.int64


@pytest.mark.parametrize("version", ["two", "3"])
def test_unknown_versions_are_refused_and_change_nothing(version):
    with refused(version):
        install_shims(state="carry", allennlp=version)
    assert originals.CHOSEN.state == "reset"


def test_token_embedder(files):
    from allennlp.modules.elmo import batch_to_ids
    from allennlp.modules.token_embedders import ElmoTokenEmbedder

    embedder = ElmoTokenEmbedder(*files, projection_dim=5)
    assert embedder(batch_to_ids(SENTENCES)).shape == (4, 4, 5)
    assert embedder.get_output_dim() == 5
    assert ElmoTokenEmbedder(*files).get_output_dim() == DIM


def test_cached_path_is_the_file_here_and_downloads_nothing(files, monkeypatch, tmp_path):
    from allennlp.commands.elmo import DEFAULT_OPTIONS_FILE
    from allennlp.common.file_utils import cached_path

    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    assert cached_path(files[0]) == files[0]
    with pytest.raises(FileNotFoundError, match="elmo pull"):
        cached_path(DEFAULT_OPTIONS_FILE)
    with pytest.raises(FileNotFoundError):
        cached_path(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "code",
    [
        "import allennlp.predictors",
        "from allennlp import predictors",
        "from allennlp.modules import Seq2VecEncoder",
        "from allennlp.modules.elmo import Nothing",
        "from elmoformanylangs import Nothing",
        "from simple_elmo.data import Batcher",
        "from bilm import TokenBatcher",
        "import allennlp; allennlp.training",
        "import simple_elmo; simple_elmo.ElmoModel().batcher",
        "from allennlp.modules.elmo import Elmo; Elmo(*files, 1).text_field_embedder",
        "from allennlp.modules.elmo import _ElmoBiLm; _ElmoBiLm(*files)._bos_embedding",
        "from allennlp.commands.elmo import ElmoEmbedder; ElmoEmbedder(*files).warm_up",
        "from elmoformanylangs import Embedder; Embedder(files[1]).get_model()",
        "from allennlp.modules.elmo import Elmo; Elmo.from_params({})",
        "from allennlp.commands.elmo import ElmoEmbedder; ElmoEmbedder.from_params({})",
        "from elmoformanylangs import Embedder; Embedder.from_params({})",
        "from simple_elmo import ElmoModel; ElmoModel.from_params({})",
    ],
)
def test_another_name_says_that_this_is_a_stand_in_and_what_it_has(files, code):
    with pytest.raises((ImportError, AttributeError), match=r"stand-in and has no .*; it has \w+") as caught:
        exec(code, {"files": files})
    assert "\n" not in str(caught.value)


def test_a_stand_in_may_be_a_base_beside_an_abstract_class(files):
    from allennlp.modules.elmo import Elmo

    class Encoder(Elmo, abc.ABC):
        @abc.abstractmethod
        def size(self) -> int: ...

    class Whole(Encoder):
        def size(self) -> int:
            return self.get_output_dim()

    assert Whole(*files, 1).size() == DIM
    with pytest.raises(TypeError, match="abstract"):
        Encoder(*files, 1)  # type: ignore[abstract]


def test_absent_names_are_absent_as_python_has_it(files):
    """Pickling, and programs that ask whether a name is there, look into all modules."""
    import allennlp
    from allennlp.modules import Elmo

    assert not hasattr(allennlp, "training")
    assert not hasattr(Elmo(*files, 1), "training_step")
    assert pickle.loads(pickle.dumps(Elmo(*files, 1))).get_output_dim() == DIM


# bilm-tf


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_dump_bilm_embeddings(files, tmp_path, state):
    from bilm import dump_bilm_embeddings

    install_shims(state=state)
    lines = [["one", "two"], ["three"], ["one", "two"]]
    (tmp_path / "text").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    dump_bilm_embeddings("vocab.txt", tmp_path / "text", *files, tmp_path / "out.hdf5")
    expected = Embedder.load(files[1], state=state, batch_size=1).embed(lines)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "2"}
        written = [np.asarray(file[str(number)]) for number in range(3)]
    for found, vectors in zip(written, expected, strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-6)
    assert (state == "carry") == (not np.allclose(written[0], written[2]))


# ELMoForManyLangs


def test_many_langs_has_the_originals_attributes(files, monkeypatch):
    from elmoformanylangs.elmo import Embedder as ManyLangs

    embedder = ManyLangs(files[1], batch_size=7)
    assert (embedder.model_dir, embedder.batch_size, embedder.use_cuda) == (files[1], 7, torch.cuda.is_available())
    assert embedder.config["encoder"]["projection_dim"] == DIM // 2
    assert isinstance(embedder.model, nn.Module)
    assert embedder.char_lexicon is None
    monkeypatch.setattr(typechecker, "CHECKED", -1)  # a user's program is not checked
    wrong: list[Any] = [3, -3, [0, 1], "top", 1.0]
    for layer in wrong:
        with refused("output_layer is", layer, "-2 (all)"):
            embedder.sents2elmo([["a"]], layer)
    with refused("is the string", "'a text'"):
        embedder.sents2elmo(["a text"])


@pytest.mark.parametrize("given", [{}, *({"output_layer": layer} for layer in (-1, -2, 0, 1, 2))], ids=str)
def test_sents2elmo_gives_the_layer_that_is_asked_for_and_repeats_itself(files, every, given):
    from elmoformanylangs import Embedder as ManyLangs

    embedder = ManyLangs(files[1], batch_size=2)
    first, second = embedder.sents2elmo(SENTENCES, **given), embedder.sents2elmo(SENTENCES, **given)
    layer = given.get("output_layer", -1)
    for one, other, layers in zip(first, second, every, strict=True):
        expected = layers.mean(axis=0) if layer == -1 else layers if layer == -2 else layers[layer]
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, expected, atol=1e-6)
    assert embedder.sents2elmo([]) == []


def test_many_langs_carries_state_from_batch_to_batch_in_a_drawn_order(files, monkeypatch):
    """By length, the longest first, in batches that `random` orders; row i from row i of the batch before."""
    from elmoformanylangs import Embedder as ManyLangs

    sentences = [["a"], ["b", "c", "d"], ["e", "f"], ["g", "h"], ["i", "j", "k", "l"]]
    batches = [[4, 1], [2, 3], [0]]
    drawn = [1, 2, 0]
    # Not `random.seed`: the checker of annotations draws from `random`, too.
    monkeypatch.setattr(random, "shuffle", lambda items: items.__setitem__(slice(None), [items[i] for i in drawn]))
    random.shuffle(batches)
    found = ManyLangs(files[1], 2, state="carry").sents2elmo(sentences, -2)
    assert [len(layers[0]) for layers in found] == [1, 3, 2, 2, 4]
    for place in range(2):  # each row's sentences are one long reading
        alone = Embedder.load(files[1], state="carry", batch_size=1)
        rows = [batch[place] for batch in batches if len(batch) > place]
        for row, expected in zip(rows, alone.embed([sentences[row] for row in rows]), strict=True):
            np.testing.assert_allclose(found[row], expected, atol=1e-6)


# simple_elmo


@pytest.fixture
def model(files):
    from simple_elmo import ElmoModel

    model = ElmoModel()
    model.load(files[1])
    return model


def test_get_elmo_vectors_is_one_array_with_zeros_after_a_sentence(model, every):
    vectors, of_all = model.get_elmo_vectors(SENTENCES), model.get_elmo_vectors(SENTENCES, layers="all")
    assert (vectors.shape, of_all.shape) == ((4, 4, DIM), (4, LAYERS, 4, DIM))
    for row, of_row, layers in zip(vectors, of_all, every, strict=True):
        tokens = layers.shape[1]
        np.testing.assert_allclose(row[:tokens], layers.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(of_row[:, :tokens], layers, atol=1e-6)
        assert not row[tokens:].any()
    np.testing.assert_allclose(model.get_elmo_vectors(SENTENCES, layers="top")[0], every[0][-1], atol=1e-6)
    assert model.get_elmo_vectors([]).shape == (0, 0, DIM)


def test_averages_count_no_padding(model, every):
    means, of_all = model.get_elmo_vector_average(SENTENCES), model.get_elmo_vector_average(SENTENCES, layers="all")
    assert (means.shape, of_all.shape) == ((4, DIM), (4, LAYERS, DIM))
    np.testing.assert_allclose(means[1], model.get_elmo_vector_average([SENTENCES[1]])[0], atol=1e-6)
    for seen, mean in ((means[1], every[1].mean(axis=(0, 1))), (of_all[1], every[1].mean(axis=1))):
        np.testing.assert_allclose(seen, mean / np.linalg.norm(mean), atol=1e-6)
    assert not means[3].any(), "of an empty sentence"


def test_simple_elmo_says_what_is_missing_or_wrong(model):
    with refused("load(path)"):
        type(model)().get_elmo_vectors(SENTENCES)
    with refused("layers is 'concat'"):
        model.get_elmo_vectors(SENTENCES, layers="concat")
    with refused("is the string", "'a text'"):
        model.get_elmo_vectors(["a text"])


def test_simple_elmo_loads_as_it_did(files):
    from simple_elmo import ElmoModel
    from simple_elmo.elmo import ElmoModel as SameModel

    assert ElmoModel is SameModel
    model = ElmoModel()
    assert isinstance(model.load(files[1], max_batch_size=2), str)
    assert (model.batch_size, model.max_chars, model.vector_size, model.n_layers) == (2, 50, DIM, LAYERS)
    assert model.get_elmo_vectors(SENTENCES).dtype == np.float64
    assert model.get_elmo_vector_average(SENTENCES).dtype == np.float64


@pytest.mark.parametrize("top", [False, True])
def test_simple_elmo_chooses_layers_as_its_first_versions_did(files, top):
    from simple_elmo import ElmoModel

    model = ElmoModel()
    model.load(files[1], top=top, limit=50)
    named = "top" if top else "average"
    np.testing.assert_array_equal(model.get_elmo_vectors(SENTENCES), model.get_elmo_vectors(SENTENCES, layers=named))
    means = model.get_elmo_vector_average(SENTENCES)
    np.testing.assert_array_equal(means, model.get_elmo_vector_average(SENTENCES, layers=named))
    assert np.allclose(means, model.get_elmo_vector_average(SENTENCES, layers="average")) != top


@pytest.mark.parametrize("warmup", [False, True])
def test_simple_elmo_warms_up_and_carries_state(files, warmup):
    from simple_elmo import ElmoModel

    install_shims(state="carry")
    texts = [["a", "b"], ["c"], ["d", "e"], ["f"], ["g"]]
    model = ElmoModel()
    model.load(files[1], max_batch_size=2)
    first, again = (model.get_elmo_vectors(texts, warmup=warmup, layers="top") for _ in range(2))
    np.testing.assert_array_equal(first, again)  # every call begins at zero
    before = [texts[:2]] if warmup else []
    reader = Embedder.load(files[1], state="carry", batch_size=2, keep_state=True)
    for batch in before:
        reader.embed(batch)
    for row, expected in zip(first, reader.embed(texts, "top"), strict=True):
        np.testing.assert_allclose(row[: len(expected)], expected, atol=1e-6)
    continued = model.get_elmo_vectors(texts, warmup=warmup, layers="top", session=object())
    assert not np.allclose(continued, first)


def test_simple_elmo_gives_substitutes(tmp_path, files):
    from simple_elmo import ElmoModel

    tiny = tiny_model()
    words = ("<S>", "</S>", "<UNK>", "cat", "dog", "sat", "the")
    head = {name: torch.randn(weight.shape) for name, weight in LmHead(7, DIM // 2).state_dict().items()}
    model = Model(tiny.config, tiny.weights, lm_head=head, vocabulary=Vocabulary(words))
    formats.native.save(model, tmp_path / "model")
    simple = ElmoModel()
    simple.load(str(tmp_path / "model"), full=True)
    found = simple.get_elmo_substitutes(["the cat sat", ["dog"], ""], topn=2)
    assert [[row["word"] for row in sentence] for sentence in found] == [["the", "cat", "sat"], ["dog"], []]
    scorer = Scorer(formats.load(tmp_path / "model"))
    for side in ("forward", "backward"):
        best = scorer.substitutes(["the", "cat", "sat"], 1, 2, side)
        row = found[0][1][side]
        assert row["candidate_words"] == [each.word for each in best]
        assert row["candidates"] == [words.index(each.word) for each in best]
        np.testing.assert_allclose(row["logp"], [each.log_probability for each in best], atol=1e-4)
    simple.load(files[1])
    with refused("softmax"):
        simple.get_elmo_substitutes(["the cat sat"])


# What is registered


def test_dead_names_are_registered_on_request():
    remove_stand_ins()
    dead = ("allennlp", "elmoformanylangs", "simple_elmo")
    assert all(find_spec(name) is None for name in dead)
    registered = {"allennlp.commands.elmo", "allennlp.modules.elmo", "bilm", "elmoformanylangs", "simple_elmo"}
    assert registered <= set(install_shims())
    assert install_shims() == []
    assert all(find_spec(name) is not None for name in dead), "programs ask this way whether a package is there"


def test_an_installed_package_is_left_alone(tmp_path, monkeypatch):
    remove_stand_ins()
    (tmp_path / "allennlp").mkdir()
    (tmp_path / "allennlp" / "__init__.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not any(name.startswith("allennlp") for name in install_shims())
    import allennlp

    assert allennlp.real
    with pytest.raises(ModuleNotFoundError):
        import allennlp.commands.elmo


# python -m elmo.shims

PROGRAM = """
import json, sys
import numpy as np
from helper import SENTENCES
from allennlp.modules.elmo import Elmo, batch_to_ids
from simple_elmo import ElmoModel
assert __name__ == "__main__" and sys.argv[0] == __file__, (sys.argv, __file__)
elmo = Elmo(sys.argv[1], sys.argv[2], 1, dropout=0.0).eval()
first, second = (elmo(batch_to_ids(SENTENCES)) for _ in range(2))
same = bool(np.allclose(*(output["elmo_representations"][0].detach().numpy() for output in (first, second))))
print(json.dumps([same, str(second["mask"].dtype), ElmoModel().state, sys.argv[3:]]))
"""


def shims(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "elmo.shims", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, check=False)


def test_a_program_runs_unchanged(files, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(f"SENTENCES = {SENTENCES!r}\n")
    plain = shims(str(tmp_path / "program.py"), *files, "--state", "its own")
    assert plain.returncode == 0, plain.stderr
    assert json.loads(plain.stdout) == [True, "torch.int64", "reset", ["--state", "its own"]]
    options = ("--state", "carry", "--allennlp", "2", "-m", "program", *files)
    carried = shims(*options, cwd=tmp_path)
    assert carried.returncode == 0, carried.stderr
    assert json.loads(carried.stdout) == [False, "torch.bool", "carry", []]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["no-such.py"], "no-such.py"),
        (["."], "Python file"),
        (["-m", "no_such.module"], "no_such.module"),
        (["--allennlp", "x", "no-such.py"], "'x'"),
        (["-m", "elmoformanylangs", "test"], "migration"),
        ([], "program"),
        (["--state", "kept", "no-such.py"], "reset"),
        (["--states", "no-such.py"], "--help"),
    ],
)
def test_what_cannot_run_is_one_line(arguments, word):
    done = shims(*arguments)
    assert done.returncode == 2
    names(done.stderr.removesuffix("\n"), word)
