"""Products with 8-bit weights by torch, where there is no C compiler: their definition, few rows beside many, and
processors without the product of few."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops import int8_weights, packing
from elmo.ops.int8_weights import Int8WeightsProduct
from elmo.types import LstmState

FEW = int8_weights.has_few_rows()
needs_few_rows = pytest.mark.skipif(not FEW, reason="this CPU has no fast product of few rows with 8-bit weights")
LIBRARIES = [library for library in packing.find_support("int8-weights").libraries if library != "compiled"]


@pytest.mark.skipif(
    not packing.is_x86() or torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="for x86 with AVX2"
)
def test_the_product_of_few_rows_is_found_where_torch_has_it():
    """Fails when torch drops the operator: then the fast path is lost, and should be mended."""
    assert FEW


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
def test_equal_their_definition(library, seed, rows, inputs, outputs):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=draw) ** 3  # heavy tails: many small, few large
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
    seen = int8_weights.row_quantized(integers * scales[:, None])
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


def model(projection: bool = True, clip: float | None = 0.5) -> BiLM:
    torch.manual_seed(0)
    config = BiLMConfig(
        LstmConfig(64 if projection else 32, 32, 2, clip, clip and clip / 4), CharCnnConfig(8, ((1, 8), (3, 24)), 1)
    )
    bilm = BiLM(config).eval()
    for layer in bilm.layers:
        torch.nn.init.normal_(layer.bias, std=0.3)
    return bilm


@needs_few_rows
@pytest.mark.parametrize("clip", [0.5, None])
@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("active", [None, [3, 3, 3, 2, 2, 1, 1]])
def test_few_rows_are_read_like_many(projection, clip, active, monkeypatch):
    """Both directions at once, in parts of two steps, from and to a state; beside one direction after the other."""
    monkeypatch.setattr("elmo.ops.packed_lstm.READ_AT_ONCE", 6)
    packed = model(projection, clip).packed("int8-weights", LIBRARIES[0])
    inputs = torch.randn(2, 7, 3, 32)
    state = LstmState(torch.randn(2, 2, 3, 32) / 9, torch.randn(2, 2, 3, 64 if projection else 32) / 2)
    with torch.inference_mode():
        seen = packed.read(inputs, state, active)
        for product in (each for each in packed.modules() if isinstance(each, Int8WeightsProduct)):
            product.few_rows = 0
        expected = packed.read(inputs, state, active)
    torch.testing.assert_close(seen, expected, rtol=0, atol=4e-3)  # a number of bfloat16 may be the next one
    assert all(torch.equal(one == 0, other == 0) for one, other in zip(seen[0], expected[0], strict=True))  # ended rows
    for new, old in zip(seen[1], state, strict=True):
        assert not torch.equal(new, old)


@needs_few_rows
def test_few_rows_forget_where_a_sentence_ends():
    packed = model().packed("int8-weights", LIBRARIES[0])
    inputs, state = torch.randn(2, 4, 1, 32), packed.initial_state(1)
    keep = torch.tensor([True, True, False, True]).view(1, 4, 1).expand(2, -1, -1)
    with torch.inference_mode():
        both, _ = packed.read(inputs, state, keep=keep)
        halves = [packed.read(inputs[:, half], state)[0] for half in (slice(2), slice(2, 4))]
    torch.testing.assert_close(both, [torch.cat(pair, dim=1) for pair in zip(*halves, strict=True)], rtol=0, atol=4e-3)


def broken(*arguments):
    raise RuntimeError("not implemented")


@pytest.mark.parametrize("fault", ["no operator", "refused", "wrong", "no AVX2", "not x86"])
def test_the_product_of_few_rows_is_not_taken_on_trust(fault, monkeypatch):
    if fault == "no operator":
        monkeypatch.delattr(torch, "_weight_int8pack_mm")
    elif fault == "refused":
        monkeypatch.setattr(torch, "_weight_int8pack_mm", broken)
    elif fault == "wrong":
        monkeypatch.setattr(torch, "_weight_int8pack_mm", lambda x, weight, scales: x @ weight.T.to(x.dtype) + 4)
    elif fault == "no AVX2":
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    else:
        monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not int8_weights.has_few_rows.__wrapped__()


@pytest.mark.filterwarnings("default:precision int8-weights")
def test_a_processor_without_it_uses_float32_and_says_so(monkeypatch):
    monkeypatch.setattr(int8_weights, "has_few_rows", lambda: False)
    monkeypatch.setattr(packing, "has_few_rows", lambda: False)
    monkeypatch.setattr(packing, "has_compiled", lambda: False)
    monkeypatch.setattr("elmo.ops.find_support", packing.find_support.__wrapped__)
    with pytest.warns(UserWarning, match="int8-weights.*float32"):
        assert Embedder(model(), device="cpu", precision="int8-weights").precision == "float32"
    forced = Embedder(model(), device="cpu", precision="int8-weights", library="torch")
    assert forced.precision == "int8-weights"
    assert forced.embed([["A", "word"]])[0].any()


def test_it_is_for_the_cpu(monkeypatch):
    monkeypatch.setattr("elmo.embedding.embedder.usable_device", lambda device: torch.device("meta"))
    with refused("int8-weights", "CPU"):
        Embedder(model(), device="meta", precision="int8-weights")
