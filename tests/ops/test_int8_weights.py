"""Products with 8-bit weights and the LSTM that reads by them: their definitions, by torch and by the compiled code.

No sentence depends on its batch, few rows are read like many, and a processor without them uses float32.
"""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops import int8_reading, int8_weights, packing
from elmo.ops.compiler import shared
from elmo.ops.int8_weights import Int8WeightsProduct, row_quantized
from elmo.types import LstmState

FEW = int8_weights.has_few_rows()
needs_few_rows = pytest.mark.skipif(not FEW, reason="this CPU has no fast product of few rows with 8-bit weights")
needs_compiler = pytest.mark.skipif(not int8_reading.has_compiled(), reason="no C compiler, or no AVX2")
LIBRARIES = [library for library in packing.find_support("int8-weights").libraries if library != "compiled"]


@pytest.mark.skipif(
    not packing.is_x86() or torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="for x86 with AVX2"
)
def test_the_product_of_few_rows_is_found_where_torch_has_it():
    """Fails when torch drops the operator: then the fast path is lost, and should be mended."""
    assert FEW


# Products


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
def test_compiled_products_are_those_of_integers(seed, rows, inputs, outputs, scale):
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


def by_definition(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """In float64, except that inputs and sums are bfloat16."""
    scales = weight.abs().amax(1).clamp(min=1e-35) / 127
    integers = (weight / scales[:, None]).round().double()
    return (x.bfloat16().double() @ integers.T).bfloat16().double() * scales.double()


@pytest.mark.parametrize("library", LIBRARIES)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 40),
    inputs=st.sampled_from([1, 16, 31, 32, 48, 64, 160, 512]),
    outputs=st.integers(1, 50),
)
def test_products_of_torch_equal_their_definition(library, seed, rows, inputs, outputs):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=draw) ** 3
    x = torch.randn(rows, inputs, generator=draw)
    seen = packing.pack(weight, "int8-weights", library)(x)
    assert seen.dtype == torch.float32
    expected = by_definition(x, weight)
    # Sums in another order may be rounded to the next number of bfloat16, which is an eighth bit away.
    error = (seen.double() - expected).abs()
    largest = (x.abs() @ weight.abs().T).double()  # terms that cancel each other leave their own rounding
    assert (error <= 2**-7 * expected.abs() + 1e-6 * largest).all()


@pytest.mark.parametrize("weight", [torch.zeros(3, 32), torch.full((3, 32), 1e30), torch.full((3, 32), -1e-30)])
def test_extreme_weights(weight):
    product = packing.pack(weight, "int8-weights", LIBRARIES[0])
    for rows in (1, 20):
        torch.testing.assert_close(product(torch.ones(rows, 32)), 32 * weight[:, 0].expand(rows, 3), rtol=0.01, atol=0)


def test_weights_that_were_stored_with_8_bits_lose_nothing():
    torch.manual_seed(0)
    integers = torch.randint(-127, 128, (50, 64), dtype=torch.int8)
    integers[:, 0] = 127
    scales = torch.rand(50) + 0.01
    seen = row_quantized(integers * scales[:, None])
    assert torch.equal(seen[0], integers)
    torch.testing.assert_close(seen[1], scales)


@needs_few_rows
def test_few_rows_take_another_product_than_many(monkeypatch):
    product = packing.pack(torch.randn(8, 32), "int8-weights", LIBRARIES[0])
    assert isinstance(product, Int8WeightsProduct)
    asked: list[int] = []
    true = product.few
    monkeypatch.setattr(product, "few", lambda x: (asked.append(len(x)), true(x))[1])
    for rows in (0, 1, product.few_rows, product.few_rows + 1, 100):
        product(torch.randn(rows, 32))
    assert asked == [1, product.few_rows]
    assert packing.pack(torch.randn(8, 31), "int8-weights", LIBRARIES[0]).few_rows == 0  # type: ignore[attr-defined]


# Reading


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


def steps(bilm: BiLM, rows: int, more: bool) -> tuple:
    """Seven steps from a state; `more`: rows that end, and sentences that begin within a row."""
    state = LstmState(torch.randn(2, 2, rows, 32) / 9, torch.randn(2, 2, rows, bilm.config.lstm.dim) / 2)
    active = [rows] * 3 + [max(1, rows - 2)] * 2 + [1] * 2 if more else None
    keep = (torch.rand(7, rows) < 0.6).expand(2, -1, -1) if more else None
    return torch.randn(2, 7, rows, 32), state, active, keep


def check_read(seen: tuple, expected: tuple, atol: float) -> None:
    torch.testing.assert_close(seen, expected, rtol=0, atol=atol)
    assert all(torch.equal(one == 0, other == 0) for one, other in zip(seen[0], expected[0], strict=True))  # ended rows


@needs_compiler
@pytest.mark.parametrize("clip", [0.5, None])
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("more", [False, True])
def test_compiled_code_reads_like_the_reference(rows, projection, clip, more, monkeypatch):
    """In chunks of two steps."""
    monkeypatch.setattr("elmo.ops.packed_lstm.READ_AT_ONCE", 2 * rows)
    bilm = model(projection, clip, cells=50)
    given = steps(bilm, rows, more)
    with torch.inference_mode():
        check_read(bilm.packed("int8-weights", "compiled").read(*given), bilm.read(*given), 3e-4)


@needs_few_rows
@pytest.mark.parametrize("clip", [0.5, None])
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("more", [False, True])
def test_few_rows_are_read_like_many(projection, clip, more, monkeypatch):
    """Both directions at once, in chunks of two steps; beside one direction after the other."""
    monkeypatch.setattr("elmo.ops.packed_lstm.READ_AT_ONCE", 6)
    bilm = model(projection, clip)
    packed, given = bilm.packed("int8-weights", LIBRARIES[0]), steps(bilm, 3, more)
    with torch.inference_mode():
        seen = packed.read(*given)
        for product in (each for each in packed.modules() if isinstance(each, Int8WeightsProduct)):
            product.few_rows = 0
        check_read(seen, packed.read(*given), 4e-3)  # a number of bfloat16 may be the next one
    for new, old in zip(seen[1], given[1], strict=True):
        assert not torch.equal(new, old)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_sentences_vectors_depend_on_nothing_else(threads):
    sentences = [[f"word{number}" for number in range(length)] for length in (9, 2, 30, 1, *range(1, 40))]
    embedder = Embedder(model(), device="cpu", precision="int8-weights")
    alone = [embedder.embed([sentence])[0] for sentence in sentences]
    torch.set_num_threads(threads)
    for seen, expected in zip(embedder.embed(sentences), alone, strict=True):
        assert (seen == expected).all()


# Where it is taken


def of_zeros(library, work, step, *rest):
    """The product of other inputs than were given."""
    zeros = torch.zeros(10_000)
    step.x = zeros.data_ptr()
    shared(library, work, step, *rest)


def broken(*arguments):
    raise RuntimeError("not implemented")


def wrong(x, weight, scales):
    return x @ weight.T.to(x.dtype) + 4


FAULTS = {
    "not x86": lambda patch: patch.setattr("platform.machine", lambda: "aarch64"),
    "no AVX2": lambda patch: patch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT"),
    "no operator": lambda patch: patch.delattr(torch, "_weight_int8pack_mm"),
    "refused": lambda patch: patch.setattr(torch, "_weight_int8pack_mm", broken),
    "wrong": lambda patch: patch.setattr(torch, "_weight_int8pack_mm", wrong),
    "no compiler": lambda patch: patch.setenv("CC", os.devnull),
    "wrong code": lambda patch: patch.setattr(int8_reading, "shared", of_zeros),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_neither_is_taken_on_trust(fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    int8_reading.load_library.cache_clear()
    try:
        if fault not in ("no compiler", "wrong code"):
            assert not int8_weights.has_few_rows.__wrapped__()
        if fault not in ("no operator", "refused", "wrong"):
            assert not int8_reading.has_compiled()
            assert "compiled" not in packing.find_support.__wrapped__("int8-weights").libraries
    finally:
        int8_reading.load_library.cache_clear()


@needs_compiler
@pytest.mark.usefixtures("doubles")
def test_it_is_found_where_new_tensors_are_float64():
    int8_reading.load_library.cache_clear()
    assert int8_reading.has_compiled()


@pytest.mark.filterwarnings("default:precision int8-weights")
def test_a_processor_without_it_uses_float32_and_says_so(monkeypatch):
    monkeypatch.setattr(packing, "has_few_rows", lambda: False)
    monkeypatch.setattr(packing, "has_compiled", lambda: False)
    monkeypatch.setattr("elmo.ops.find_support", packing.find_support.__wrapped__)
    with pytest.warns(UserWarning, match="int8-weights.*float32"):
        assert Embedder(model(), device="cpu", precision="int8-weights").precision == "float32"
    monkeypatch.setattr(int8_weights, "has_few_rows", lambda: False)
    forced = Embedder(model(), device="cpu", precision="int8-weights", library="torch")
    assert forced.precision == "int8-weights"
    assert forced.embed([["A", "word"]])[0].any()


def test_it_is_for_the_cpu(monkeypatch):
    monkeypatch.setattr("elmo.embedding.embedder.usable_device", lambda device: torch.device("meta"))
    with refused("int8-weights", "CPU"):
        Embedder(model(), device="meta", precision="int8-weights")
