"""Models of the whole space of options in every published layout, against the twin; nothing of elmo writes them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import twin
from bilm_files import (
    CHARACTERS,
    READS_WORDS,
    SPECIAL,
    VOCABULARY,
    as_float64,
    as_hdf5,
    as_json,
    as_vocabulary,
    as_written,
    options,
    random_weights,
    word_options,
    write_folder,
    write_tar,
    write_zip,
)
from command import printed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

import elmo
from elmo import formats, ops
from elmo.embedding.embedder import Embedder
from elmo.embedding.store import read_vectors
from elmo.formats import allennlp, native
from elmo.model.bilm import BiLM
from elmo.text.batching import to_batch

TOLERANCE = 1e-5
WORDS = st.one_of(
    st.sampled_from(["the", "cat", "sat", "naïve", "東京", "", "<S>", "</S>", "<UNK>", "a" * 200, "\ud800x", "\u2028"]),
    st.text(max_size=12),
)
SENTENCES = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=4)
MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
SEEDS = st.integers(0, 2**32 - 1)

TEXT = [["the", "cat", "sat"], [], ["naïve", "the"]]


def expected(
    sentences: list[list[str]], options: dict[str, Any], weights: dict[str, np.ndarray], words: list[str] | None = None
) -> list[np.ndarray]:
    """All layers by the twin, boundaries dropped."""
    return [twin.layers(sentence, options, as_float64(weights), words)[:, 1:-1] for sentence in sentences]


def assert_same(found: list[np.ndarray], layers: list[np.ndarray], tolerance: float = TOLERANCE) -> None:
    for one, other in zip(found, layers, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


# The space of options


@MANY
@given(
    options=options(), sentences=SENTENCES, seed=SEEDS, n_characters=st.sampled_from([261, 262, 300]), data=st.data()
)
def test_models_that_read_characters_are_those_of_the_twin(
    tmp_path, options, sentences, seed, n_characters, data
) -> None:
    weights = random_weights(options, seed, n_characters)
    written = data.draw(as_written(options))
    write_folder(tmp_path, {"options.json": as_json(written), "weights.hdf5": as_hdf5(weights)})
    vectors = elmo.load(tmp_path).embed(sentences)
    assert_same(vectors, expected(sentences, options, weights))
    config = formats.describe(tmp_path).config
    assert config.char_cnn is not None
    assert config.char_cnn.n_characters == n_characters + 1


@st.composite
def vocabularies(draw: st.DrawFn, size: int) -> list[str]:
    """`size` words, the three special ones at any place; a word may be there twice."""
    others = draw(st.lists(st.sampled_from(["the", "cat", "sat", "naïve", "東京", "x"]), min_size=size, max_size=size))
    return draw(st.permutations(SPECIAL + others[3:]))


@MANY
@given(options=word_options(), sentences=SENTENCES, seed=SEEDS, data=st.data())
def test_models_that_read_words_are_those_of_the_twin(tmp_path, options, sentences, seed, data) -> None:
    weights = random_weights(options, seed)
    words = data.draw(vocabularies(options["n_tokens_vocab"]))
    zipped, skipped = data.draw(st.booleans()), data.draw(st.one_of(st.none(), st.integers(0, len(words))))
    for name in ("vocab.txt", "vocab.txt.gz"):
        (tmp_path / name).unlink(missing_ok=True)
    files = {
        "options.json": as_json(data.draw(as_written(options))),
        "weights.hdf5": as_hdf5(weights),
        "vocab.txt.gz" if zipped else "vocab.txt": as_vocabulary(words, skipped, zipped),
    }
    embedder = elmo.load(write_folder(tmp_path, files))
    layers = expected(sentences, options, weights, words)
    assert_same(embedder.embed(sentences), layers)

    model = formats.load(tmp_path)
    with torch.no_grad():
        output = model.bilm()(to_batch(sentences, vocabulary=model.vocabulary))
    for row, own in enumerate(layers):
        np.testing.assert_allclose(output.layers[:, row, 1 : own.shape[1] + 1].numpy(), own, rtol=0, atol=TOLERANCE)


# The layouts


PUBLISHED, NLPL = ("options.json", "weights.hdf5"), ("options.json", "model.hdf5")
"""The names of options and weights."""


def published_files(options: dict[str, Any], names: tuple[str, str] = PUBLISHED) -> Any:
    weights = random_weights(options, 7)
    files = {names[0]: as_json(options), names[1]: as_hdf5(weights)}
    if "char_cnn" not in options:
        files["vocab.txt"] = as_vocabulary(VOCABULARY)
    return files, weights


def nlpl(files: dict[str, bytes]) -> dict[str, bytes]:
    meta = {"corpus": [{"description": "none"}], "algorithm": {"name": "ELMo"}, "dimensions": 8}
    return {"README": b"a model", "meta.json": json.dumps(meta).encode()} | files


def inside(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


MACOS = {"__MACOSX/204/._options.json": b"{}"}
BOTH = pytest.mark.parametrize("options", [CHARACTERS, READS_WORDS], ids=["characters", "words"])
LAYOUTS = {
    "SeqVec": (PUBLISHED, write_folder),
    "cached": (("options_file", "weights_file"), write_folder),
    "NLPL": (NLPL, lambda path, files: write_zip(path, nlpl(files))),
    "stored": (NLPL, lambda path, files: write_zip(path, nlpl(files), zipfile.ZIP_STORED)),
    "zip of a folder": (NLPL, lambda path, files: write_zip(path, inside("204", nlpl(files)) | MACOS)),
    "tar.gz": (PUBLISHED, lambda path, files: write_tar(path, inside("model", files))),
    "tar": (PUBLISHED, lambda path, files: write_tar(path, files, "w")),
}


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_told_and_embedded(tmp_path, layout, options):
    names, write = LAYOUTS[layout]
    files, weights = published_files(options, names)
    path = write(tmp_path / "model", files)
    before = sorted(tmp_path.rglob("*"))
    found = formats.describe(path)
    padding = options["char_cnn"]["embedding"]["dim"] if "char_cnn" in options else 4
    numbers = padding + sum(weight.size for weight in weights.values())
    assert sum(found.parameters.values()) == numbers
    assert found.bytes_in_memory == 4 * numbers
    assert (found.format, found.dtype) == ("allennlp", "float32")
    words = None if "char_cnn" in options else VOCABULARY
    assert (None if found.vocabulary is None else list(found.vocabulary.words)) == words
    assert_same(elmo.load(path).embed(TEXT), expected(TEXT, options, weights, words))
    assert sorted(tmp_path.rglob("*")) == before, "nothing is unpacked"


@BOTH
def test_options_and_weights_in_two_places(tmp_path, options):
    files, weights = published_files(options)
    write_folder(tmp_path / "there", {name: data for name, data in files.items() if name != "options.json"})
    mine = tmp_path / "my_options.json"
    mine.write_bytes(files["options.json"])
    words = None if "char_cnn" in options else VOCABULARY
    for place in (tmp_path / "there" / "weights.hdf5", tmp_path / "there"):
        assert_same(elmo.load(mine, weights=place).embed(TEXT), expected(TEXT, options, weights, words))
        assert formats.describe(mine, place).config == formats.load(mine, place).config
    two = mine, "--weights", tmp_path / "there" / "weights.hdf5"
    assert json.loads(printed("info", "--json", *two))["reads"] == ("words" if words else "characters")
    printed("convert", mine, tmp_path / "native", *two[1:])
    assert formats.load(tmp_path / "native").config == formats.load(mine, two[2]).config
    with refused("weights.h5", error=FileNotFoundError):
        formats.load(mine, tmp_path / "weights.h5")
    with refused("weights.hdf5", "options file"):
        formats.load(tmp_path / "there" / "weights.hdf5", tmp_path / "there" / "weights.hdf5")
    with refused("my_options.json", "HDF5"):
        formats.load(mine, mine)


def test_a_single_layer_as_bilm_tf_dumps_it_in_half_precision(tmp_path):
    options = {**CHARACTERS, "lstm": {**CHARACTERS["lstm"], "n_layers": 1}}
    weights = {name: weight.astype(np.float16) for name, weight in random_weights(options, 3).items()}
    dumped = {name.replace("MultiRNNCell/Cell0/", ""): weight for name, weight in weights.items()}
    assert "RNN_1/RNN/LSTMCell/W_P_0" in dumped
    write_folder(tmp_path, {"options.json": as_json(options), "weights.hdf5": as_hdf5(dumped)})
    assert formats.describe(tmp_path).dtype == "float16"
    assert_same(elmo.load(tmp_path).embed(TEXT), expected(TEXT, options, weights))


# Token embeddings apart


def with_token_embeddings(folder: Path, words: list[str], keep_characters: bool) -> dict[str, np.ndarray]:
    """A character model and the table that bilm-tf's `dump_token_embeddings` makes of it; the table is returned."""
    weights = random_weights(CHARACTERS, 5)
    table = np.stack([twin.word_vector(word, CHARACTERS, as_float64(weights)) for word in words]).astype(np.float32)
    kept = {name: weight for name, weight in weights.items() if keep_characters or name.startswith("RNN")}
    write_folder(
        folder,
        {
            "options.json": as_json(CHARACTERS),
            "lm_weights.hdf5": as_hdf5(kept),
            "token_embeddings.hdf5": as_hdf5({"embedding": table}),
            "vocab_small.txt": as_vocabulary(words),
        },
    )
    return {**weights, "embedding": table}


def test_token_embeddings_beside_a_character_model(tmp_path):
    weights = with_token_embeddings(tmp_path, VOCABULARY, keep_characters=True)
    known = [["the", "cat", "naïve"], ["cat"]]
    characters, words = elmo.load(tmp_path), elmo.load(tmp_path / "token_embeddings.hdf5")
    assert characters.vocabulary is None
    assert words.bilm.config.n_tokens_vocab == len(VOCABULARY)
    assert_same(characters.embed(known), words.embed(known))
    assert_same(words.embed(TEXT), expected(TEXT, CHARACTERS, weights, VOCABULARY))
    assert formats.describe(tmp_path / "token_embeddings.hdf5").config.char_cnn is None
    # The character model knows "sat"; the table takes it for <UNK>.
    assert np.abs(characters.embed(TEXT)[0] - words.embed(TEXT)[0]).max() > 0.01
    allennlp.save(formats.load(tmp_path / "token_embeddings.hdf5"), tmp_path / "words")
    assert "char_cnn" not in json.loads((tmp_path / "words" / "options.json").read_text())
    assert_same(elmo.load(tmp_path / "words").embed(TEXT), words.embed(TEXT))


def test_token_embeddings_in_the_place_of_characters(tmp_path):
    weights = with_token_embeddings(tmp_path, VOCABULARY, keep_characters=False)
    for path in (tmp_path, tmp_path / "lm_weights.hdf5", tmp_path / "options.json"):
        assert_same(elmo.load(path).embed(TEXT), expected(TEXT, CHARACTERS, weights, VOCABULARY))


# There and back


@BOTH
def test_to_native_and_back_is_bit_identical(tmp_path, options):
    """Also the options that only the published programs read."""
    options = {**options, "lstm": {**options["lstm"], "bias": 3}, "n_negative_samples_batch": 8192}
    files, weights = published_files(options)
    write_folder(tmp_path / "published", files)
    native.save(formats.load(tmp_path / "published"), tmp_path / "native")
    assert_same(elmo.load(tmp_path / "native").embed(TEXT), elmo.load(tmp_path / "published").embed(TEXT))
    allennlp.save(formats.load(tmp_path / "native"), tmp_path / "back")
    with h5py.File(tmp_path / "back" / "weights.hdf5") as file:
        for name, weight in weights.items():
            assert file[name].dtype == np.float32
            np.testing.assert_array_equal(file[name][()], weight)
    assert json.loads((tmp_path / "back" / "options.json").read_text()) == options
    assert (tmp_path / "back" / "vocab.txt").exists() == ("vocab.txt" in files)
    if "vocab.txt" in files:
        assert (tmp_path / "back" / "vocab.txt").read_bytes() == files["vocab.txt"]


def test_native_models_that_read_words_need_their_vocabulary(tmp_path):
    files, _ = published_files(READS_WORDS)
    model = formats.load(write_folder(tmp_path / "published", files))
    with refused("vocabulary"):
        Embedder(model.bilm())
    native.save(model, tmp_path / "native")
    vocabulary = tmp_path / "native" / "vocab.txt"
    vocabulary.write_bytes(as_vocabulary(VOCABULARY[:-1]))
    with refused("vocab.txt", "5 words", "6"):
        formats.load(tmp_path / "native")
    vocabulary.unlink()
    with refused("vocab.txt", error=FileNotFoundError):
        formats.load(tmp_path / "native")


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_models_that_read_words_in_every_precision(tmp_path, precision):
    files, weights = published_files(READS_WORDS)
    library = ops.find_support(precision).libraries[0]  # named, it is used where float32 is faster, too
    found = elmo.load(write_folder(tmp_path, files), precision=precision, library=library).embed(TEXT)
    layers = expected(TEXT, READS_WORDS, weights, VOCABULARY)
    assert_same(found, layers, TOLERANCE if precision == "float32" else 0.1)


def test_words_are_known_to_the_network_that_a_task_trains(tmp_path):
    files, _ = published_files(READS_WORDS)
    model = formats.load(write_folder(tmp_path, files))
    bilm: BiLM = model.bilm().requires_grad_(True)
    bilm(to_batch([["the", "cat"]], vocabulary=model.vocabulary)).layers.sum().backward()
    gradient = bilm.token_encoder.embedding.grad
    assert gradient is not None
    read = [1, 2, 3, 4]  # the, <S>, cat, </S>: their lines + 1
    assert (gradient.abs().sum(1) > 0).nonzero().flatten().tolist() == read


# The command line


def test_the_command_line_reads_a_zip_of_a_model_that_reads_words(tmp_path):
    files, weights = published_files(READS_WORDS, NLPL)
    path = write_zip(tmp_path / "model.zip", nlpl(files))
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(tokens) + "\n" for tokens in TEXT), encoding="utf-8")
    shown = json.loads(printed("info", path, "--json"))
    assert (shown["reads"], shown["vocabulary"], shown["vector size"]) == ("words", 6, 8)
    assert shown["bytes on disk"] == path.stat().st_size
    assert printed("convert", path, tmp_path / "native").endswith("written as native\n")
    for model in (path, tmp_path / "native"):
        out = tmp_path / f"{model.name}.hdf5"
        printed("embed", text, out, "--model", model, "--pretokenized")
        with read_vectors(out) as vectors:
            found = [vectors[row] for row in range(len(vectors))]
        assert_same(found, expected(TEXT, READS_WORDS, weights, VOCABULARY))
