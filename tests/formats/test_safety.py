"""Files from strangers: nothing is run, nothing leaves its place, nothing fills memory or disk; said in one line."""

import gzip
import io
import json
import os
import pickle
import re
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from archives import STATE, archived, as_torch
from bilm_files import (
    CHARACTERS,
    READS_WORDS,
    VOCABULARY,
    as_hdf5,
    as_json,
    as_vocabulary,
    random_weights,
    write_folder,
    write_tar,
    write_zip,
)
from command import Command, run
from refusals import refusal, refused

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats.files import BOMB_FROM, SourceFile, file_on_disk, is_archive, list_files
from elmo.formats.torch_file import read_state_dict, read_state_headers
from elmo.text.vocabulary import MOST_BYTES, MOST_WORDS, Vocabulary

WEIGHTS = random_weights(CHARACTERS, 1)
FILES = {"options.json": as_json(CHARACTERS), "model.hdf5": as_hdf5(WEIGHTS)}
WORD_FILES = {
    "options.json": as_json(READS_WORDS),
    "model.hdf5": as_hdf5(random_weights(READS_WORDS, 1)),
    "vocab.txt": as_vocabulary(VOCABULARY),
}


def cannot_load(path: Path, *words: str) -> None:
    """One line has all the words, and nothing is left beside the file."""
    before = sorted(path.parent.rglob("*"))
    with refused(*words, error=(InputError, FileNotFoundError)):
        elmo.load(path)
    assert sorted(path.parent.rglob("*")) == before


def with_weights(folder: Path, weights: bytes) -> Path:
    """AllenNLP's archive with such a file of weights."""
    return write_tar(folder / "model.tar.gz", {**archived(STATE), "weights.th": weights})


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


# Code


class Evil:
    """What a pickle can be: a call of any function when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("how", ["alone", "among the weights"])
def test_a_malicious_pickle_is_not_run(tmp_path, legacy, how):
    evil = Evil(tmp_path / "run")
    state = evil if how == "alone" else {**STATE, "evil": evil}
    path, words = with_weights(tmp_path, as_torch(state, legacy)), ("weights.th", ".mkdir", "only tensors")
    cannot_load(path, *words)
    with refused(*words):
        formats.describe(path)
    refusal(run("info", path), *words)
    assert not (tmp_path / "run").exists()


def pickled(instructions: bytes) -> bytes:
    """A file of torch whose pickle has these instructions."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(as_torch(STATE))) as whole, zipfile.ZipFile(file, "w") as crafted:
        for name in whole.namelist():
            crafted.writestr(name, instructions if name.endswith("data.pkl") else whole.read(name))
    return file.getvalue()


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


INSTRUCTIONS = {
    "GLOBAL and REDUCE": b"\x80\x02cos\nmkdir\n%s\x85R.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93%s\x85R.",
    "INST": b"\x80\x02(%sios\nmkdir\n.",
    "OBJ": b"\x80\x02(cos\nmkdir\n%so.",
    "NEWOBJ": b"\x80\x02cos\nmkdir\n%s\x85\x81.",
    "REDUCE of a string": b"\x80\x02" + text("os.mkdir") + b"%s\x85R.",
    "REDUCE of what torch has": b"\x80\x02ctorch\nload\n%s\x85R.",
    "REDUCE of what is allowed": b"\x80\x02ctorch\nSize\n%s\x85R.",
    "BUILD": b"\x80\x02ccollections\nOrderedDict\n)R}" + text("__class__") + b"%ssb.",
    "PERSID": b"\x80\x02Pfoo\n.",
    "BINPERSID": b"\x80\x02%sQ.",
    "EXT1": b"\x80\x02\x82\x01.",
    "getattr": b"\x80\x02cbuiltins\ngetattr\n%s\x85R.",
}


@pytest.mark.parametrize("kind", INSTRUCTIONS)
def test_no_instruction_is_followed_and_no_advice_to_follow_it_repeated(tmp_path, kind):
    instructions = INSTRUCTIONS[kind].replace(b"%s", text(str(tmp_path / "run")))
    path = with_weights(tmp_path, pickled(instructions))
    for read in (elmo.load, formats.describe):
        with refused("weights.th") as caught:
            read(path)
        assert "weights_only" not in str(caught.value)
        assert "torch.load" not in str(caught.value) or kind == "REDUCE of what torch has"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_no_memory_is_filled_by_what_no_tensor_needs(tmp_path, legacy):
    """torch allows bytearray, and a number of a few bytes says how large it is."""
    bomb = b"\x80\x02cbuiltins\nbytearray\nJ" + (200_000_000).to_bytes(4, "little") + b"\x85R."
    state = as_torch(STATE, legacy)
    first = state.index(b".") + 1
    weights = state[:first] + bomb + state[first:] if legacy else pickled(bomb)  # the second of several pickles
    cannot_load(with_weights(tmp_path, weights), "weights.th", "bytearray", "only tensors")


@pytest.mark.parametrize("trick", ["capitals", "a wrong sum"])
def test_no_pickle_is_read_unseen(tmp_path, trick):
    """torch finds members by names in any case, and compares no sums."""
    bomb = b"\x80\x02cbuiltins\nbytearray\nJ" + (50_000_000).to_bytes(4, "little") + b"\x85R."
    data = pickled(bomb)
    if trick == "capitals":
        data = data.replace(b"/data.pkl", b"/DATA.PKL")
    else:
        data = data.replace(zlib.crc32(bomb).to_bytes(4, "little"), b"\0\1\2\3")
    with little_memory():
        cannot_load(with_weights(tmp_path, data), "weights.th")


FEW = 30
ORDERED = b"ccollections\nOrderedDict\n"
LARGE = b"}(" + b"".join(b"J" + number.to_bytes(4, "little") + b"N" for number in range(50_000)) + b"uq\x01"
"""A dictionary that is kept as number 1; it takes some 5 MB of memory."""
TENSOR = (
    b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    + b"M\x12\x03tQK\x00J\x00\x00\x00\x01\x85K\x00\x85\x89" + ORDERED + b")RtR"
)  # fmt: skip
"""A tensor of one number, which is repeated 2**24 times."""
COPIES = {
    "dictionaries of a dictionary": (b"(" + LARGE + (ORDERED + b"h\x01\x85R") * FEW + b"t", "dictionary"),
    "one of another": (ORDERED * FEW + LARGE + b"".join(b"\x85Rq%c" % k for k in range(2, FEW + 2)), "dictionary"),
    "attributes": (b"(" + LARGE + (ORDERED + b")Rh\x01b") * FEW + b"t", "dictionary"),
    "attributes, of which one is new": (b"(" + LARGE + (ORDERED + b")Rh\x01NNsb") * FEW + b"t", "dictionary"),
    "attributes of one that was made of a list": (
        b"(" + ORDERED + b"]\x85Rq\x01" + LARGE[1:-2] + (ORDERED + b")Rh\x01b") * FEW + b"t",
        "dictionary",
    ),
    "attributes in a tuple": (b"(" + LARGE + b"\x85q\x02" + (ORDERED + b")Rh\x02b") * FEW + b"t", "dictionary"),
    "a tensor in another type": (
        b"ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n("
        + (TENSOR + b"ctorch\nfloat64\n" + text("cpu") + b"\x89tR"),
        "_rebuild_device",
    ),
}


@pytest.mark.parametrize("kind", COPIES)
def test_no_memory_is_filled_by_copies(tmp_path, kind):
    """Each copy takes a few bytes of the file, and could take the memory of the whole."""
    instructions, word = COPIES[kind]
    path = with_weights(tmp_path, pickled(b"\x80\x02" + instructions + b"."))
    with little_memory():
        cannot_load(path, "weights.th", word, "only tensors")


class AsInPython2(pickle._Pickler):
    """Writes ordered dictionaries as Python 2 did: the class is called with a list of its items."""

    def reducer_override(self, given: Any) -> Any:
        if not isinstance(given, OrderedDict):
            return NotImplemented
        return OrderedDict, ([[name, each] for name, each in given.items()],)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_state_dict_of_python_2_is_read(tmp_path, legacy):
    module = ModuleType("pickle_of_python_2")
    vars(module).update(vars(pickle), Pickler=AsInPython2)
    vars(module)["dump"] = lambda given, file, protocol: AsInPython2(file, protocol).dump(given)
    own = OrderedDict(a=torch.ones(2), b=torch.tensor(3.0))
    torch.save(own, tmp_path / "weights.th", module, _use_new_zipfile_serialization=not legacy)
    found = read_state_dict(file_on_disk(tmp_path / "weights.th"))
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"a": [1, 1], "b": 3}


def test_a_checkpoint_with_an_optimizer_is_not_taken_for_a_state_dict(tmp_path):
    """Its groups share a tuple of betas."""
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    training = {"model": {"a": torch.zeros(1)}, "optimizer": torch.optim.Adam(groups).state_dict()}
    (tmp_path / "weights.th").write_bytes(as_torch(training))
    with refused("weights.th", "state dict", "training"):
        read_state_dict(file_on_disk(tmp_path / "weights.th"))


def test_a_torch_file_with_a_damaged_zip_is_one_line(tmp_path):
    """Every byte of the headers that zipfile reads may be another one."""
    data = as_torch({"a": torch.zeros(1)})
    directory = data.index(b"PK\1\2")
    for place in (*range(46), *range(directory, directory + 62), *range(len(data) - 98, len(data))):
        (tmp_path / "weights.th").write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with suppress(InputError):  # some bytes are not read
            assert set(read_state_headers(file_on_disk(tmp_path / "weights.th"))) == {"a"}


def test_a_torch_file_that_is_compressed_is_refused(tmp_path):
    with zipfile.ZipFile(io.BytesIO(as_torch(STATE))) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    path = with_weights(tmp_path, write_zip(tmp_path / "packed", members).read_bytes())
    cannot_load(path, "weights.th", "compressed")


def test_a_tensor_that_repeats_few_numbers_is_refused(tmp_path):
    """Its shape is the writer's choice, whatever the size of the file."""
    name = next(iter(STATE))
    repeated = {**STATE, name: torch.zeros(1).expand(STATE[name].shape)}
    cannot_load(with_weights(tmp_path, as_torch(repeated)), "weights.th", name)


# Places


def tar_header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """One block of a tar, with numbers as they stand."""
    head = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size + b"00000000000\0" + b" " * 8 + kind
    head = (head + b"\0" * 100 + b"ustar\x0000").ljust(512, b"\0")
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def sparse_tar(name: str, value: str) -> bytes:
    """A tar with such a field among the headers of its member."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("options.json")
        info.pax_headers = {name: value, "GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        info.size = 512
        archive.addfile(info, io.BytesIO(b"q" * 512))
    return file.getvalue()


EMPTY, NEGATIVE = b"00000000000\0", (-512).to_bytes(12, "big", signed=True)
"""Sizes; the second in the two's complement that tar has for large ones."""
HEADER_OF_10_BYTES = b"9 a=bcd\n".ljust(512, b"\0")
TARS = {
    "leads back into itself (CVE-2025-8194)": tar_header(b"a", EMPTY) + tar_header(b"b", NEGATIVE) + bytes(1024),
    **{
        f"announces {size} as {kind}": tar_header(b"a", b"\x80" + size.to_bytes(11, "big"), kind) + bytes(2048)
        for kind in (b"x", b"L", b"g", b"0")
        for size in (2**45, 2**70)
    },
    **{  # tarfile calls itself for each header
        f"headers {kind} for ever": (tar_header(b"a", b"00000000010\0", kind) + HEADER_OF_10_BYTES) * 2000
        + tar_header(b"b", EMPTY)
        for kind in (b"x", b"L", b"K")
    },
    "a map of no numbers": sparse_tar("GNU.sparse.map", "a,b"),
    "a size that is no number": sparse_tar("GNU.sparse.size", "abc"),
    "no map": sparse_tar("GNU.sparse.name", "x"),
}


@pytest.mark.parametrize("kind", TARS)
def test_a_damaged_tar_is_refused(tmp_path, kind):
    (tmp_path / "model.tar").write_bytes(TARS[kind])
    cannot_load(tmp_path / "model.tar", "model.tar", "damaged", "copy it again")


@pytest.mark.parametrize("name", ["../options.json", "/tmp/options.json", "a/../../b", "..\\b", "C:\\b"])
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    words = "outside the archive", "do not use it"
    cannot_load(write_zip(folder / "model.zip", {**FILES, name: b"{}"}), *words)
    cannot_load(write_tar(folder / "model.tar.gz", {**FILES, name: b"{}"}), *words)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder"]


def test_links_in_a_tar_are_not_followed(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_bytes(FILES["options.json"])
    path = tmp_path / "model.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in (("options.json", tarfile.SYMTYPE), ("options2.json", tarfile.LNKTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
        info = tarfile.TarInfo("model.hdf5")
        info.size = len(FILES["model.hdf5"])
        archive.addfile(info, io.BytesIO(FILES["model.hdf5"]))
    cannot_load(path, "model.tar", "not a known model", "model.hdf5")


def test_weights_in_another_file_are_not_read(tmp_path):
    write_folder(tmp_path / "other", {"other.hdf5": FILES["model.hdf5"]})
    (tmp_path / "other" / "raw").write_bytes(WEIGHTS["char_embed"].tobytes())
    for kind in ("link", "external", "virtual"):
        folder = write_folder(tmp_path / kind, FILES)
        with h5py.File(folder / "model.hdf5", "a") as file:
            del file["char_embed"]
            if kind == "link":
                file["char_embed"] = h5py.ExternalLink(str(tmp_path / "other" / "other.hdf5"), "char_embed")
            elif kind == "external":
                raw = [(str(tmp_path / "other" / "raw"), 0, h5py.h5f.UNLIMITED)]
                file.create_dataset("char_embed", (261, 3), "f4", external=raw)
            else:
                layout = h5py.VirtualLayout((261, 3), "f4")
                layout[:] = h5py.VirtualSource(tmp_path / "other" / "other.hdf5", "char_embed", (261, 3))
                file.create_virtual_dataset("char_embed", layout)
        words = ("char_embed", "embedding") if kind == "link" else ("char_embed", "another file")
        cannot_load(folder, *words)


# Sizes


def test_a_zip_bomb_is_refused_while_it_is_read(tmp_path):
    bomb = {**FILES, "model.hdf5": b"\x89HDF\r\n\x1a\n" + bytes(200_000_000)}
    zipped, tarred = write_zip(tmp_path / "bomb.zip", bomb), write_tar(tmp_path / "bomb.tar.gz", bomb)
    assert zipped.stat().st_size < 1_000_000
    cannot_load(tarred, "bomb.tar.gz", "unpack to more than")
    cannot_load(zipped, "bomb.zip/model.hdf5")


def test_a_bomb_takes_no_memory(tmp_path):
    """300 MB of zeros behind weights that are read, in a process of its own."""
    quiet = Command("info", with_weights(tmp_path, as_torch(STATE)))
    assert quiet.wait().returncode == 0
    command = Command("info", with_weights(tmp_path, as_torch(STATE) + bytes(300_000_000)))
    refusal(command.wait(), "unpack to more than")
    assert command.peak < quiet.peak + 100_000_000


@pytest.mark.parametrize("size", [50_000_000, 4_000_000_000])
def test_a_zip_that_lies_about_its_sizes_is_read_no_further_than_it_goes(tmp_path, size):
    path = write_zip(tmp_path / "lie.zip", FILES)
    data = path.read_bytes()
    entry = data.rindex(b"PK\x01\x02")  # that of model.hdf5: its size is at 24
    path.write_bytes(data[: entry + 24] + struct.pack("<I", size) + data[entry + 28 :])
    member = member_of(path, "model.hdf5")
    assert member.size == size
    if size > BOMB_FROM:
        cannot_load(path, "lie.zip/model.hdf5", "unpack to more than")
    else:
        assert member.read(size) == FILES["model.hdf5"]


@pytest.mark.parametrize("where", ["a zip", "weights"])
def test_a_zip_that_lies_about_its_number_of_members_is_refused(tmp_path, where):
    path = write_zip(tmp_path / "model.zip", {f"options{number}.json": b"" for number in range(10_001)})
    whole = path.read_bytes()
    lie = whole[:-14] + struct.pack("<HH", 1, 1) + whole[-10:]
    path.write_bytes(lie)
    cannot_load(path if where == "a zip" else with_weights(tmp_path, lie), "model.", "10,000")


def test_a_zip_of_many_long_names_is_listed(tmp_path):
    """Such as that of a repository, whose history has thousands of files."""
    path = write_zip(tmp_path / "model.zip", {f"{'objects/' * 10}{number:040x}": b"" for number in range(4000)})
    assert len(list_files(path)) == 4000


def test_a_json_bomb_is_no_candidate(tmp_path):
    for data in (b"[" * 2_000_000, b'{"lstm": ' * 50_000, b'{"lstm": {"dim": ' + b"9" * 5000 + b"}}"):
        cannot_load(write_folder(tmp_path / "model", {**FILES, "options.json": data}))


def test_a_bomb_of_a_vocabulary_is_refused(tmp_path):
    packed = words(vocab_txt=None, vocab_txt_gz=gzip.compress(b"a" * 10_000_000))
    cannot_load(write_folder(tmp_path / "model", packed), "vocab.txt.gz", "unpack to more than")
    cannot_load(write_folder(tmp_path / "more", words(vocab_txt=b"a\n" * 1_000_000)), "vocab.txt", "too many")


@pytest.mark.parametrize("lines", [False, True])
def test_a_vocabulary_that_would_fill_the_memory_is_refused(tmp_path, lines):
    path = tmp_path / "vocab.txt"
    path.write_bytes(bytes(3))
    os.truncate(path, MOST_BYTES + 1)  # a file of holes
    if lines:
        path.write_bytes(b"\n" * (MOST_WORDS + 1))
    with refused("vocab.txt", "more than"):
        Vocabulary.load(path)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_dataset_larger_than_what_is_stored_is_refused(tmp_path, compression):
    """HDF5 can say a terabyte and hold nothing; the options agree with it here."""
    folder = write_folder(tmp_path / "model", changed("lstm", dim=2**31))
    with h5py.File(folder / "model.hdf5", "a") as file:
        for direction in range(2):
            for layer in range(2):
                cell: Any = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
                for name, shape in (("W_0", (8, 2**33)), ("B", (2**33,)), ("W_P_0", (2**31, 4))):
                    del cell[name]
                    cell.create_dataset(name, shape, "f4", chunks=True, compression=compression)
    words = "model.hdf5", "RNN_0", "0 are stored"
    cannot_load(folder, *words)
    with refused(*words):
        formats.describe(folder)


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("lstm", "n_layers", 10**9, "options.json n_layers 1000000000"),
        ("char_cnn", "n_highway", 10**9, "options.json n_highway 1000000000"),
        ("char_cnn", "max_characters_per_token", 10**9, "options.json max_characters_per_token 1000000000"),
        ("lstm", "dim", 10**18, "model.hdf5 shape"),
    ],
)
def test_numbers_that_would_fill_the_memory_are_refused(tmp_path, section, key, value, words):
    cannot_load(write_folder(tmp_path / "model", changed(section, **{key: value})), *words.split())


# Malformed


def options(**tables: Any) -> dict[str, bytes]:
    written = {name: table for name, table in {**CHARACTERS, **tables}.items() if table is not None}
    return {**FILES, "options.json": as_json(written)}


def changed(section: str, **values: Any) -> dict[str, bytes]:
    return options(**{section: {**CHARACTERS[section], **values}})


def stored(**values: Any) -> dict[str, bytes]:
    weights = {name: weight for name, weight in {**WEIGHTS, **values}.items() if weight is not None}
    return {**FILES, "model.hdf5": as_hdf5(weights)}


def words(**files: bytes | None) -> dict[str, bytes]:
    named = {name.replace("_", "."): data for name, data in files.items()}
    return {name: data for name, data in {**WORD_FILES, **named}.items() if data is not None}


TWICE = b'{"lstm": {"dim": 3}, ' + FILES["options.json"][1:]
PACKED = gzip.compress(WORD_FILES["vocab.txt"])
MALFORMED = {
    "options of another kind": ({**FILES, "options.json": b"[1]"}, "known model"),
    "options with a key twice": ({**FILES, "options.json": TWICE}, "options.json 'lstm' twice fix"),
    "a table that is a number": (changed("char_cnn", embedding=3), "options.json char_cnn.embedding 3 table"),
    "characters that are a list": (options(char_cnn=[1]), "options.json char_cnn [1] table"),
    "no characters and no words": (options(char_cnn=None), "options.json 'char_cnn' add"),
    "a size that is text": (changed("lstm", dim="6"), "options.json lstm.dim '6' number"),
    "a size that is not a number": (changed("lstm", dim=float("nan")), "options.json lstm.dim nan number"),
    "a size below 1": (changed("lstm", projection_dim=0), "options.json projection_dim 0 1"),
    "a clip below 0": (changed("lstm", cell_clip=-3), "options.json cell_clip -3.0 positive"),
    "filters in no pairs": (changed("char_cnn", filters=[[1, 2, 3]]), "options.json char_cnn.filters[0] 3"),
    "filters that are missing": (changed("char_cnn", filters=None), "options.json char_cnn.filters None list"),
    "words too short for a filter": (changed("char_cnn", max_characters_per_token=2), "max_characters_per_token 2"),
    "an activation of its own": (changed("char_cnn", activation="gelu"), "char_cnn.activation 'gelu'"),
    "weights that are text": ({**FILES, "model.hdf5": b"weights"}, "known model.hdf5 7"),
    "weights that are cut": ({**FILES, "model.hdf5": FILES["model.hdf5"][:5000]}, "model.hdf5 damaged fetch"),
    "weights of whole numbers": (stored(char_embed=np.ones((261, 3), int)), "model.hdf5 char_embed int64 floating"),
    "weights of text": (stored(char_embed=np.full((261, 3), b"x")), "model.hdf5 char_embed |S1"),
    "a table of one dimension": (stored(char_embed=np.ones(261, np.float32)), "char_embed (261,) two"),
    "too few characters": (stored(char_embed=np.ones((60, 3), np.float32)), "char_embed 60 261"),
    "an array that is missing": (stored(**{"CNN_proj/b_proj": None}), "model.hdf5 CNN_proj/b_proj missing"),
    "an array too many": (stored(**{"CNN/b_cnn_2": np.ones(3, np.float32)}), "b_cnn_2 (3,)"),
    "no vocabulary": (words(vocab_txt=None), "vocab.txt model.hdf5 6"),
    "a vocabulary that is too short": (words(vocab_txt=as_vocabulary(VOCABULARY[:-1])), "vocab.txt 5 model.hdf5 6"),
    "a vocabulary without <UNK>": (words(vocab_txt=b"<S>\n</S>\na\nb\nc\nd\n"), "vocab.txt <UNK>"),
    "a vocabulary in Latin-1": (words(vocab_txt="na\xefve\n".encode("latin-1")), "vocab.txt 1 UTF-8"),
    "a vocabulary that is not packed": (words(vocab_txt=None, vocab_txt_gz=PACKED[1:]), "vocab.txt.gz damaged gzip"),
    "a vocabulary that is cut": (words(vocab_txt=None, vocab_txt_gz=PACKED[:-9]), "vocab.txt.gz damaged gzip"),
    "an array of nothing": (stored(char_embed=h5py.Empty("f4")), "model.hdf5 char_embed embedding"),
    "vectors for weights": ({**FILES, "model.hdf5": as_hdf5({"0": np.ones((3, 2, 8))})}, "model.hdf5 weights"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_models_are_refused_in_one_line(tmp_path, case, packed):
    files, words = MALFORMED[case]
    cannot_load((write_zip if packed else write_folder)(tmp_path / "model", files), *words.split())


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", ["options.json", "model.hdf5", "vocab.txt", "config.json", "weights.th"])
def test_a_member_of_a_zip_that_is_not_what_was_packed_is_refused(tmp_path, name, compression):
    files = WORD_FILES if name in WORD_FILES else archived(STATE)
    path = write_zip(tmp_path / "model.zip", files, compression)
    with zipfile.ZipFile(path) as archive:
        crc = archive.getinfo(name).CRC
    first, _, last = path.read_bytes().rpartition(struct.pack("<I", crc))  # the last one is that of the directory
    path.write_bytes(first + struct.pack("<I", crc ^ 1) + last)
    cannot_load(path, name, "damaged", "CRC", "copy it again")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [(8, 9, ("compression", "unpack")), (6, 1, ("encrypted", "password"))],  # 9 is deflate64
    ids=["compression", "flags"],
)
def test_a_zip_that_python_cannot_unpack_is_named(tmp_path, field, value, words):
    """`field` is the place of the value in a member's header; in the directory it is 2 bytes further on."""
    path = write_zip(tmp_path / "model.zip", FILES)
    raw = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", field), (b"PK\x01\x02", field + 2)):
        for found in re.finditer(mark, raw):
            raw[found.start() + place] = value
    path.write_bytes(raw)
    cannot_load(path, "model.zip/options.json", *words)


# Members


def member_of(path: Path, name: str) -> SourceFile:
    (found,) = (file for file in list_files(path) if file.name == name)
    return found


ZIPPED = {"zip": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2}
ZIPPED |= {"lzma": zipfile.ZIP_LZMA}


@pytest.mark.parametrize("kind", [*ZIPPED, "tar", "tar.gz", "streams"])
def test_any_place_of_a_member_is_what_was_packed(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    whole = np.random.default_rng(1).integers(0, 20, 2_500_000, np.uint8).tobytes()
    members = {"a.json": b"{}", "weights": whole, "z.json": b"[]"}
    path = tmp_path / "m"
    if kind in ZIPPED:
        write_zip(path, members, ZIPPED[kind])
    else:
        write_tar(path, members)
        tar = gzip.decompress(path.read_bytes())
        size = len(tar) // 3 + 1
        parts = [gzip.compress(tar[begin : begin + size], 1) for begin in range(0, len(tar), size)]
        path.write_bytes({"tar": tar, "tar.gz": gzip.compress(tar, 1), "streams": b"".join(parts)}[kind])
    with member_of(path, "weights").open() as file, member_of(path, "weights").open() as other:
        for place, count in ((2_000_000, 300_000), (0, 10), (1_234_567, 1), (2_499_990, 100)):
            file.seek(place)
            assert file.read(count) == whole[place : place + count]
        assert other.read() == whole
        assert file.seek(0, io.SEEK_END) == len(whole)
        assert file.read(10) == b""
    assert member_of(path, "z.json").json() == []
    assert member_of(path, "weights").first(5) == whole[:5]
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_damaged_member_is_named(tmp_path, kind):
    files = {**FILES, "model.hdf5": FILES["model.hdf5"] + np.random.default_rng(1).bytes(200_000)}
    path = (write_zip if kind == "zip" else write_tar)(tmp_path / f"m.{kind}", files)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    cannot_load(path, f"m.{kind}", "damaged")


def test_a_full_temporary_folder_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.formats.files.IN_MEMORY", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with refused("options.json", "nowhere", "TMPDIR"):
        elmo.load(write_zip(tmp_path / "model.zip", FILES))


def test_what_is_no_archive_is_not_taken_for_one(tmp_path):
    (tmp_path / "text").write_text("a text that is no archive")
    (tmp_path / "empty").write_bytes(b"")
    assert not any(map(is_archive, (tmp_path / "text", tmp_path / "empty", tmp_path)))
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"a line\n" * 500))
    cannot_load(tmp_path / "text.gz", "text.gz", "gunzip")
    (tmp_path / "meta.json").write_text(json.dumps({}))
    cannot_load(tmp_path / "meta.json", "not a known model")


@pytest.mark.parametrize(("mode", "remedy"), [("xz", "unxz"), ("bz2", "bunzip2")])
def test_a_tar_that_is_compressed_in_another_way_is_to_be_unpacked(tmp_path, mode, remedy):
    name = f"model.tar.{mode}"
    cannot_load(write_tar(tmp_path / name, FILES, f"w:{mode}"), name, remedy)
