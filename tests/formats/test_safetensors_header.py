"""The header of a safetensors file, against the library that wrote it."""

import json
from pathlib import Path

import numpy as np
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from safetensors.numpy import save

from elmo.errors import InputError
from elmo.formats.safetensors_header import MOST_HEADER, read_header

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
KINDS = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I64": np.int64}
ARRAYS = st.dictionaries(st.text(max_size=5), st.tuples(st.sampled_from(sorted(KINDS)), SHAPES), max_size=4)


def written(arrays: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    return save({name: np.zeros(shape, KINDS[kind]) for name, (kind, shape) in arrays.items()})


def accepts(file: Path) -> bool:
    """Whether the library opens it."""
    try:
        safetensors.deserialize(file.read_bytes())
    except safetensors.SafetensorError:
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(arrays=ARRAYS, data=st.data())
def test_a_file_is_read_as_it_was_written_and_if_damaged_refused_as_by_the_library(arrays, data, tmp_path_factory):
    """Cut, made longer, or with other numbers in the header. Another byte may make a kind that only we let pass."""
    raw, file = written(arrays), tmp_path_factory.mktemp("header") / "a.safetensors"
    file.write_bytes(raw)
    assert read_header(file) == arrays
    length = int.from_bytes(raw[:8], "little")
    values = json.loads(raw[8 : 8 + length])
    kind = data.draw(st.sampled_from(["cut", "longer", "offsets", "shape", "bytes"]))
    if kind == "cut":
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    elif kind == "longer":
        raw += b"\0"
    elif kind == "bytes":
        place = data.draw(st.integers(8, 7 + length))
        raw = raw[:place] + data.draw(st.binary(min_size=1, max_size=1)) + raw[place + 1 :]
    elif values:
        name = data.draw(st.sampled_from(sorted(values)))
        key = "data_offsets" if kind == "offsets" else "shape"
        values[name][key] = data.draw(st.lists(st.integers(-1, 9), max_size=3))
        header = json.dumps(values).encode()
        raw = len(header).to_bytes(8, "little") + header + raw[8 + length :]
    file.write_bytes(raw)
    try:
        read_header(file)
        is_read = True
    except InputError:
        is_read = False
    assert is_read == accepts(file) or (kind == "bytes" and is_read)


def test_a_header_that_is_too_long_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "a.safetensors"
    with file.open("wb") as output:
        output.write((MOST_HEADER + 1).to_bytes(8, "little"))
        output.truncate(MOST_HEADER + 100)
    with refused("a.safetensors", "too many"):
        read_header(file)
