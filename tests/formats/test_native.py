"""The native folder: what is written is read, and what does not fit is said in one line."""

import json
import math
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


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model, to be read or damaged."""
    native.save(model(), tmp_path / "model")
    return tmp_path / "model"


def change(folder: Path, **changes: object) -> None:
    file = folder / native.CONFIG
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def put(folder: Path, **changes: torch.Tensor) -> None:
    """Adds weights, or replaces those of their names."""
    weights = load_file(folder / native.WEIGHTS)
    save_file(weights | {f"bilm.{name}": weight for name, weight in changes.items()}, folder / native.WEIGHTS)


def cut(folder: Path, left: int) -> None:
    file = folder / native.WEIGHTS
    file.write_bytes(file.read_bytes()[:left])


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


def test_native_is_found_by_any_of_its_files_and_by_no_other(folder):
    for name in (native.CONFIG, native.WEIGHTS, native.VOCABULARY):
        assert formats.load(folder / name).config == CONFIG
    (folder / "notes.txt").write_text("mine")
    with refused("notes.txt", "known model"):
        formats.describe(folder / "notes.txt")


def test_native_describe_counts_without_reading_weights(folder):
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


def test_a_network_to_be_trained_has_its_own_weights_and_a_frozen_one_shares_them():
    loaded = model()
    assert not loaded.bilm().training
    assert all(parameter.requires_grad for parameter in loaded.bilm().parameters())
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
def test_native_model_that_is_replaced_while_it_is_read_is_read_again(folder, monkeypatch, kind):
    """A run that goes on training, or another conversion, replaces it: once, and then again and again."""
    read, always = native_weights.read_weight, False
    smaller = BiLMConfig(replace(CONFIG.lstm, n_layers=1), CONFIG.char_cnn)
    later = tiny_model(smaller) if kind == "of other sizes" else model()
    names: list[str] = []

    def slowly(file: Path, name: str) -> torch.Tensor:
        names.append(name)
        if always or len(names) == 5:
            native.save(later, folder, overwrite=True)
        return read(file, name)

    monkeypatch.setattr(native_weights, "read_weight", slowly)
    after = formats.load(folder)
    assert after.config == later.config
    assert all(torch.equal(after.weights[name], weight) for name, weight in later.weights.items())
    assert len(names) > len(after.weights)
    always = True
    with refused(folder, "copy"):
        formats.load(folder)


def test_native_model_of_the_most_layers_is_opened(tmp_path):
    lstm = LstmConfig(dim=2, projection_dim=1, n_layers=MOST_LAYERS)
    config = BiLMConfig(lstm, replace(CONFIG.char_cnn, filters=((1, 1),)))
    native.save(tiny_model(config), tmp_path / "model")
    assert formats.describe(tmp_path / "model").config == config


def test_native_save_refuses_an_existing_folder(folder):
    before = (folder / native.WEIGHTS).read_bytes()
    with pytest.raises(FileExistsError, match="model"):
        native.save(model(), folder)
    assert (folder / native.WEIGHTS).read_bytes() == before
    other = model()
    native.save(other, folder, overwrite=True)
    assert torch.equal(formats.load(folder).weights["layers.0.bias"], other.weights["layers.0.bias"])
    assert list(folder.parent.iterdir()) == [folder]


def test_native_save_never_replaces_a_folder_that_holds_something_else(folder):
    (folder / "notes.txt").write_text("mine")
    for save in (native.save, allennlp.save):
        with pytest.raises(FileExistsError, match=r"notes\.txt|config\.json"):
            save(model(), folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    with pytest.raises(NotADirectoryError):
        native.save(model(), folder / "notes.txt", overwrite=True)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 374434792\n"
OTHER_TYPES = torch.int64, torch.bool, torch.complex64, torch.uint16, torch.float8_e4m3fn
DAMAGES = [
    (lambda f: change(f, model=3), "config.json: model 3 table"),
    (lambda f: change(f, model={"lstm": {"n_layers": 10**9}, "char_cnn": {}}), "config.json: n_layers 1000000000 most"),
    (lambda f: change(f, model={"lstm": {"cell_clip": 10**400}}), "config.json: model.lstm.cell_clip larger"),
    (lambda f: change(f, model={"lstm": {"dim": 10**18}, "char_cnn": {}}), "config.json: sizes damaged"),
    (lambda f: change(f, model={"lstm": {"projection_dim": 10**30}, "char_cnn": {}}), "config.json: projection_dim 64"),
    (lambda f: change(f, model={"lstm": {"dimension": 6}}), "config.json: 'model.lstm.dimension'"),
    (lambda f: change(f, text=5), "config.json: text 5 table"),
    (lambda f: change(f, card=[]), "config.json: card [] table"),
    (lambda f: change(f, mixes=3), "config.json: mixes 3 list"),
    (lambda f: change(f, mixes=[3]), "config.json: mixes[0] 3 table"),
    (lambda f: change(f, mixes=[{"name": "a", "scalars": [0.0], "gamma": 1.0}]), "config.json: 'a' 1 weights 3"),
    (lambda f: change(f, extra=1), "config.json: 'extra'"),
    (lambda f: change(f, version=7), "config.json: version 7 1 install latest"),
    (lambda f: change(f, model={"lstm": {"dim": 7}, "char_cnn": {}}), "model.safetensors token_encoder. config.json"),
    (lambda f: cut(f, 0), "model.safetensors damaged copy"),
    (lambda f: cut(f, -10), "model.safetensors damaged copy"),
    (lambda f: (f / native.WEIGHTS).unlink(), "model.safetensors"),
    (lambda f: (f / native.WEIGHTS).write_bytes(LFS), "model.safetensors git lfs pull"),
    (lambda f: put(f, extra=torch.ones(1)), "model.safetensors extra"),
    *[
        (lambda f, kind=kind: put(f, **{"layers.0.bias": torch.ones(2, 24).to(kind)}), "bilm.layers.0.bias F32")
        for kind in OTHER_TYPES
    ],
    (lambda f: Vocabulary(SPECIAL).save(f / native.VOCABULARY), "vocab.txt (5, 4) (3, 4)"),
    (lambda f: (f / native.VOCABULARY).unlink(), "vocab.txt"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_native_damage_is_named_in_one_line(folder, damage, words):
    damage(folder)
    for read in (formats.describe, formats.load):
        with refused(*words.split(), error=(InputError, FileNotFoundError)):
            read(folder)


@pytest.mark.parametrize(
    "text", [b'{"a":' * 100_000, b'{"format": "elmo-torch"', b"\xff"], ids=["nested", "cut", "no text"]
)
def test_native_configuration_that_is_no_json_is_named(folder, text):
    (folder / "config.json").write_bytes(text)
    assert not native.recognizes(folder)
    for path in (folder, folder / "vocab.txt", folder.parent):
        with refused("config.json", "JSON", "fetch"):
            formats.load(path)
    (folder / "config.json").write_text("[]")
    with refused("known model"):
        formats.load(folder)


def test_native_card_that_is_no_table_of_options_is_left_out(folder, tmp_path):
    change(folder, card={"options": "x"})
    allennlp.save(formats.load(folder), tmp_path / "published")
    assert formats.load(tmp_path / "published").config == formats.load(folder).config


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_native_configuration_in_another_encoding_of_json_is_read(folder, encoding):
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
def test_native_path_that_is_not_utf_8_is_refused(folder):
    folder = folder.rename(folder.with_name("mod\udce8le"))
    for use in (formats.load, formats.describe, lambda _: native.save(model(), folder / "new")):
        with refused("UTF-8", "rename"):
            use(folder)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_native_weights_of_floating_point_are_read(folder, kind):
    weights = load_file(folder / native.WEIGHTS)
    save_file({name: weight.to(kind) for name, weight in weights.items()}, folder / native.WEIGHTS)
    assert native.describe(folder).dtype == str(kind).removeprefix("torch.")
    for name, weight in native.load(folder).weights.items():
        torch.testing.assert_close(weight, weights[f"bilm.{name}"].to(kind).float(), rtol=0, atol=0)
