"""Checkpoints that TensorFlow wrote are read, and give what its graph gave (tests/data/tensorflow/make.py)."""

import json
import math
import shutil
import struct
import sys
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import torch
from command import printed
from places import DATA
from refusals import refused

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats import allennlp, tensor_bundle, tensorflow
from elmo.formats.tensor_bundle import Bundle, index_of, read_index
from elmo.pretraining.scoring import Scorer

DATA = DATA / "tensorflow"
NAMES = ("characters", "one_layer", "words")
CHECKPOINT = "model.ckpt-3"


def expected(name: str) -> list[tuple[list[str], dict[str, Any]]]:
    stored = json.loads((DATA / name / "expected.json").read_text("utf-8"))
    return list(zip(stored["sentences"], stored["expected"], strict=True))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of a model, to be damaged."""
    return shutil.copytree(DATA / "characters", tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_tensorflow_vectors_and_probabilities_are_those_of_its_graph(name):
    embedder, scorer = elmo.load(DATA / name), Scorer(formats.load(DATA / name))
    for sentence, theirs in expected(name):
        (vectors,), (seen,) = embedder.embed([sentence]), scorer.score([sentence])
        np.testing.assert_allclose(vectors, np.array(theirs["layers"])[:, 1:-1], atol=3e-6)
        np.testing.assert_allclose([*seen.forward, seen.end], theirs["forward"], atol=2e-6)
        np.testing.assert_allclose([seen.begin, *seen.backward], theirs["backward"], atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_tensorflow_commands_tell_what_is_loaded_and_the_perplexity_of_its_graph(name, tmp_path):
    found, model = formats.describe(DATA / name), formats.load(DATA / name)
    assert (found.format, found.config, found.vocabulary) == ("tensorflow", model.config, model.vocabulary)
    for shapes, weights in ((found.shapes, model.weights), (found.lm_head, model.lm_head)):
        assert shapes == {name: tuple(weight.shape) for name, weight in weights.items()}
    assert "tensorflow" in printed("info", DATA / name)
    (tmp_path / "text.txt").write_text("\n".join(" ".join(words) for words, _ in expected(name)), encoding="utf-8")
    said = printed("perplexity", tmp_path / "text.txt", "--model", DATA / name, "--pretokenized", "--json")
    for direction in ("forward", "backward"):
        chances = [chance for _, theirs in expected(name) for chance in theirs[direction]]
        seen = json.loads(said)["perplexity"]["reset"][direction]
        assert seen == pytest.approx(math.exp(-np.mean(chances)), rel=1e-5)


def test_tensorflow_checkpoint_is_found_by_any_of_its_files():
    for name in ("", f"{CHECKPOINT}.index", f"{CHECKPOINT}.data-00000-of-00001", CHECKPOINT):
        assert formats.describe(DATA / "characters" / name).config.lstm.dim == 6


def test_tensorflow_folder_with_the_published_file_beside_it_is_read_as_that(folder):
    """bilm-tf's users keep both; vectors are the same, and who wants the softmax names the checkpoint."""
    allennlp.save(formats.load(folder), folder / "dumped")
    (folder / "dumped" / "weights.hdf5").rename(folder / "weights.hdf5")
    assert formats.describe(folder).format == "allennlp"
    assert formats.describe(folder / f"{CHECKPOINT}.index").format == "tensorflow"


def test_tensorflow_last_of_several_checkpoints_is_the_one_that_is_named(folder):
    for file in folder.glob(f"{CHECKPOINT}.*"):
        shutil.copy(file, folder / file.name.replace("-3", "-4"))
    data = folder / "model.ckpt-4.data-00000-of-00001"
    data.write_bytes(b"")
    formats.load(folder)
    (folder / "checkpoint").write_text('model_checkpoint_path: "C:\\\\runs\\\\model.ckpt-4"\n')
    with refused("model.ckpt-4"):
        formats.load(folder)
    (folder / "checkpoint").unlink()
    with refused("model.ckpt-3.index", "model.ckpt-4.index", "path"):
        formats.load(folder)


def test_tensorflow_checkpoint_without_its_words_has_no_softmax(folder):
    (folder / "vocab.txt").unlink()
    model = formats.load(folder)
    assert model.lm_head is None
    assert formats.describe(folder).lm_head is None
    with refused("softmax", "vocab.txt"):
        Scorer(model)


# What cannot be read, in one line


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


INDEX, SHARD = f"{CHECKPOINT}.index", f"{CHECKPOINT}.data-00000-of-00001"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "options.json").unlink(), "options; file"),
        (lambda f: edit(f / "options.json", lstm={"dim": 6}), "options.json; 'projection_dim'"),
        (lambda f: edit(f / "options.json", lstm={"dim": 7, "projection_dim": 4, "n_layers": 2}), "shape; (8, 24)"),
        (lambda f: edit(f / "options.json", lstm={"dim": 6, "projection_dim": 4}), "Cell1/LSTMCell/"),
        (lambda f: (f / SHARD).unlink(), "data-00000-of-00001; model.ckpt-3.index"),
        (lambda f: cut(f / SHARD, 3000), "data-00000-of-00001; 3,000 bytes; lm/"),
        (lambda f: flip(f / SHARD, 400), "data-00000-of-00001; lm/; checksum"),
        (lambda f: flip(f / INDEX, 100), "ckpt-3.index; 0; checksum"),
        (lambda f: flip(f / INDEX, -45), "ckpt-3.index"),
        (lambda f: cut(f / INDEX, 1000), "ckpt-3.index; 1,000 bytes"),
        (lambda f: (f / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n"), "vocab.txt; 3 words; table; 10"),
        (lambda f: (f / "vocab.txt").write_text("a\n"), "vocab.txt; <S>"),
    ],
)
def test_tensorflow_model_that_cannot_be_read_is_named_in_one_line(folder, damage, message):
    damage(folder)
    with refused(*message.split("; "), error=(InputError, OSError)):
        formats.load(folder / INDEX)


def test_tensorflow_vocabulary_is_found_beside_what_is_none(folder):
    before = formats.load(folder / INDEX).vocabulary
    (folder / "vocab_counts.txt").write_text("the\t5\n")
    assert formats.load(folder / INDEX).vocabulary == before
    (folder / "vocab.txt").write_text("a\n")
    with refused("vocab.txt", "<S>", "vocab_counts.txt"):
        formats.load(folder / INDEX)


def test_tensorflow_table_of_words_without_the_words_is_named(tmp_path):
    folder = shutil.copytree(DATA / "words", tmp_path / "model", ignore=shutil.ignore_patterns("vocab.txt"))
    with refused("vocab.txt", "model.ckpt-3.index", "10 words", error=FileNotFoundError):
        formats.load(folder)


# Indexes as an independent writer makes them, to say what TensorFlow would not say of a model of words


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protocol buffer; field 6 is a number of four bytes."""
    parts = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts.append(varint(number << 3 | 2) + varint(len(value)) + value)
        elif number == 6:
            parts.append(varint(number << 3 | 5) + struct.pack("<I", value))
        else:
            parts.append(varint(number << 3) + varint(value))
    return b"".join(parts)


def variable(shape: Iterable[int], offset: int, size: int, checksum: int, dtype: int = 1, shard: int = 0) -> bytes:
    sizes = b"".join(message((2, message((1, size)))) for size in shape)
    return message((1, dtype), (2, sizes), (3, shard), (4, offset), (5, size), (6, checksum))


def block(entries: list[tuple[bytes, bytes]], kind: int = 0) -> bytes:
    """Keys share what they have in common with the key before."""
    body, before = b"", b""
    for key, value in entries:
        shared = len(list(takewhile(lambda two: two[0] == two[1], zip(key, before, strict=False))))
        body += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    body += struct.pack("<II", 0, 1) + bytes([kind])
    return body + struct.pack("<I", masked_crc32c(body))


def masked_crc32c(data: bytes) -> int:
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


ONE = {"a": variable([1], 0, 4, 0)}


def write(
    folder: Path, entries: dict[str, bytes], header: bytes = message((1, 1)), numbers=b"", kind=0, times=1
) -> Bundle:
    """A checkpoint of many blocks, read again."""
    items = [(b"", header), *sorted((name.encode(), value) for name, value in entries.items())]
    data, index = b"", []
    for begin in range(0, len(items), 3):
        part = block(items[begin : begin + 3], kind)
        index.append((items[min(begin + 2, len(items) - 1)][0] + b"~", varint(len(data)) + varint(len(part) - 5)))
        data += part
    places = []
    for part in (block([]), block(index * times)):
        places.append(varint(len(data)) + varint(len(part) - 5))
        data += part
    data += b"".join(places).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    prefix = folder / "other.ckpt"
    index_of(prefix).write_bytes(data)
    (folder / "other.ckpt.data-00000-of-00001").write_bytes(numbers)
    return read_index(index_of(prefix))


def test_bundle_of_many_blocks_and_other_types_is_read(tmp_path):
    kinds = {"<f8": 2, "<f4": 1, "<i8": 9, "<f2": 19}
    arrays = {f"lm/layer_{kind}/weight": np.arange(number, dtype=kind) for kind, number in kinds.items()}
    entries, numbers = {}, b""
    for (name, array), dtype in zip(arrays.items(), kinds.values(), strict=True):
        raw = array.tobytes()
        entries[name] = variable(array.shape, len(numbers), len(raw), masked_crc32c(raw), dtype)
        numbers += raw
    bundle = write(tmp_path, entries, numbers=numbers)
    assert list(bundle.variables) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(bundle.read(name), array)


def test_bundle_whose_entries_would_have_the_square_of_its_size_is_refused(tmp_path):
    """Every key takes over all of the one before; or the same blocks are named again and again."""
    with refused(".index", "11,00"):
        write(tmp_path, {"a" * (1_000 * number): ONE["a"] for number in range(1, 12)})
    with refused(".index", "blocks have more bytes"):
        write(tmp_path, {f"{number:04}": ONE["a"] for number in range(300)}, times=20)


def test_bundle_whose_index_has_holes_is_refused(tmp_path):
    write(tmp_path, ONE)
    index = index_of(tmp_path / "other.ckpt")
    end = index.read_bytes()[-48:]
    with index.open("r+b") as file:
        file.seek(1 << 30)
        file.write(end)
    with refused(".index", "too many"):
        read_index(index)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (variable([2], 0, 8, 0, dtype=7), ".index; TensorFlow's; type 7"),
        (variable([3], 0, 8, 0), ".index; (3,); 8 bytes"),
        (variable([2], 0, 8, 0, shard=5), ".index; file 5; 1"),
        (variable([2], 1 << 62, 8, 0), "data-00000-of-00001; 8 bytes; 4,611,686,018,427,387,912"),
        (variable([1 << 40, 1 << 40], 0, 8, 0), ".index; (1099511627776, 1099511627776); 8 bytes"),
        (variable([2], 0, 8, 0) + message((7, b"")), ".index"),
        (variable([2], 0, 8, 0), "data-00000-of-00001; checksum"),
    ],
)
def test_bundle_variable_that_cannot_be_read_is_named(tmp_path, entry, message):
    bundle = write(tmp_path, {"a": entry}, numbers=bytes(range(8)))
    with refused(*message.split("; ")):
        bundle.read("a")


def test_bundle_index_that_cannot_be_read_is_named(tmp_path):
    with refused("big-endian"):
        write(tmp_path, ONE, message((1, 1), (2, 1)))
    with refused("compressed", "kind 1"):
        write(tmp_path, ONE, kind=1)
    for header in (b"\x12\x50", b"\x0b", b"\xff" * 12):
        with refused("damaged"):
            write(tmp_path, ONE, header)


def test_model_of_one_direction_is_named(folder):
    shutil.copy(folder / "options.json", folder.parent / "options.json")
    write(folder.parent, {"lm/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel": variable([2], 0, 8, 0)})
    with refused("one direction"):
        formats.load(folder.parent / "other.ckpt.index")


@pytest.mark.parametrize("rows", [2**44, 2**60])
def test_table_of_words_that_no_vocabulary_has_is_named(folder, rows):
    entries = {"lm/embedding": variable((rows, 4), 0, 8, 0)}
    for direction in range(2):
        cell = f"lm/RNN_{direction}/rnn/lstm_cell"
        for name, shape in (("kernel", (8, 24)), ("bias", (24,)), ("projection/kernel", (6, 4))):
            entries[f"{cell}/{name}"] = variable(shape, 0, 8, 0)
    edit(folder / "options.json", lstm={"dim": 6, "projection_dim": 4, "n_layers": 1}, n_tokens_vocab=10)
    write(folder, entries)
    with refused("vocab.txt", "10 words", f"{rows:,}"):
        formats.describe(folder / "other.ckpt.index")


@pytest.mark.parametrize("name", [".index", ".meta", ".data-00000-of-00001"])
def test_file_of_a_checkpoint_without_a_name_is_none(folder, name):
    (folder / name).write_bytes((folder / INDEX).read_bytes())
    with refused("known model"):
        formats.load(folder / name)
    assert formats.describe(folder).format == tensorflow.FORMAT


def test_without_the_extra_a_checkpoint_is_read_unverified_with_a_warning(folder, monkeypatch):
    before = formats.load(folder).weights
    flip(folder / SHARD, 400)
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    monkeypatch.setattr(tensor_bundle, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"pip install .*\[tensorflow\]"):
        after = formats.load(folder).weights
    assert sum(not torch.equal(before[name], after[name]) for name in before) == 1
