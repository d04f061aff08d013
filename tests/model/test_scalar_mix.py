"""Equation (1): a mix of layers, its penalty, and the `Elmo` module that puts mixes on a biLM."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from elmo.errors import InputError
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.elmo import Elmo
from elmo.model.lstm import LstmConfig
from elmo.model.scalar_mix import ScalarMix, normalize_layers
from elmo.text.batching import to_batch

CONFIG = BiLMConfig(LstmConfig(6, 4, 2), CharCnnConfig(3, ((1, 2), (2, 4)), 1))
SENTENCES = [["the", "cat", "sat"], [], ["a"]]

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(1, 5))  # N B T D
NUMBERS = st.floats(-4, 4, width=32)
QUARTERS = st.integers(-16, 16).map(lambda number: number / 4)  # equal ones have no variance by rounding


@st.composite
def mixes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Layers, a mask of at least one token, and what the mix has learned."""
    shape = draw(SHAPES)
    lengths = [draw(st.integers(0, shape[2])) for _ in range(shape[1] - 1)] + [shape[2]]
    mask = np.arange(shape[2]) < np.array(lengths)[:, None]
    layers = draw(arrays.arrays(np.float32, shape, elements=QUARTERS)) * mask[None, :, :, None]
    return layers, mask, draw(arrays.arrays(np.float32, shape[0], elements=NUMBERS)), draw(NUMBERS)


def learned(scalars: np.ndarray, gamma: float, layer_norm: bool) -> ScalarMix:
    mix = ScalarMix(len(scalars), layer_norm)
    mix.load_state_dict({"scalars": torch.from_numpy(scalars), "gamma": torch.tensor(gamma)})
    return mix


@given(mixes())
def test_mix_is_equation_1(case) -> None:
    layers, mask, scalars, gamma = case
    weights, mix = np.exp(scalars) / np.exp(scalars).sum(), learned(scalars, gamma, False)
    np.testing.assert_allclose(mix.weights().detach().numpy(), weights, rtol=1e-5, atol=1e-6)
    seen = mix(torch.from_numpy(layers), torch.from_numpy(mask))
    np.testing.assert_allclose(seen.detach().numpy(), gamma * np.tensordot(weights, layers, axes=1), rtol=0, atol=1e-5)
    assert torch.equal(mix(torch.from_numpy(layers)), seen)
    with pytest.raises(InputError, match="mask"):
        learned(scalars, gamma, True)(torch.from_numpy(layers))


@given(mixes())
def test_layer_norm_makes_every_layer_standard_over_real_tokens(case) -> None:
    layers, mask, scalars, gamma = case
    normal = np.zeros_like(layers)
    for layer, out in zip(layers.astype(np.float64), normal, strict=True):
        out[mask] = (layer[mask] - layer[mask].mean()) / np.sqrt(layer[mask].var() + 1e-12)
    expected = gamma * np.tensordot(np.exp(scalars) / np.exp(scalars).sum(), normal, axes=1)
    seen = learned(scalars, gamma, True)(torch.from_numpy(layers), torch.from_numpy(mask)).detach().numpy()
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-4)
    assert not seen[~mask].any()


def test_layer_norm_in_float16_is_near_that_in_float32() -> None:
    """Of more numbers, and of a larger sum of squares, than float16 can express."""
    layers, mask = 3 * torch.randn(2, 3, 90, 256) + 1, torch.ones(3, 90, dtype=torch.bool)
    expected, seen = normalize_layers(layers, mask), normalize_layers(layers.half(), mask)
    assert seen.dtype == torch.float16
    torch.testing.assert_close(seen.float(), expected, rtol=0, atol=0.01)


def test_layer_norm_of_nothing_is_nothing() -> None:
    normal = normalize_layers(torch.zeros(3, 2, 4, 5), torch.zeros(2, 4, dtype=torch.bool))
    assert torch.equal(normal, torch.zeros(3, 2, 4, 5))
    assert normalize_layers(torch.zeros(3, 0, 0, 5), torch.zeros(0, 0, dtype=torch.bool)).shape == (3, 0, 0, 5)


def test_penalty_is_the_squared_norm_and_pulls_towards_the_average() -> None:
    mix = learned(np.array([1.0, -2.0, 0.5], dtype=np.float32), 1.0, False)
    penalty = mix.penalty(0.1)
    torch.testing.assert_close(penalty, torch.tensor(0.1 * (1 + 4 + 0.25)))
    penalty.backward()
    torch.testing.assert_close(mix.scalars.grad, 0.2 * mix.scalars.detach())
    assert mix.gamma.grad is None


# Elmo


@pytest.mark.parametrize("layer_norm", [False, True])
def test_elmo_gives_k_mixes_of_the_layers(layer_norm) -> None:
    bilm, batch = BiLM(CONFIG), to_batch(SENTENCES)
    elmo = Elmo(bilm, n_mixes=3, layer_norm=layer_norm).eval()
    for mix in elmo.mixes:
        mix.scalars.data.normal_()
        mix.gamma.data.normal_()
    outputs, mask = elmo(batch)
    layers = bilm(batch).layers
    assert len(outputs) == 3
    assert mask.sum(1).tolist() == [5, 2, 3]
    for mix, output in zip(elmo.mixes, outputs, strict=True):
        torch.testing.assert_close(output, mix(layers, mask))
        assert not output[~mask].any()
    assert not torch.allclose(outputs[0], outputs[1])


def test_elmo_passes_the_state_on() -> None:
    bilm, batch = BiLM(CONFIG), to_batch(SENTENCES)
    elmo = Elmo(bilm).eval()
    state = bilm(batch).state
    (output,), _ = elmo(batch, state)
    torch.testing.assert_close(output, bilm(batch, state).layers.mean(0))
    assert not torch.allclose(output, elmo(batch)[0][0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_mixes_are_of_the_type_of_the_bilm(dtype, request) -> None:
    bilm = BiLM(CONFIG).to(dtype)
    request.getfixturevalue("doubles")
    assert Elmo(bilm)(to_batch(SENTENCES))[0][0].dtype == dtype


def test_frozen_elmo_learns_its_mixes_and_nothing_else() -> None:
    elmo = Elmo(BiLM(CONFIG), n_mixes=2)
    outputs, _ = elmo(to_batch(SENTENCES))
    (sum(output.square().sum() for output in outputs) + elmo.penalty(0.1)).backward()
    for name, parameter in elmo.named_parameters():
        assert parameter.requires_grad == name.startswith("mixes"), name
        assert (parameter.grad is not None) == name.startswith("mixes"), name
    assert all(mix.gamma.grad for mix in elmo.mixes)


def test_thawed_elmo_learns_everything() -> None:
    bilm = BiLM(CONFIG).requires_grad_(False)
    elmo = Elmo(bilm, dropout=0.0, frozen=False)
    (output,), _ = elmo(to_batch(SENTENCES))
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in elmo.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("config", [CONFIG, BiLMConfig(CONFIG.lstm, None, 7)])
def test_a_packed_bilm_cannot_be_trained(config) -> None:
    """Its weights are in the libraries of products, where no gradient reaches them; a table of words is whole."""
    packed = BiLM(config).packed(release=True)
    Elmo(packed)
    with pytest.raises(InputError, match="packed"):
        Elmo(packed, frozen=False)


def test_dropout_is_of_the_vectors_and_of_training_only() -> None:
    elmo, batch = Elmo(BiLM(CONFIG), n_mixes=2, dropout=0.5), to_batch([["a", "b", "c"] * 20])
    plain = [output.detach() for output in elmo.eval()(batch)[0]]
    dropped = [output.detach() for output in elmo.train()(batch)[0]]
    for before, after in zip(plain, dropped, strict=True):
        gone = after == 0
        assert 0.35 < gone.float().mean() < 0.65
        torch.testing.assert_close(after[~gone], 2 * before[~gone])
    assert not torch.equal(dropped[0] == 0, dropped[1] == 0)


def test_penalty_of_elmo_is_the_sum_over_mixes() -> None:
    elmo = Elmo(BiLM(CONFIG), n_mixes=2)
    for value, mix in enumerate(elmo.mixes, start=1):
        mix.scalars.data.fill_(value)
    torch.testing.assert_close(elmo.penalty(0.5), torch.tensor(0.5 * (3 * 1 + 3 * 4)))
