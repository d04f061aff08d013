"""8-bit rows: near the weights, the same bits everywhere, the same file again; and no damage passes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command import printed, run
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal, refused
from safetensors.numpy import load_file, save_file
from tiny import CONFIG, tiny_model

from elmo import Embedder, formats
from elmo.formats import Model, int8_rows, native
from elmo.model.bilm import BiLMConfig
from elmo.model.lstm import LstmConfig
from elmo.text.vocabulary import Vocabulary

LARGE = BiLMConfig(LstmConfig(dim=256, projection_dim=128), CONFIG.char_cnn)
MATRIX = "bilm.layers.0.weight_input"
SCALES = "scales.bilm.layers.0.weight_input"
WORDS = 1000


def large_model() -> Model:
    """A model with matrices of more than 100,000 numbers, a softmax among them."""
    draw = torch.Generator().manual_seed(1)
    words = ("<S>", "</S>", "<UNK>", *(f"word{i}" for i in range(WORDS - 3)))
    head = {"weight": torch.randn(WORDS, 128, generator=draw), "bias": torch.randn(WORDS, generator=draw)}
    return replace(tiny_model(LARGE), lm_head=head, vocabulary=Vocabulary(words))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    native.save(large_model(), tmp_path / "model", store="int8")
    return tmp_path / "model"


@pytest.mark.parametrize("store", ["float32", "float16", "int8"])
def test_a_model_on_another_device_is_stored_as_the_same_file(store, there, tmp_path):
    here = large_model()
    assert here.lm_head is not None
    weights, head = ({name: w.to(there) for name, w in part.items()} for part in (here.weights, here.lm_head))
    native.save(here, tmp_path / "here", store=store)
    native.save(replace(here, weights=weights, lm_head=head), tmp_path / "there", store=store)
    assert (tmp_path / "here" / native.WEIGHTS).read_bytes() == (tmp_path / "there" / native.WEIGHTS).read_bytes()


def by_numpy(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The layout as docs/formats.md has it."""
    values = arrays[name].astype(np.float32)
    return values * arrays[f"scales.{name}"][..., None] if arrays[name].dtype == np.int8 else values


def named(model: Model) -> dict[str, torch.Tensor]:
    """All weights, as the file names them."""
    parts = {"bilm": model.weights, "lm_head": model.lm_head or {}}
    return {f"{part}.{name}": weight for part, weights in parts.items() for name, weight in weights.items()}


def test_large_weights_are_8_bit_rows_and_the_rest_is_float16(folder, tmp_path):
    before, arrays = named(large_model()), load_file(folder / native.WEIGHTS)
    for name, weight in before.items():
        is_large = weight.numel() > 100_000
        assert arrays[name].dtype == (np.int8 if is_large else np.float16)
        assert (f"scales.{name}" in arrays) == is_large
    assert {name for name in arrays if not name.startswith("scales.")} == before.keys()
    assert formats.describe(folder).dtype == "float16/int8"
    native.save(large_model(), tmp_path / "full")
    sizes = [(path / native.WEIGHTS).stat().st_size for path in (folder, tmp_path / "full")]
    assert sizes[0] < 0.29 * sizes[1]


def test_loading_gives_the_bits_of_the_documented_layout(folder):
    arrays, loaded = load_file(folder / native.WEIGHTS), named(formats.load(folder))
    assert "lm_head.bias" in loaded
    for name, weight in loaded.items():
        assert weight.dtype == torch.float32
        assert np.array_equal(weight.numpy().view(np.uint32), by_numpy(arrays, name).view(np.uint32))


def test_what_is_read_and_stored_again_is_the_same_file(folder, tmp_path):
    native.save(formats.load(folder), tmp_path / "again", store="int8")
    for name in (native.CONFIG, native.WEIGHTS, native.VOCABULARY):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    native.save(formats.load(folder), tmp_path / "wide")
    assert np.array_equal(
        Embedder.load(folder).embed([["a", "b"]])[0], Embedder.load(tmp_path / "wide").embed([["a", "b"]])[0]
    )


@given(seed=st.integers(0, 10**6), exponent=st.integers(-45, 37), sort=st.sampled_from(["normal", "heavy", "sparse"]))
def test_any_row_comes_back_from_its_own_integers(seed, exponent, sort):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 40, generator=draw)
    weight = {"normal": weight, "heavy": weight**5, "sparse": weight * (weight > 1.5)}[sort]
    weight = weight * (10.0**exponent / float(weight.abs().max()))
    integers, scales = int8_rows.encode(weight)
    assert torch.isfinite(scales).all()
    assert (scales > 0).all()
    once = int8_rows.decode(integers, scales)
    assert ((once - weight).abs() <= 0.5001 * weight.abs().amax(-1, keepdim=True) / 127 + 1.6e-36).all()
    again = int8_rows.encode(once)
    assert torch.equal(again[0], integers)
    assert torch.equal(int8_rows.decode(*again), once)


def test_rows_of_zeros_and_of_the_smallest_scale_stay():
    for rows in (torch.zeros(2, 40), torch.arange(-127.0, 128.0)[None] * int8_rows.SMALLEST):
        assert torch.equal(int8_rows.decode(*int8_rows.encode(rows)), rows)


def test_what_is_not_finite_is_not_stored(tmp_path):
    model = large_model()
    model.weights["layers.0.weight_input"][0, 3, 5] = torch.nan
    with refused("layers.0.weight_input", "finite"):
        native.save(model, tmp_path / "model", store="int8")
    assert not (tmp_path / "model").exists()


DAMAGES = {
    "without scales": (lambda arrays: {SCALES: None}, "missing"),
    "without rows": (lambda arrays: {MATRIX: arrays[MATRIX].astype(np.float16)}, "no weight of 8-bit integers"),
    "of other rows": (lambda arrays: {SCALES: np.ascontiguousarray(arrays[SCALES][:, 1:])}, "one scale"),
    "of half precision": (lambda arrays: {SCALES: arrays[SCALES].astype(np.float16)}, "one scale"),
    "of nothing": (lambda arrays: {"scales.bilm.layers.9.bias": np.ones(3, np.float32)}, "no weight of 8-bit integers"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_weights_and_scales_that_do_not_match_are_refused(folder, case):
    arrays, (damage, said) = load_file(folder / native.WEIGHTS), DAMAGES[case]
    damaged = arrays | damage(arrays)
    save_file({name: array for name, array in damaged.items() if array is not None}, folder / native.WEIGHTS)
    for read in (formats.describe, formats.load):
        with refused("model.safetensors", "layers", said, "copy it again"):
            read(folder)


@pytest.mark.parametrize(
    ("name", "place", "value", "said"),
    [
        (MATRIX, (0, 0, 0), -128, "-128"),  # it would be stored again as another number
        *[(SCALES, (1, 7), value, "1 of 2,048") for value in (0.0, -1.0, 1e-42, np.nan, np.inf)],
    ],
)
def test_an_integer_or_a_scale_that_no_row_has_is_refused(folder, name, place, value, said):
    arrays = load_file(folder / native.WEIGHTS)
    arrays[name][place] = value
    save_file(arrays, folder / native.WEIGHTS)
    with refused("model.safetensors", MATRIX, said, "copy it again"):
        formats.load(folder)


def test_commands_convert_and_check_it(folder, tmp_path):
    printed("convert", folder, tmp_path / "int8", "--store", "int8")
    assert (tmp_path / "int8" / native.WEIGHTS).read_bytes() == (folder / native.WEIGHTS).read_bytes()
    arrays = load_file(folder / native.WEIGHTS)
    arrays[SCALES][0, 0] = 0
    save_file(arrays, folder / native.WEIGHTS)
    refusal(run("info", folder, "--check"), "scales")
