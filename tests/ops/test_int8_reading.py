"""The compiled LSTM with 8-bit weights: its definition in integers, and that no sentence depends on its batch."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops import int8_reading, packing
from elmo.ops.compiler import shared
from elmo.ops.int8_weights import row_quantized
from elmo.types import LstmState

needs_compiler = pytest.mark.skipif(not int8_reading.has_compiled(), reason="no C compiler, or no AVX2")


def product(weight: torch.Tensor) -> packing.Product:
    return packing.pack(weight, "int8-weights", "compiled")


@needs_compiler
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 40),
    inputs=st.sampled_from([1, 2, 31, 32, 83, 512, 4096]),
    outputs=st.sampled_from([1, 7, 16, 31, 32, 33, 50]),
    scale=st.sampled_from([1e-20, 1.0, 1e20]),
)
def test_products_are_those_of_integers(seed, rows, inputs, outputs, scale):
    """Exact sums of integers, for which a row has one scale and as many bits as no sum of 31 bits can exceed."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=draw) ** 3  # heavy tails: many small, few large
    x = torch.randn(rows, inputs, generator=draw) * scale
    integers, scales = row_quantized(weight)
    limit = min(32767, (2**31 - 1) // (127 * inputs))
    largest = x.abs().amax(1, keepdim=True)
    factor = torch.full_like(largest, limit).div(largest)  # `limit / largest` would multiply by the inverse
    rounded = (x.double() * factor.double()).round()  # the processor adds to the exact product
    sums = rounded @ integers.double().T
    expected = sums * scales.double() * largest.double() / limit
    assert ((product(weight)(x).double() - expected).abs() <= 3e-7 * expected.abs()).all()


@needs_compiler
@pytest.mark.parametrize("inputs", [1, 256, 4096])
def test_the_largest_sums_do_not_overflow(inputs):
    weight, x = torch.full((3, inputs), -2.0), torch.full((5, inputs), 7.0)
    torch.testing.assert_close(product(weight)(x), torch.full((5, 3), -14.0 * inputs), rtol=1e-6, atol=0)


@needs_compiler
def test_zeros_stay_zeros_and_what_is_not_finite_is_seen():
    x = torch.ones(4, 8)
    x[1], x[2, 3], x[3, 5] = 0, torch.nan, torch.inf
    seen = product(torch.ones(2, 8))(x)
    assert torch.equal(seen[1], torch.zeros(2))
    assert seen.isnan().tolist() == [[False] * 2, [False] * 2, [True] * 2, [True] * 2]


def model(projection: bool = True, clip: float | None = 0.5, cells: int = 64) -> BiLM:
    torch.manual_seed(0)
    config = BiLMConfig(
        LstmConfig(cells if projection else 32, 32, 2, clip, clip and clip / 4), CharCnnConfig(8, ((1, 8), (3, 24)), 1)
    )
    bilm = BiLM(config).eval()
    for layer in bilm.layers:
        torch.nn.init.normal_(layer.bias, std=0.3)
        for weight in layer.parameters():
            if weight.dim() == 3:  # as they are stored with 8 bits: what is left is the rounding of the inputs
                for part in weight.data:
                    integers, scales = row_quantized(part)
                    part.copy_(integers * scales[:, None])
    return bilm


@needs_compiler
@pytest.mark.parametrize("clip", [0.5, None])
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("more", [False, True])
def test_it_reads_like_the_reference(rows, projection, clip, more, monkeypatch):
    """From and to a state, in chunks of two steps; `more`: rows that end, and sentences that begin within a row."""
    monkeypatch.setattr("elmo.ops.packed_lstm.READ_AT_ONCE", 2 * rows)
    bilm = model(projection, clip, cells=50)
    active = [rows] * 3 + [max(1, rows - 2)] * 2 + [1] * 2 if more else None
    keep = (torch.rand(7, rows) < 0.6).expand(2, -1, -1) if more else None
    inputs = torch.randn(2, 7, rows, 32)
    state = LstmState(torch.randn(2, 2, rows, 32) / 9, torch.randn(2, 2, rows, 50 if projection else 32) / 2)
    with torch.inference_mode():
        seen = bilm.packed("int8-weights", "compiled").read(inputs, state, active, keep)
        expected = bilm.read(inputs, state, active, keep)
    torch.testing.assert_close(seen, expected, rtol=0, atol=3e-4)
    assert all(torch.equal(one == 0, other == 0) for one, other in zip(seen[0], expected[0], strict=True))  # ended rows


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_sentences_vectors_depend_on_nothing_else(threads):
    sentences = [[f"word{number}" for number in range(length)] for length in (9, 2, 30, 1, *range(1, 40))]
    embedder = Embedder(model(), device="cpu", precision="int8-weights")
    alone = [embedder.embed([sentence])[0] for sentence in sentences]
    torch.set_num_threads(threads)
    for seen, expected in zip(embedder.embed(sentences), alone, strict=True):
        assert (seen == expected).all()


def of_zeros(library, work, step, *rest):
    """The product of other inputs than were given."""
    zeros = torch.zeros(10_000)
    step.x = zeros.data_ptr()
    shared(library, work, step, *rest)


@pytest.mark.parametrize("fault", ["no compiler", "wrong", "no AVX2", "not x86"])
def test_it_is_not_taken_on_trust(fault, monkeypatch):
    if fault == "no compiler":
        monkeypatch.setenv("CC", os.devnull)
    elif fault == "wrong":
        monkeypatch.setattr(int8_reading, "shared", of_zeros)
    elif fault == "no AVX2":
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    else:
        monkeypatch.setattr("platform.machine", lambda: "aarch64")
    int8_reading.load_library.cache_clear()
    try:
        assert not int8_reading.has_compiled()
        assert "compiled" not in packing.find_support.__wrapped__("int8-weights").libraries
    finally:
        int8_reading.load_library.cache_clear()


@needs_compiler
@pytest.mark.usefixtures("doubles")
def test_it_is_found_where_new_tensors_are_float64():
    int8_reading.load_library.cache_clear()
    assert int8_reading.has_compiled()
