"""The native folder: what is written is read, and what does not fit is said in one line."""

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from places import DATA
from refusals import refused
from safetensors.torch import load_file, save_file
from tiny import CONFIG, tiny_model

from elmo import formats
from elmo.config import MOST_LAYERS
from elmo.errors import InputError
from elmo.formats import Mix, Model, allennlp, native, native_weights
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.lstm import LstmConfig
from elmo.text.batching import to_batch
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary


def model() -> Model:
    """Returns a model with all that a model can have, and other weights at every call."""
    return Model(
        CONFIG,
        BiLM(CONFIG).state_dict(),
        {"weight": torch.randn(5, 4), "bias": torch.randn(5)},
        Vocabulary((*SPECIAL, "the", "naïve")),
        TextConfig(language="fr"),
        {"corpus": "none"},
        (Mix("ner", (0.1, 0.2, 0.3), 1.0),),
    )


def saved(folder: Path) -> Path:
    native.save(model(), folder / "model")
    return folder / "model"


def change_config(folder: Path, **changes: object) -> None:
    file = folder / native.CONFIG
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_native_load_gives_what_was_saved(tmp_path):
    before = model()
    native.save(before, tmp_path / "model")
    after = formats.load(tmp_path / "model")
    assert replace(after, weights={}, lm_head=None) == replace(before, weights={}, lm_head=None)
    for old, new in ((before.weights, after.weights), (before.lm_head, after.lm_head)):
        assert old.keys() == new.keys()
        assert all(torch.equal(old[name], new[name]) for name in old)
    assert len({file.stat().st_mode for file in (tmp_path / "model").iterdir()}) == 1, "who reads one, reads all"


def test_native_float16_is_half_as_large_and_loads_as_float32(tmp_path):
    before = model()
    native.save(before, tmp_path / "full")
    native.save(before, tmp_path / "half", store="float16")
    after = formats.load(tmp_path / "half")
    for name, weight in after.weights.items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, before.weights[name].half().float())
    assert formats.describe(tmp_path / "half").dtype == "float16"
    sizes = [(tmp_path / name / native.WEIGHTS).stat().st_size for name in ("half", "full")]
    assert sizes[0] < 0.75 * sizes[1]


def test_the_card_of_a_model_that_has_diverged_is_json(tmp_path):
    card = {"perplexity": {"reset": {"mean": math.inf, "unknown_rate": 0.5}}, "words_read": [math.nan, 3]}
    native.save(replace(model(), card=card), tmp_path / "model")
    assert formats.load(tmp_path / "model").card == {
        "perplexity": {"reset": {"mean": None, "unknown_rate": 0.5}}, "words_read": [None, 3],
    }  # fmt: skip


def test_native_is_found_by_any_of_its_files_and_by_no_other(tmp_path):
    folder = saved(tmp_path)
    for name in (native.CONFIG, native.WEIGHTS, native.VOCABULARY):
        assert formats.load(folder / name).config == CONFIG
    (folder / "notes.txt").write_text("mine")
    with refused("notes.txt", "known model"):
        formats.describe(folder / "notes.txt")


def test_native_describe_counts_without_reading_weights(tmp_path):
    folder = saved(tmp_path)
    found = formats.describe(folder)
    bilm = BiLM(CONFIG)
    encoder = sum(p.numel() for p in bilm.token_encoder.parameters())
    assert found.parameters == {
        "token encoder": encoder,
        "LSTMs": sum(p.numel() for p in bilm.parameters()) - encoder,
        "softmax": 5 * 4 + 5,
    }
    assert found.bytes_in_memory == 4 * sum(found.parameters.values())
    assert found.bytes_on_disk == sum(file.stat().st_size for file in folder.iterdir())
    assert found.vocabulary is not None
    assert len(found.vocabulary) == 5


def test_native_model_gives_a_network_with_these_weights(tmp_path):
    loaded = formats.load(saved(tmp_path))
    bilm = loaded.bilm()
    assert not bilm.training
    assert all(torch.equal(weight, loaded.weights[name]) for name, weight in bilm.state_dict().items())
    assert all(parameter.requires_grad for parameter in bilm.parameters())


def test_a_network_to_be_trained_has_its_own_weights_and_a_frozen_one_shares_them():
    loaded = model()
    before = {name: weight.clone() for name, weight in loaded.weights.items()}
    trained, frozen, fresh = (loaded.elmo(frozen=frozen) for frozen in (False, True, False))
    for parameter in trained.bilm.parameters():
        parameter.data += 1
    for network in (frozen, fresh):
        assert all(torch.equal(weight, before[name]) for name, weight in network.bilm.state_dict().items())
    assert all(weight.data_ptr() == loaded.weights[name].data_ptr() for name, weight in frozen.bilm.named_parameters())


def test_a_model_of_characters_needs_no_ids_of_words():
    """The vocabulary of its softmax says nothing of what it reads."""
    sentences = [["the", "cat"], []]
    assert model().inputs is None
    assert torch.equal(model().to_batch(sentences).char_ids, to_batch(sentences, vocabulary=model().inputs).char_ids)


@pytest.mark.parametrize("kind", ["of the same sizes", "of other sizes"])
def test_native_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch, kind):
    """A run that goes on training, or another conversion, replaces it."""
    folder, read = saved(tmp_path), native_weights.read_weight
    smaller = BiLMConfig(replace(CONFIG.lstm, n_layers=1), CONFIG.char_cnn)
    later = tiny_model(smaller) if kind == "of other sizes" else model()
    names: list[str] = []

    def slowly(file: Path, name: str) -> torch.Tensor:
        names.append(name)
        if len(names) == 5:
            native.save(later, folder, overwrite=True)
        return read(file, name)

    monkeypatch.setattr(native_weights, "read_weight", slowly)
    after = formats.load(folder)
    assert after.config == later.config
    assert all(torch.equal(after.weights[name], weight) for name, weight in later.weights.items())
    assert len(names) > len(after.weights)


def test_native_model_that_is_always_replaced_is_refused(tmp_path, monkeypatch):
    folder, read = saved(tmp_path), native_weights.read_weight

    def replacing(file: Path, name: str) -> torch.Tensor:
        if name == "bilm.layers.0.bias":
            native.save(model(), folder, overwrite=True)
        return read(file, name)

    monkeypatch.setattr(native_weights, "read_weight", replacing)
    with refused(folder, "copy"):
        formats.load(folder)


def test_native_model_of_the_most_layers_is_opened(tmp_path):
    lstm = LstmConfig(dim=2, projection_dim=1, n_layers=MOST_LAYERS)
    config = BiLMConfig(lstm, replace(CONFIG.char_cnn, filters=((1, 1),)))
    native.save(tiny_model(config), tmp_path / "model")
    assert formats.describe(tmp_path / "model").config == config


def test_native_save_refuses_an_existing_folder(tmp_path):
    folder = saved(tmp_path)
    before = (folder / native.WEIGHTS).read_bytes()
    with pytest.raises(FileExistsError, match="model"):
        native.save(model(), folder)
    assert (folder / native.WEIGHTS).read_bytes() == before
    other = model()
    native.save(other, folder, overwrite=True)
    assert torch.equal(formats.load(folder).weights["layers.0.bias"], other.weights["layers.0.bias"])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_native_save_never_replaces_a_folder_that_holds_something_else(tmp_path):
    folder = saved(tmp_path)
    (folder / "notes.txt").write_text("mine")
    for save in (native.save, allennlp.save):
        with pytest.raises(FileExistsError, match=r"notes\.txt|config\.json"):
            save(model(), folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    with pytest.raises(NotADirectoryError):
        native.save(model(), folder / "notes.txt", overwrite=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": 3}, "model is 3; a table is expected"),
        ({"model": {"lstm": {"n_layers": 10**9}, "char_cnn": {}}}, r"n_layers is 1000000000; at most \d+ "),
        ({"model": {"lstm": {"cell_clip": 10**400}}}, r"model\.lstm\.cell_clip is larger than"),
        ({"model": {"lstm": {"dim": 10**18}, "char_cnn": {}}}, "no network has these sizes .*damaged, or not a model"),
        ({"model": {"lstm": {"projection_dim": 10**30}, "char_cnn": {}}}, r"projection_dim is 10+; a number that 64"),
        ({"text": 5}, "text is 5; a table is expected"),
        ({"card": []}, r"card is \[\]; a table is expected"),
        ({"mixes": 3}, "mixes is 3; a list is expected"),
        ({"mixes": [3]}, r"mixes\[0\] is 3; a table is expected"),
        ({"mixes": [{"name": "input", "scalars": [0.0], "gamma": 1.0}]}, "mix 'input' has 1 weights; 3 are expected"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"model": {"lstm": {"dimension": 6}}}, r"unknown key 'model\.lstm\.dimension'"),
        ({"version": 7}, "version is 7; 1 is expected; .*install the latest"),
    ],
)
def test_native_damaged_configuration_is_said_in_one_line(tmp_path, changes, said):
    folder = saved(tmp_path)
    change_config(folder, **changes)
    with pytest.raises(InputError, match=rf"config\.json: .*{said}") as caught:
        formats.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b'{"a":' * 100_000, b'{"format": "elmo-torch"', b"\xff"], ids=["nested", "cut", "no text"]
)
def test_native_configuration_that_is_no_json_is_named(tmp_path, text):
    folder = saved(tmp_path)
    (folder / "config.json").write_bytes(text)
    assert not native.recognizes(folder)
    for path in (folder, folder / "vocab.txt", tmp_path):
        with refused("config.json", "JSON", "fetch"):
            formats.load(path)
    (folder / "config.json").write_text("[]")
    with refused("known model"):
        formats.load(folder)


def test_native_card_that_is_no_table_of_options_is_left_out(tmp_path):
    folder = saved(tmp_path)
    change_config(folder, card={"options": "x"})
    allennlp.save(formats.load(folder), tmp_path / "published")
    assert formats.load(tmp_path / "published").config == formats.load(folder).config


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_native_configuration_in_another_encoding_of_json_is_read(tmp_path, encoding):
    folder = saved(tmp_path)
    file = folder / native.CONFIG
    file.write_text(file.read_text(encoding="utf-8"), encoding=encoding)
    assert formats.load(folder).config == CONFIG


def test_native_card_may_hold_what_utf_8_does_not(tmp_path):
    card = {"note": "a \ud800 b \\ é 東"}
    native.save(replace(model(), card=card), tmp_path / "model")
    assert native.load(tmp_path / "model").card == card
    assert "é 東" in (tmp_path / "model" / native.CONFIG).read_text(encoding="utf-8")


@pytest.mark.parametrize("format_", [native, allennlp])
def test_models_without_the_ids_of_their_words_are_not_written(tmp_path, format_):
    words = BiLMConfig(CONFIG.lstm, None, n_tokens_vocab=5)
    of_words = Model(words, BiLM(words).state_dict(), vocabulary=model().vocabulary)
    of_words.weights["token_encoder.embedding"][0] = 0
    with refused("new", "vocabulary", "add it"):
        format_.save(replace(of_words, vocabulary=None), "new")
    format_.save(of_words, str(tmp_path / "new"))
    assert formats.load(tmp_path / "new").vocabulary == of_words.vocabulary


def test_native_softmax_without_its_words_is_not_written(tmp_path):
    with refused("vocabulary", "add it"):
        native.save(replace(model(), vocabulary=None), tmp_path / "new")
    both = formats.load(DATA / "many_langs" / "both")
    with refused("lexicon", "add it"):
        native.save(replace(both, lexicon=None), tmp_path / "new")
    allennlp.save(replace(model(), vocabulary=None), tmp_path / "new")  # which leaves the softmax out


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="paths are Unicode there")
def test_native_path_that_is_not_utf_8_is_refused(tmp_path):
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/mod\xe8le"))
    saved(tmp_path).rename(folder)
    for use in (formats.load, formats.describe, lambda _: native.save(model(), folder / "new")):
        with refused("UTF-8", "rename"):
            use(folder)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_native_weights_of_floating_point_are_read(tmp_path, kind):
    folder = saved(tmp_path)
    weights = load_file(folder / native.WEIGHTS)
    save_file({name: weight.to(kind) for name, weight in weights.items()}, folder / native.WEIGHTS)
    assert native.describe(folder).dtype == str(kind).removeprefix("torch.")
    for name, weight in native.load(folder).weights.items():
        torch.testing.assert_close(weight, weights[f"bilm.{name}"].to(kind).float(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64, torch.uint16, torch.float8_e4m3fn])
def test_native_weights_of_other_types_are_refused(tmp_path, kind):
    folder = saved(tmp_path)
    weights = load_file(folder / native.WEIGHTS)
    weights["bilm.layers.0.bias"] = weights["bilm.layers.0.bias"].to(kind)
    save_file(weights, folder / native.WEIGHTS)
    for read in (native.describe, native.load):
        with refused("bilm.layers.0.bias", "F32"):
            read(folder)


@pytest.mark.parametrize("left", [0, -10])
def test_native_truncated_weights_are_named(tmp_path, left):
    folder = saved(tmp_path)
    file = folder / native.WEIGHTS
    file.write_bytes(file.read_bytes()[:left])
    with refused("model.safetensors", "damaged", "copy it again"):
        formats.load(folder)


def test_native_missing_weights_are_named(tmp_path):
    folder = saved(tmp_path)
    (folder / native.WEIGHTS).unlink()
    with refused("model.safetensors", error=FileNotFoundError):
        formats.describe(folder)


def test_native_weights_of_another_model_are_named(tmp_path):
    folder = saved(tmp_path)
    change_config(folder, model={"lstm": {"dim": 7, "projection_dim": 4}, "char_cnn": {"embedding_dim": 3}})
    with refused("model.safetensors", "token_encoder.", "config.json"):
        formats.load(folder)


def test_native_weights_without_a_place_are_named(tmp_path):
    folder = saved(tmp_path)
    weights = {f"bilm.{name}": weight for name, weight in model().weights.items()} | {"bilm.extra": torch.ones(1)}
    save_file(weights, folder / native.WEIGHTS)
    with refused("model.safetensors", "extra"):
        formats.load(folder)


def test_native_vocabulary_of_another_softmax_is_named(tmp_path):
    folder = saved(tmp_path)
    Vocabulary(("<S>", "</S>", "<UNK>")).save(folder / native.VOCABULARY)
    with refused("(5, 4)", "(3, 4)", "vocab.txt"):
        formats.load(folder)
    (folder / native.VOCABULARY).unlink()
    with refused("vocab.txt", error=FileNotFoundError):
        formats.load(folder)
