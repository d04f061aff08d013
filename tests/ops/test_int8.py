"""Products of 8-bit integers: exact on every processor, also where sums of two products saturate at 16 bits."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.ops import int8, packing, products

LIBRARIES = packing.find_support("int8").libraries
KERNELS = [packing.INT8[library] for library in LIBRARIES]


@pytest.mark.skipif(not packing.is_x86(), reason="for x86")
def test_int8_is_available_on_x86():
    """Fails when torch drops the operators: int8 is then refused, and should be mended."""
    assert LIBRARIES


def by_integers(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The same product with integers of 64 bits, rounded half to even."""
    integers, scales = int8.quantize_rows(weight)
    largest = x.abs().amax(1, keepdim=True).clamp(min=1e-12)
    rows = (x * (127 / largest)).round().long()
    return (rows @ integers.long().T).float() * scales * (largest / 127)


ones = torch.ones(64, 128)
EXTREME = {
    "all at the largest": ones,
    "all at the smallest": -ones,
    "signs in turn": ones * torch.tensor([1.0, -1.0]).repeat(64),
    "pairs of one sign": ones * torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(32),
    "one of each pair": ones * torch.tensor([1.0, 0.0]).repeat(64),
    "the other of each pair": ones * torch.tensor([0.0, 1.0, 1.0, 0.0]).repeat(32),
    "one alone": torch.eye(64, 128),
    "none": 0 * ones,
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_weights_lose_nothing(name, kernel):
    weight = EXTREME[name]
    x = torch.cat([torch.ones(1, 128), -torch.ones(1, 128), weight.sign()[:1], -weight.sign()[:1], torch.eye(3, 128)])
    expected = by_integers(x, weight)
    torch.testing.assert_close(kernel(weight)(x), expected, rtol=1e-5, atol=1e-4)
    half_a_unit = int8.quantize_rows(weight)[1] / 2
    assert ((expected - x @ weight.T).abs() <= x.abs().sum(1, keepdim=True) * half_a_unit + 1e-4).all()


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 40), inputs=st.integers(1, 70), outputs=st.integers(1, 50))
def test_equal_exact_integers(kernel, seed, rows, inputs, outputs):
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=draw) ** 3  # heavy tails: many small, few large
    x = torch.randint(-127, 128, (rows, inputs), generator=draw).float()
    x[:, 0] = 127  # no number of a row lies half-way between two integers, of which a library may take either
    x *= torch.rand(rows, 1, generator=draw) + 0.1
    torch.testing.assert_close(kernel(weight)(x), by_integers(x, weight), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_does_not_depend_on_its_batch_mates(kernel):
    torch.manual_seed(0)
    product = kernel(torch.randn(40, 16))
    rows = torch.randn(5, 16) * torch.tensor([0.01, 1.0, 100.0, 1.0, 0.0])[:, None]
    assert torch.equal(product(rows), torch.cat([product(row[None]) for row in rows]))


def test_a_kernel_that_saturates_is_not_taken(monkeypatch):
    """As one would that adds the products of other neighbours in 16 bits."""

    def saturating(weight):
        integers, scales = int8.quantize_rows(weight)

        def product(x):
            rows = (127 * x).round().long() + 128
            fours = (rows[:, None] * integers.long()).unflatten(2, (-1, 4))
            sums = (fours[..., :2] + fours[..., 2:]).clamp(-(2**15), 2**15 - 1).sum((2, 3))
            return (sums - 128 * integers.long().sum(1)).float() * scales / 127

        return product

    monkeypatch.setattr(packing, "INT8", {"onednn": saturating})
    found = packing.find_support.__wrapped__("int8")
    assert found == packing.Support((), "no library of this torch multiplies 8-bit integers exactly on this CPU")


@pytest.mark.parametrize("surroundings", ["doubles", "autocast", "another device"])
def test_what_is_available_does_not_depend_on_the_callers_defaults(surroundings, request):
    """It is tried once and kept."""
    if surroundings == "doubles":
        request.getfixturevalue("doubles")
    modes = {"autocast": torch.autocast("cpu", torch.bfloat16), "another device": torch.device("meta")}
    with modes.get(surroundings, nullcontext()):
        assert packing.find_support.__wrapped__("int8") == packing.find_support("int8")
        for dtype in (torch.float32, torch.bfloat16):
            assert products.has_onednn.__wrapped__(dtype) == products.has_onednn(dtype)
