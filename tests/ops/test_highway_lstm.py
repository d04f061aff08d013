"""The fast highway LSTM against its readable twin, and the stack of alternating directions."""

import pytest
import torch
from torch import Tensor, nn

from elmo import ops
from elmo_lab.tasks.interleaved import GATES, InterleavedLstm, orthonormal_blocks

LENGTHS = [7, 5, 5, 2, 1]
INPUT, HIDDEN = 6, 4


def twin(sentence, to_gates, from_state, bias, carry, backwards=False, keep=None) -> Tensor:
    """He et al. 2017, eqs. 3-9 and the dropout after them: one sentence, one token after the other."""
    hidden = cell = sentence.new_zeros(carry.shape[0])
    outputs: dict[int, Tensor] = {}
    places = range(len(sentence))
    for t in reversed(places) if backwards else places:
        i, j, f, o, r = (to_gates @ sentence[t] + from_state @ hidden + bias).chunk(GATES)
        cell = f.sigmoid() * cell + i.sigmoid() * j.tanh()
        hidden = r.sigmoid() * o.sigmoid() * cell.tanh() + (1 - r.sigmoid()) * (carry @ sentence[t])
        hidden = hidden if keep is None else keep * hidden
        outputs[t] = hidden
    return torch.stack([outputs[t] for t in places])


def packed(sentences: list[Tensor]) -> tuple[Tensor, list[int]]:
    """As torch packs them."""
    pack = nn.utils.rnn.pack_sequence(sentences)
    return pack.data, pack.batch_sizes.tolist()


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_highway_lstm_is_its_twin(backwards: bool, dropout: bool) -> None:
    sizes = (GATES * HIDDEN, INPUT), (GATES * HIDDEN, HIDDEN), (GATES * HIDDEN,), (HIDDEN, INPUT)
    weights = [torch.randn(*size, dtype=torch.double, requires_grad=True) for size in sizes]
    sentences = [torch.randn(length, INPUT, dtype=torch.double, requires_grad=True) for length in LENGTHS]
    keep = (torch.rand(len(LENGTHS), HIDDEN) > 0.4).double() / 0.6 if dropout else None
    inputs, rows = packed(sentences)
    fast = ops.highway_lstm(inputs, *weights, rows, backwards, keep)
    masks = [None] * len(LENGTHS) if keep is None else keep
    slow, _ = packed([twin(s, *weights, backwards, mask) for s, mask in zip(sentences, masks, strict=True)])
    torch.testing.assert_close(fast, slow)
    direction = torch.randn_like(fast)
    parameters = [*weights, *sentences]
    gradients = torch.autograd.grad((fast * direction).sum(), parameters)
    for got, expected in zip(gradients, torch.autograd.grad((slow * direction).sum(), parameters), strict=True):
        torch.testing.assert_close(got, expected)


def test_encoder_alternates_and_takes_any_order_of_lengths() -> None:
    """In float32, where the matrix products are another library's, and tanh is made of a sigmoid."""
    encoder = InterleavedLstm(INPUT, HIDDEN, n_layers=3).eval()
    lengths = torch.tensor([2, 0, 5, 1, 5])
    inputs = torch.randn(5, 6, INPUT)
    states = encoder(inputs, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert not states[row, length:].any()
        expected = inputs[row, :length]
        for number, layer in enumerate(encoder.layers):
            expected = twin(expected, *layer.parameters(), backwards=number == 1) if length else expected
        torch.testing.assert_close(states[row, :length], expected[:, :HIDDEN], rtol=1e-4, atol=1e-5)


def test_encoder_of_nothing() -> None:
    encoder = InterleavedLstm(INPUT, HIDDEN, n_layers=2)
    states = encoder(torch.zeros(2, 1, INPUT), torch.tensor([0, 0]))
    assert states.shape == (2, 1, HIDDEN)
    states.sum().backward()


def test_encoder_drops_the_same_states_at_all_tokens() -> None:
    encoder = InterleavedLstm(INPUT, 50, n_layers=2, dropout=0.5).train()
    dropped = encoder(torch.randn(2, 8, INPUT), torch.tensor([8, 8])) == 0
    assert (dropped == dropped[:, :1]).all()
    assert (dropped[0] != dropped[1]).any()
    assert 0.3 < dropped.float().mean() < 0.7


def test_orthonormal_blocks() -> None:
    for block in orthonormal_blocks(3, 4, 6).chunk(3):
        torch.testing.assert_close(block @ block.T, torch.eye(4))
    tall = orthonormal_blocks(1, 6, 4)
    torch.testing.assert_close(tall.T @ tall, torch.eye(4))
