"""Models of ELMoForManyLangs give the vectors that its own program gave (tests/data/many_langs/make.py)."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bilm_files import write_zip
from command import printed
from places import DATA
from refusals import refused

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats import allennlp, many_langs, native
from elmo.integrations import elmoformanylangs
from elmo.text.batching import to_batch
from elmo.text.lexicon import Lexicon

DATA = DATA / "many_langs"
SENTENCES: list[list[str]] = json.loads((DATA / "sentences.json").read_text("utf-8"))
NAMES = ("both", "characters", "words")


def expected(name: str) -> list[np.ndarray]:
    with np.load(DATA / name / "expected.npz") as file:
        return [file[f"arr_{number}"] for number in range(len(SENTENCES))]


def check_vectors(embedder: elmo.Embedder, name: str) -> None:
    for seen, theirs in zip(embedder.embed(SENTENCES), expected(name), strict=True):
        assert seen.shape == theirs.shape
        np.testing.assert_allclose(seen, theirs, rtol=2e-6, atol=2e-6)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of a model, to be damaged."""
    return shutil.copytree(DATA / "both", tmp_path / "model")


def edit(file: Path, section: str | None = None, **changes: Any) -> None:
    values = json.loads(file.read_text(encoding="utf-8"))
    table = values if section is None else values[section]
    table |= changes
    for key in [key for key, value in table.items() if value == "absent"]:
        del table[key]
    file.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_many_langs_vectors_are_those_of_the_original_program(tmp_path, name):
    """Also of the converted model, and by the readable network with gradients, on characters from `to_batch`."""
    check_vectors(elmo.load(DATA / name), name)
    model, found = formats.load(DATA / name), formats.describe(DATA / name)
    native.save(model, tmp_path / name)
    check_vectors(elmo.load(tmp_path / name), name)
    output = model.bilm()(to_batch(SENTENCES, vocabulary=model.inputs))
    for row, theirs in enumerate(expected(name)):
        seen = output.layers[:, row, 1 : theirs.shape[1] + 1].detach().numpy()
        np.testing.assert_allclose(seen, theirs, rtol=2e-6, atol=2e-6)
    assert (found.format, found.config, found.dtype) == ("many_langs", model.config, "float32")
    assert found.shapes == {name: tuple(weight.shape) for name, weight in model.weights.items()}


@pytest.mark.parametrize("name", NAMES)
def test_many_langs_door_gives_what_the_original_gave(name):
    embedder = elmoformanylangs.Embedder(DATA / name)
    picks = {-2: lambda layers: layers, -1: lambda layers: layers.mean(axis=0), 0: lambda layers: layers[0]}
    for output_layer, pick in picks.items():
        for seen, theirs in zip(embedder.sents2elmo(SENTENCES, output_layer), expected(name), strict=True):
            np.testing.assert_allclose(seen, pick(theirs), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["char.dic", "word.dic"])
def test_a_mark_that_an_editor_put_before_a_dictionary_changes_nothing(folder, name):
    (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    check_vectors(elmo.load(folder), "both")


def test_many_langs_archive_is_read_in_place(tmp_path):
    """NLPL's repository has them as a zip of the files, some compressed."""
    files = {file.name: file.read_bytes() for file in (DATA / "both").iterdir()}
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        check_vectors(elmo.load(write_zip(tmp_path / f"{kind}.zip", files, kind)), "both")
    two = {f"a/{name}": data for name, data in files.items()} | {"b/encoder.pkl": files["encoder.pkl"]}
    path = write_zip(tmp_path / "two.zip", two)
    for read in (formats.describe, formats.load):
        with refused("two.zip", "a/encoder.pkl", "b/encoder.pkl", "unpack"):
            read(path)  # one model would get files of the other


@pytest.mark.parametrize("file", [many_langs.EMBEDDER, many_langs.ENCODER])
def test_many_langs_model_may_be_given_by_a_file_of_weights(file):
    for name in ("both", "words"):  # the old layout of torch, and the new one, which is a zip
        check_vectors(elmo.load(DATA / name / file), name)


def test_many_langs_sizes_are_looked_for_beside_and_then_among_the_published(tmp_path, folder):
    (folder / "sizes.json").rename(folder / "x y.json")
    edit(folder / "config.json", config_path="C:\\Users\\someone\\x y.json")
    check_vectors(elmo.load(folder), "both")
    edit(folder / "config.json", config_path="/users4/configs/cnn_50_100_512_4096_sample.json")
    with refused("(4, 8)", "(512, 2148)", "cnn_50_100_512"):
        formats.load(folder)
    (folder / "x y.json").rename(folder / "cnn_50_100_512_4096_sample.json")
    check_vectors(elmo.load(folder), "both")


def test_many_langs_published_sizes_are_those_of_the_paper():
    """Sec. 3.4 of Peters et al. (2018), words of 100 numbers beside characters of 50."""
    assert many_langs.SAMPLE["encoder"] | {"name": ""} == {
        "name": "", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2
    }  # fmt: skip
    embedder = many_langs.SAMPLE["token_embedder"]
    assert sum(count for _, count in embedder["filters"]) == 2048
    assert (embedder["word_dim"], embedder["char_dim"], embedder["max_characters_per_token"]) == (100, 50, 50)


def test_many_langs_command_line(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(sentence) for sentence in SENTENCES[:3]), "utf-8")
    assert "many_langs" in printed("info", DATA / "both")
    printed("embed", text, tmp_path / "v.npz", "--model", DATA / "both", "--pretokenized")
    with np.load(tmp_path / "v.npz") as file:
        np.testing.assert_allclose(file["0"], expected("both")[0], rtol=2e-6, atol=2e-6)


def test_many_langs_model_has_no_place_in_the_published_format_nor_without_its_lexicon(tmp_path):
    model = formats.load(DATA / "both")
    with refused("lexicon"):
        elmo.Embedder(model.bilm())
    with refused("words", "code points"):
        allennlp.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# What cannot be read, in one line


def rewrite(folder: Path, **changes: Any) -> None:
    """Puts other weights of words in the place of those of these names, or none."""
    file = folder / many_langs.EMBEDDER
    weights = torch.load(file, weights_only=True) | changes
    torch.save({name: weight for name, weight in weights.items() if weight is not None}, file)


WHOLE = torch.zeros(4, dtype=torch.int32)
WORDS_ALONE = "".join(f"w{number}\t{number}\n" for number in range(11))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json; ELMoForManyLangs"),
        (lambda f: (f / "config.json").write_text("{"), "config.json; JSON"),
        (lambda f: (f / "config.json").write_text("[1]"), "config.json; config_path is None"),
        (lambda f: edit(f / "config.json", config_path=7), "config.json; config_path is 7"),
        (lambda f: (f / "sizes.json").unlink(), "config_path is '/Users/someone/configs/sizes.json'"),
        (lambda f: (f / "sizes.json").write_text('{"encoder": 3}'), "sizes.json; table; 'encoder'"),
        (lambda f: edit(f / "sizes.json", "encoder", dim="absent"), "sizes.json; 'dim'"),
        (lambda f: edit(f / "sizes.json", "encoder", dim="5"), "sizes.json; lstm.dim is '5'; number"),
        (lambda f: edit(f / "sizes.json", "encoder", name="lstm"), "encoder.name is 'lstm'; 'elmo'"),
        (lambda f: edit(f / "sizes.json", "token_embedder", name="lstm"), "name is 'lstm'; char_dim; 3; 'cnn'"),
        (lambda f: edit(f / "sizes.json", "token_embedder", name="bert"), "name is 'bert'; 'cnn'"),
        (lambda f: edit(f / "sizes.json", "token_embedder", char_dim=-1), "char_dim is -1; 0"),
        (lambda f: edit(f / "sizes.json", "token_embedder", char_dim=0, word_dim=0), "word_dim; char_dim; 0"),
        (lambda f: edit(f / "sizes.json", "encoder", n_layers=3), "encoder.pkl; forward_layer_2; missing"),
        (lambda f: edit(f / "sizes.json", "encoder", n_layers=1), "encoder.pkl; forward_layer_1; (20, 4)"),
        (lambda f: edit(f / "sizes.json", "encoder", dim=6), "encoder.pkl; shape; (20, 4); (24, 4)"),
        (lambda f: (f / "word.dic").unlink(), "token_embedder.pkl; word.dic"),
        (lambda f: (f / "char.dic").write_text("a\tb\n"), "char.dic; line 1; 1 is 'a\\tb'"),
        (lambda f: (f / "char.dic").write_bytes(b"\xff\t1\n"), "char.dic; UTF-8"),
        (lambda f: (f / "word.dic").write_text("<oov>\t0\n<pad>\t99\n"), "word.dic; '<pad>'; 99; 11 rows"),
        (lambda f: (f / "word.dic").write_text(WORDS_ALONE), "table; <oov>; <pad>"),
        (lambda f: (f / "word.dic").write_text("<oov>\t0\n<pad>\t1\n"), "word.dic; 2 forms; 11 rows"),
        (lambda f: (f / "encoder.pkl").write_bytes(b""), "encoder.pkl; damaged"),
        (lambda f: torch.save(torch.zeros(3), f / "encoder.pkl"), "encoder.pkl; Tensor"),
        (lambda f: rewrite(f, **{"projection.bias": WHOLE}), "token_embedder.pkl; projection.bias; torch.int32"),
        (lambda f: rewrite(f, **{many_langs.WORD_TABLE: None}), "token_embedder.pkl; embedding.weight; missing"),
    ],
)
def test_many_langs_model_that_cannot_be_read_is_named_in_one_line(folder, damage, message):
    damage(folder)
    for read in (formats.describe, formats.load):
        with refused(*message.split("; "), error=(InputError, OSError)):
            read(folder)


def test_many_langs_weights_that_are_cut_are_named(folder):
    """Their names and shapes are still there, so that only reading the numbers shows it."""
    file = folder / many_langs.ENCODER
    file.write_bytes(file.read_bytes()[:-500])
    with refused("encoder.pkl", "damaged"):
        formats.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": {"<oov>": 0, "<pad>": 11}}, "words has an id that is not a number below 11"),
        ({"characters": {"a": True}}, "characters has an id that is not a number"),
        ({"characters": {}}, "the table of characters has no <bos>"),
        ({"words": 3}, "not the ids of words and characters"),
        ({"max_characters": 4}, "max_characters is 4; the model has 12"),
        ({"max_characters": None}, "max_characters is None; at least 3 is expected"),
        ({"max_characters": True}, "max_characters is True; at least 3 is expected"),
    ],
)
def test_native_lexicon_that_cannot_be_read_is_named(tmp_path, change, message):
    native.save(formats.load(DATA / "both"), tmp_path / "model")
    file = tmp_path / "model" / native.LEXICON
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(InputError, match=rf"lexicon\.json: {message}"):
        formats.load(tmp_path / "model")
    file.unlink()
    with refused("lexicon.json", error=FileNotFoundError):
        formats.load(tmp_path / "model")


# The ids


WORDS = {"<oov>": 0, "<pad>": 1, "ab": 2, "<bos>": 3, "<eos>": 4, "abcd": 5}
CHARACTERS = {"a": 0, "b": 1, "<bos>": 2, "<eos>": 3, "<oov>": 4, "<pad>": 5, "<bow>": 6, "<eow>": 7}


def test_lexicon_ids_have_the_marks_of_the_original_the_wrong_way_round():
    """First the "end of word", last the "begin of word": tests/data/many_langs/make.py's program does so."""
    ids = Lexicon(WORDS, CHARACTERS, 6).encode(["ab", "abcde", "ü", "", "<S>", "</S>", "<bos>"]) - 1
    assert ids.tolist() == [
        [2, 7, 0, 1, 6, 5, 5],
        [5, 7, 0, 1, 4, 4, 6],  # cut to four characters, and looked up so
        [0, 7, 4, 6, 5, 5, 5],
        [0, 7, 6, 5, 5, 5, 5],
        [3, 7, 2, 6, 5, 5, 5],
        [4, 7, 3, 6, 5, 5, 5],
        [0, 7, 4, 1, 4, 4, 6],  # five characters, so it is cut, too, and no boundary any more
    ]


def test_lexicon_of_words_alone_or_characters_alone():
    assert Lexicon(WORDS, None, None).encode(["ab", "abcdefgh", "<S>"]).tolist() == [[3], [1], [4]]
    assert Lexicon(None, CHARACTERS, 4).encode(["b"]).tolist() == [[8, 2, 7, 6]]
    assert Lexicon(None, CHARACTERS, 4).encode([]).shape == (0, 4)
