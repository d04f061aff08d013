"""AllenNLP's door, by what the documentation of AllenNLP 0.9 says of `Elmo` and `ElmoEmbedder`.

Shapes, masks, empty sentences, zeros at padding, boundaries kept or not, gradients only where asked; and state dicts
in AllenNLP's layout, against the slow twin.
"""

import json
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
import twin
from archives import OPTIONS, PREFIX, state_dict
from bilm_files import as_float64, as_hdf5, as_json, random_weights, write_folder
from command import printed, run
from refusals import refusal, refused
from tiny import CONFIG, DIM, LAYERS, write_tiny
from torch import nn

from elmo.embedding.embedder import Embedder
from elmo.formats import published
from elmo.formats.cache import folder_of
from elmo.integrations.allennlp import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    Elmo,
    ElmoEmbedder,
    _ElmoBiLm,
    allennlp_state_dict,
    batch_to_ids,
)
from elmo.model.scalar_mix import ScalarMix

SENTENCES = [["The", "cat", "sat", "."], [], ["a"], ["zażółć", "東京"]]
LENGTHS = [4, 0, 1, 2]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("allennlp") / "model")


@pytest.fixture(scope="module")
def layers(files):
    """What our own embedder gives for SENTENCES: (N, T, D) each."""
    return Embedder.load(files[1]).embed(SENTENCES)


def represented(elmo: Elmo, sentences=SENTENCES):
    output = elmo.eval()(batch_to_ids(sentences))
    return [vectors.detach() for vectors in output["elmo_representations"]], output["mask"]


# Elmo


def test_elmo_gives_a_list_of_mixes_and_a_mask(files, layers):
    vectors, mask = represented(Elmo(*files, 2))
    assert [tuple(part.shape) for part in vectors] == [(4, 4, DIM)] * 2
    assert mask.dtype == torch.int64
    assert mask.tolist() == [[1] * length + [0] * (4 - length) for length in LENGTHS]
    for row, every in enumerate(layers):  # untrained mixes are averages
        np.testing.assert_allclose(vectors[0][row, : LENGTHS[row]], every.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_elmo_is_zero_at_padding(files, layer_norm, keep):
    elmo = Elmo(*files, 1, do_layer_norm=layer_norm, keep_sentence_boundaries=keep)
    (vectors,), mask = represented(elmo)
    assert mask.sum(dim=1).tolist() == [length + 2 * keep for length in LENGTHS]
    assert torch.all(vectors[mask == 0] == 0)
    assert torch.all(vectors[mask == 1].abs().sum(dim=-1) > 0)


def test_elmo_with_boundaries_has_the_same_tokens_inside(files):
    (without,), _ = represented(Elmo(*files, 1))
    (kept,), kept_mask = represented(Elmo(*files, 1, keep_sentence_boundaries=True))
    assert kept.shape == (4, 6, DIM)
    assert kept_mask.shape == (4, 6)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(kept[row, 1 : length + 1], without[row, :length])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_gradients_reach_the_bilm_only_where_asked(files, requires_grad):
    elmo = Elmo(*files, 2, requires_grad=requires_grad)
    output = elmo(batch_to_ids(SENTENCES))
    sum(vectors.square().sum() for vectors in output["elmo_representations"]).backward()
    of_bilm = [weight.grad is not None for name, weight in elmo.named_parameters() if "_elmo_lstm" in name]
    assert of_bilm
    assert all(of_bilm) if requires_grad else not any(of_bilm)
    mixes = {name: weight.grad for name, weight in elmo.named_parameters() if name.startswith("scalar_mix")}
    assert len(mixes) == 2 * (LAYERS + 1)
    assert all(gradient is not None for gradient in mixes.values())


def test_given_mix_parameters_are_used_before_the_softmax_and_stay(files, layers):
    elmo = Elmo(*files, 1, requires_grad=True, scalar_mix_parameters=[-9e10, 1, -9e10])
    (vectors,), _ = represented(elmo)
    np.testing.assert_allclose(vectors[0], layers[0][1], atol=1e-6)
    assert not any(weight.requires_grad for name, weight in elmo.named_parameters() if name.startswith("scalar_mix"))
    with refused("scalar_mix_parameters", "2 numbers", "3 layers"):
        Elmo(*files, 1, scalar_mix_parameters=[1.0, 2.0])


def test_a_replica_and_a_program_may_have_other_mixes(files, layers):
    elmo, top = Elmo(*files, 1), ScalarMix(LAYERS)
    top.scalars.data[-1] = 50
    copy = elmo._replicate_for_data_parallel()  # what nn.DataParallel makes; it then replaces the modules inside
    copy.scalar_mix_0 = top
    np.testing.assert_allclose(represented(copy)[0][0][0], layers[0][-1], atol=1e-6)
    np.testing.assert_allclose(represented(elmo)[0][0][0], layers[0].mean(axis=0), atol=1e-6)
    elmo.scalar_mix_0 = top
    np.testing.assert_allclose(represented(elmo)[0][0][0], layers[0][-1], atol=1e-6)


def test_dropout_is_for_training(files):
    elmo, char_ids = Elmo(*files, 1, dropout=0.5), batch_to_ids(SENTENCES)
    dropped = elmo.train()(char_ids)["elmo_representations"][0][0]
    assert 0 < (dropped == 0).float().mean() < 1
    first, second = (elmo.eval()(char_ids)["elmo_representations"][0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_more_axes_come_back(files):
    elmo = Elmo(*files, 1).eval()
    char_ids = batch_to_ids(SENTENCES).view(2, 2, 4, 50)
    output = elmo(char_ids)
    assert output["mask"].shape == (2, 2, 4)
    expected = elmo(char_ids.view(4, 4, 50))["elmo_representations"][0].view(2, 2, 4, DIM)
    torch.testing.assert_close(output["elmo_representations"][0], expected)


def test_a_module_takes_the_place_of_the_files(files):
    class Counted(nn.Module):
        num_layers = 2

        def forward(self, inputs, word_inputs=None):
            mask = torch.ones(len(inputs), inputs.shape[1] + 2, dtype=torch.long)
            return {"activations": [torch.full((*mask.shape, 3), number) for number in (1.0, 3.0)], "mask": mask}

    (vectors,), mask = represented(Elmo(None, None, 1, module=Counted()), [["a", "b"]])
    assert vectors.tolist() == [[[2.0] * 3] * 2]
    assert mask.tolist() == [[1, 1]]
    (bilm,), _ = represented(Elmo(None, None, 1, module=_ElmoBiLm(*files)))
    torch.testing.assert_close(bilm, represented(Elmo(*files, 1))[0][0])
    with refused("None"):
        Elmo(*files, 1, module=Counted())


def test_cached_words_are_given_by_number(files):
    words = ["@@PADDING@@", "@@UNKNOWN@@", "The", "cat", "sat", ".", "a"]
    sentences = [["The", "cat", "sat", "."], ["a"]]
    ids = torch.tensor([[2, 3, 4, 5], [6, 0, 0, 0]])
    elmo = Elmo(*files, 1, vocab_to_cache=words).eval()
    expected, mask = represented(Elmo(*files, 1), sentences)
    for output in (elmo(batch_to_ids(sentences), ids), elmo(ids), elmo(None, ids)):
        torch.testing.assert_close(output["elmo_representations"][0], expected[0])
        assert torch.equal(output["mask"], mask)
    higher = elmo(None, ids.view(1, 2, 4))
    assert higher["elmo_representations"][0].shape == (1, 2, 4, DIM)


def test_words_that_are_not_cached_are_read_by_their_characters(files):
    elmo = Elmo(*files, 1, vocab_to_cache=["@@PADDING@@", "The"]).eval()
    output = elmo(batch_to_ids([["The", "dog"]]), torch.tensor([[1, 7]]))
    torch.testing.assert_close(output["elmo_representations"][0], represented(Elmo(*files, 1), [["The", "dog"]])[0][0])
    with refused("vocab_to_cache"):
        elmo(None, torch.tensor([[1, 7]]))


def test_a_model_with_other_characters_cuts_words_as_it_was_trained(tmp_path):
    words = [["a" * length for length in (1, 16, 17, 18, 19, 20, 30, 60)]]
    for size in (20, 60):
        files = write_tiny(
            tmp_path / str(size), replace(CONFIG, char_cnn=replace(CONFIG.char_cnn, max_characters_per_token=size))
        )
        (expected,) = Embedder.load(files[1]).embed([[word[:48] for word in words[0]]], layers="average")
        (vectors,), _ = represented(Elmo(*files, 1), words)
        np.testing.assert_allclose(vectors[0], expected, atol=1e-6)


def test_the_two_files_may_lie_apart(files, tmp_path, layers):
    options = (tmp_path / "o.json").resolve()
    options.write_bytes(files[0].read_bytes())
    (vectors,), _ = represented(Elmo(str(options), str(files[1]), 1))
    np.testing.assert_allclose(vectors[0], layers[0].mean(axis=0), atol=1e-6)


def test_what_is_no_batch_of_characters_is_refused(files):
    with refused("float32", "batch_to_ids"):
        Elmo(*files, 1)(torch.zeros(2, 3, 50))
    with refused("(2, 3)", "(B, T, 50)", "batch_to_ids"):
        Elmo(*files, 1)(torch.ones(2, 3, dtype=torch.long))


# State


def test_a_sentence_has_the_same_vectors_in_every_call_unless_state_is_carried(files):
    char_ids = batch_to_ids(SENTENCES)
    elmo = Elmo(*files, 1).eval()
    first, second = (elmo(char_ids)["elmo_representations"][0] for _ in range(2))
    assert torch.equal(first, second)
    carried = Elmo(*files, 1, state="carry").eval()
    outputs = [carried(char_ids)["elmo_representations"][0] for _ in range(2)]
    torch.testing.assert_close(outputs[0], first)
    assert not torch.allclose(outputs[1], first)
    carried._elmo_lstm._elmo_lstm.reset_states()
    torch.testing.assert_close(carried(char_ids)["elmo_representations"][0], first)


def test_state_is_that_of_the_row_whatever_the_size_of_the_batch(files):
    batches = [[["a", "b"], ["c"]], [["d"]], [["e"], ["f", "g"], ["h"]]]
    carried = ElmoEmbedder(*files, state="carry")
    for batch in batches:
        last = carried.embed_batch(batch)
    bilm = Embedder.load(files[1], state="carry", batch_size=1, keep_state=True)
    rows = [["a", "b"], ["d"], ["e"]]  # what row 0 has read
    np.testing.assert_allclose(last[0], [bilm.embed([row]) for row in rows][-1][0], atol=1e-6)
    bilm.reset_state()
    np.testing.assert_allclose(last[1], [bilm.embed([row]) for row in (["c"], ["f", "g"])][-1][0], atol=1e-6)
    bilm.reset_state()
    np.testing.assert_allclose(last[2], bilm.embed([["h"]])[0], atol=1e-6)


# State dicts


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The files of a model with other weights than those of the state dict, and of its shapes."""
    files = {"options.json": as_json(OPTIONS), "weights.hdf5": as_hdf5(random_weights(OPTIONS, 1))}
    folder = write_folder(tmp_path_factory.mktemp("other"), files)
    return [folder / name for name in files]


def allennlp_state() -> dict[str, torch.Tensor]:
    """What AllenNLP's `Elmo` saves of the weights that `by_twin` reads."""
    state = state_dict(random_weights(OPTIONS, 4))
    return {name.removeprefix(PREFIX): weight for name, weight in state.items() if name.startswith(PREFIX)}


def by_twin(words: list[str]) -> np.ndarray:
    """The mix of a sentence (T, D) by the equations of the paper."""
    layers = twin.layers(words, OPTIONS, as_float64(random_weights(OPTIONS, 4)))[:, 1:-1]
    weights = np.exp([0.0, 0.3, 0.6])
    return 1.5 * np.einsum("n,ntd->td", weights / weights.sum(), layers)


def test_a_state_dict_of_allennlp_loads_and_gives_what_the_equations_give(other):
    state = allennlp_state()
    elmo = Elmo(*other, 1)
    elmo.load_state_dict(state)
    assert "scalar_mix_0.scalar_parameters.0" in state  # the caller's dictionary is as it was
    (vectors,), _ = represented(elmo, [["The", "cat", "sat"]])
    np.testing.assert_allclose(vectors[0], by_twin(["The", "cat", "sat"]), atol=1e-5)


def test_a_state_dict_of_a_network_around_it_loads_as_do_our_own_and_an_exported_one(other):
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.elmo = Elmo(*other, 1)
            self.out = nn.Linear(DIM, 2)

    tagger = Tagger()
    theirs = {f"elmo.{name}": tensor for name, tensor in allennlp_state().items()}
    theirs |= {f"out.{name}": tensor for name, tensor in tagger.out.state_dict().items()}
    tagger.load_state_dict(dict(theirs))
    exported = allennlp_state_dict(tagger)
    assert exported.keys() == theirs.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(exported[name], weight, atol=1e-6, rtol=0)
    for state in (tagger.state_dict(), exported):
        copy = Tagger()
        copy.load_state_dict(state)
        (vectors,), _ = represented(copy.elmo, [["a", "b"]])
        np.testing.assert_allclose(vectors[0], by_twin(["a", "b"]), atol=1e-5)


def test_a_state_dict_that_does_not_fit_is_refused(other):
    state = allennlp_state()
    del state["_elmo_lstm._elmo_lstm.backward_layer_1.state_linearity.bias"]
    with refused("backward_layer_1.state_linearity.bias", "options"):
        Elmo(*other, 1).load_state_dict(state)
    state = allennlp_state()
    del state["scalar_mix_0.gamma"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"scalar_mix_0\.gamma"'):
        Elmo(*other, 1).load_state_dict(state)


# ElmoEmbedder


def test_a_gpu_that_is_not_there_is_one_line(tmp_path):
    """Said before the weights are read."""
    for device, said in ((99, "'cuda:99'"), (-9, "cuda_device is -9")):
        with refused(said):
            ElmoEmbedder(str(tmp_path / "no.json"), str(tmp_path / "no.hdf5"), cuda_device=device)


def test_embedder_takes_no_tokens_and_sentences_without_end(files, layers):
    embedder = ElmoEmbedder(options_file=str(files[0]), weight_file=str(files[1]), cuda_device=-1)
    assert embedder.embed_sentence([]).shape == (LAYERS, 0, DIM)
    assert embedder.embed_batch([[]])[0].shape == (LAYERS, 0, DIM)
    endless = (SENTENCES[number % 4] for number in range(1 << 60))
    stream = embedder.embed_sentences(endless, batch_size=3)
    for expected in [*layers, *layers]:
        np.testing.assert_allclose(next(stream), expected, atol=1e-6)


def test_embedder_gives_a_batch_as_tensors(files, layers):
    vectors, mask = ElmoEmbedder(*files).batch_to_embeddings(SENTENCES)
    assert vectors.shape == (4, LAYERS, 4, DIM)
    assert mask.sum(dim=1).tolist() == LENGTHS
    assert torch.all(vectors.transpose(1, 2)[mask == 0] == 0)
    np.testing.assert_allclose(vectors[3, :, :2], layers[3], atol=1e-6)


def test_embedder_can_be_pickled_with_its_weights(files, layers):
    embedder = ElmoEmbedder(*files)
    embedder.embed_batch(SENTENCES)
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_allclose(again.embed_sentence(SENTENCES[0]), layers[0], atol=1e-6)


def test_embedder_uses_weights_that_are_loaded_or_trained_later(files):
    embedder = ElmoEmbedder(*files)
    for change in (
        lambda: embedder.elmo_bilm.load_state_dict({k: w * 0.5 for k, w in embedder.elmo_bilm.state_dict().items()}),
        lambda: embedder.elmo_bilm.requires_grad_(False).bilm.token_encoder.embedding.mul_(2),
    ):
        before = embedder.embed_sentence(SENTENCES[0])
        change()
        expected = embedder.batch_to_embeddings(SENTENCES[:1])[0][0]
        after = embedder.embed_sentence(SENTENCES[0])
        np.testing.assert_allclose(after, expected, atol=1e-6)
        assert not np.allclose(after, before, atol=1e-6)


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_iterators_are_sentences_and_batches(files, layers, state):
    embedder = ElmoEmbedder(*files, state=state)
    for expected, vectors in zip(layers, embedder.embed_batch(map(iter, SENTENCES)), strict=True):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    embedder.elmo_bilm._elmo_lstm.reset_states()
    np.testing.assert_allclose(embedder.embed_sentence(iter(SENTENCES[0])), layers[0], atol=1e-6)
    embedder.elmo_bilm._elmo_lstm.reset_states()
    for expected, vectors in zip(layers, embedder.embed_sentences(map(iter, SENTENCES), 9), strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_strings_are_refused(files, tmp_path):
    with refused("sentence 0", "string"):
        ElmoEmbedder(*files).embed_batch(["The cat sat ."])
    with refused("sentence 0", "string"):
        ElmoEmbedder(*files).embed_sentence("The cat sat .")
    with refused("'The cat sat .'", "split"):
        next(ElmoEmbedder(*files).embed_sentences("The cat sat ."))
    with refused("sentences.txt", "open"):
        ElmoEmbedder(*files).embed_file("sentences.txt", tmp_path / "v.hdf5")
    assert list(tmp_path.iterdir()) == []


def test_the_published_address_is_the_default_and_no_network_is_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    assert DEFAULT_WEIGHT_FILE.endswith("2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5")
    with pytest.raises(FileNotFoundError, match="elmo_2x4096_512_2048cnn_2xhighway_"):
        ElmoEmbedder()


def test_a_published_address_is_its_copy_in_the_cache(files, monkeypatch, tmp_path):
    """What Flair and other programs pass; nothing is downloaded."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    for address, file in zip((DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE), files, strict=True):
        found = published.find_file(address)
        assert found is not None
        copy = folder_of(found[0]) / address.rpartition("/")[2]
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    by_default, by_path = ElmoEmbedder(), ElmoEmbedder(*files)
    np.testing.assert_array_equal(by_default.embed_sentence(["a"]), by_path.embed_sentence(["a"]))
    assert Elmo(DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE.rpartition("/")[2], 1).get_output_dim() == DIM


# Files, and the command


LINES = ["The cat sat .", "", "a / b", "The cat sat ."]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file_writes_the_layout_of_allennlp(files, text, tmp_path, output_format):
    embedder, path = ElmoEmbedder(*files), tmp_path / "v.hdf5"
    path.write_bytes(b"old")
    with text.open(encoding="utf-8") as lines:
        embedder.embed_file(lines, str(path), output_format)
    pick = {"all": lambda every: every, "top": lambda every: every[-1], "average": lambda every: every.mean(axis=0)}
    with h5py.File(path) as file:
        assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
        for row, line in enumerate(LINES):
            expected = pick[output_format](embedder.embed_sentence(line.split()))
            np.testing.assert_allclose(file[str(row)], expected, atol=1e-6)
            assert file[str(row)].dtype == np.float32
        assert json.loads(file["sentence_to_index"][0]) == {"The cat sat .": "3", "": "1", "a / b": "2"}


def test_embed_file_replaces_no_file_of_its_model(files, text):
    with refused(files[1], "input"), text.open(encoding="utf-8") as lines:
        ElmoEmbedder(*files).embed_file(lines, files[1])


def test_embed_file_may_forget_sentences_or_take_them_for_keys(files, text, tmp_path):
    embedder, path = ElmoEmbedder(*files), tmp_path / "v.hdf5"
    with text.open(encoding="utf-8") as lines:
        embedder.embed_file(lines, path, forget_sentences=True)
    with h5py.File(path) as file:
        assert set(file) == {"0", "1", "2", "3"}
    embedder.embed_file(iter(["one line\n", "another .\n", "a / b\n"]), path, "top", use_sentence_keys=True)
    with h5py.File(path) as file:
        assert file["another ."].shape == (2, DIM)
        assert file["a / b"].shape == (3, DIM)
        assert "sentence_to_index" not in file
    with text.open(encoding="utf-8") as lines, refused("line 1", "key"):
        embedder.embed_file(lines, path, use_sentence_keys=True)
    with refused("batch_size is 0"):
        embedder.embed_file(iter(["a\n"]), path, batch_size=0)
    for lines in (["and\n", "and/or\n"], ["a\x00b\n"]):
        with refused("key", "line numbers"):
            embedder.embed_file(iter(lines), path, use_sentence_keys=True)


def test_command_takes_the_flags_of_allennlp(files, text, tmp_path):
    path = tmp_path / "v.hdf5"
    model = ("--options-file", files[0], "--weight-file", files[1])
    printed("allennlp", text, path, "--average", *model, "--batch-size", 2, "--cuda-device", -1)
    with h5py.File(path) as file:
        assert file["0"].shape == (4, DIM)
        assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
    refusal(run("allennlp", text, path, "--average", *model), path, "exists", "--overwrite")
    printed("allennlp", text, path, "--all", *model, "--forget-sentences", "--overwrite")
    assert run("allennlp", text, path, *model).returncode == 2  # one of --all, --top, --average is needed


@pytest.mark.shared
def test_carry_gives_what_the_original_program_gave(shared):
    """The fixture of AllenNLP: batches of 3, top layer, from TensorFlow."""
    fixture = shared / "elmo" / "allennlp_fixture"
    lists = [[s.split() for s in part] for part in json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))]
    embedder = ElmoEmbedder(fixture / "options.json", fixture / "lm_weights.hdf5", state="carry")
    for i, batch in enumerate(zip(*lists, strict=True)):
        for k, vectors in enumerate(embedder.embed_batch(batch)):
            with h5py.File(fixture / f"lm_embeddings_{k}.hdf5") as file:
                np.testing.assert_allclose(vectors[2], np.concatenate(file[str(i)], axis=-1), rtol=0, atol=1e-5)
