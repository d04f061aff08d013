"""Parts of the tasks' networks: the same result for a sentence whatever its padding and its batch mates."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_lab.tasks.layers import (
    Affine,
    BiGru,
    BiLstm,
    VariationalDropout,
    attend,
    lstm_keeping,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
    matrix_attention,
    reading_backwards,
    reorder,
    tokens_mask,
)

LENGTHS = torch.tensor([4, 0, 1, 5, 2])


def padded(size: int, dirt: float = 0.0) -> torch.Tensor:
    """Vectors of sentences of `LENGTHS`, padded to 6 with `dirt`."""
    vectors = torch.randn(len(LENGTHS), 6, size)
    return torch.where(tokens_mask(LENGTHS, 6)[:, :, None], vectors, dirt)


@pytest.mark.parametrize("kind", [BiLstm, BiGru])
def test_reads_as_torch_reads_packed_sentences(kind) -> None:
    """torch's own network of both directions, with the same weights, on packed sentences (none of them empty)."""
    ours = kind(3, 4)
    theirs = ours.forwards[0].__class__(3, 4, batch_first=True, bidirectional=True)
    for suffix, (network,) in (("", ours.forwards), ("_reverse", ours.backwards)):
        for name, weights in network.named_parameters():
            getattr(theirs, f"{name}{suffix}").data = weights.data
    filled = LENGTHS > 0
    vectors = padded(3, dirt=9.0)
    packed = pack_padded_sequence(vectors[filled], LENGTHS[filled], batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True, total_length=6)
    seen = ours(vectors, LENGTHS)
    torch.testing.assert_close(seen[filled], expected)
    assert not seen[~tokens_mask(LENGTHS, 6)].any()


def test_gradients_of_gru_are_those_of_torch() -> None:
    ours = BiGru(3, 4).double()
    vectors = padded(3).double().requires_grad_()
    direction = torch.randn(len(LENGTHS), 6, 8, dtype=torch.double)
    mask = tokens_mask(LENGTHS, 6)[:, :, None]
    order = reading_backwards(LENGTHS, 6)
    back = reorder(ours.backwards[0](reorder(vectors, order))[0], order)
    theirs = torch.cat([ours.forwards[0](vectors)[0], back], dim=2) * mask
    parameters = [vectors, *ours.parameters()]
    expected = torch.autograd.grad((theirs * direction).sum(), parameters)
    seen = ours(vectors, LENGTHS)
    torch.testing.assert_close(seen, theirs)
    for got, want in zip(torch.autograd.grad((seen * direction).sum(), parameters), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_an_lstm_remembers_at_first() -> None:
    network = BiLstm(3, 4)
    for direction in (network.forwards[0], network.backwards[0]):
        assert direction.bias_ih_l0.tolist() == [0] * 4 + [1] * 4 + [0] * 8
        assert not direction.bias_hh_l0.any()
        for gate in direction.weight_hh_l0.split(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(4))


def test_variational_dropout_is_the_same_at_all_tokens_of_a_sentence() -> None:
    dropout, ones = VariationalDropout(0.5), torch.ones(200, 3, 50)
    kept = dropout(ones)
    assert torch.equal(kept, kept[:, :1].expand_as(kept))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert kept.mean().item() == pytest.approx(1, abs=0.05)
    assert not torch.equal(kept[0], kept[1])
    assert torch.equal(dropout.eval()(ones), ones)


def test_an_lstm_of_dropped_states_steps_like_torch_s_cell() -> None:
    """The state that goes on to the next token is multiplied; the one that goes up, and the cell, are not."""
    network, cell = nn.LSTM(3, 4, batch_first=True), nn.LSTMCell(3, 4)
    cell.load_state_dict({name.removesuffix("_l0"): each for name, each in network.state_dict().items()})
    vectors, keep = torch.randn(5, 6, 3), torch.tensor([0.0, 2.0]).repeat(5, 2)
    hidden = memory = torch.zeros(5, 4)
    for place in range(6):
        hidden, memory = cell(vectors[:, place], (hidden * keep, memory))
        torch.testing.assert_close(lstm_keeping(network, vectors, keep)[:, place], hidden)
    torch.testing.assert_close(lstm_keeping(network, vectors, torch.ones(5, 4)), network(vectors)[0])


def test_recurrent_dropout_leaves_the_first_token_of_each_direction() -> None:
    network, vectors = BiLstm(3, 4, recurrent_dropout=0.5), torch.randn(40, 6, 3)
    lengths = torch.full((40,), 6)
    dropped, plain = network(vectors, lengths), network.eval()(vectors, lengths)
    torch.testing.assert_close(dropped[:, 0, :4], plain[:, 0, :4])
    torch.testing.assert_close(dropped[:, -1, 4:], plain[:, -1, 4:])
    assert (dropped - plain)[:, -1, :4].abs().min() > 0
    assert (dropped - plain)[:, 0, 4:].abs().min() > 0


@given(st.lists(st.lists(st.floats(-30, 30, width=32), max_size=4), min_size=1, max_size=4))
def test_masked_pools_are_those_of_the_sentence_alone(rows) -> None:
    lengths = torch.tensor([len(row) for row in rows])
    values = torch.full((len(rows), 5), 77.0)
    for row, numbers in enumerate(rows):
        values[row, : len(numbers)] = torch.tensor(numbers)
    mask = tokens_mask(lengths, 5)
    pools = [masked_max, masked_min, masked_mean]
    seen = [pool(values[:, :, None], mask)[:, 0].tolist() for pool in pools]
    weights = masked_softmax(values, mask)
    for row, numbers in enumerate(rows):
        expected = [np.max(numbers), np.min(numbers), np.mean(numbers)] if numbers else [0, 0, 0]
        assert [pool[row] for pool in seen] == pytest.approx(expected, abs=1e-4)
        powers = np.exp(np.array(numbers, np.float64))
        exact = powers / powers.sum()
        assert weights[row, : len(numbers)].tolist() == pytest.approx(exact.tolist(), abs=1e-5)
        assert not weights[row, len(numbers) :].any()


def test_no_gradient_is_lost_on_an_empty_sentence() -> None:
    vectors, mask = padded(3).requires_grad_(), tokens_mask(LENGTHS, 6)
    pools = [pool(vectors, mask) for pool in (masked_max, masked_min, masked_mean)]
    scores = matrix_attention(vectors, vectors)
    loss = sum(pool.square().sum() for pool in pools) + attend(scores, vectors, mask).square().sum()
    loss.backward()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()
    assert not vectors.grad[1].any()
    assert vectors.grad[0, :4].any(dim=1).all()


@pytest.mark.parametrize("shape", [(7,), (2, 3), (2, 0)])
def test_affine_is_linear(shape: tuple[int, ...]) -> None:
    layer, vectors = Affine(4, 5), torch.randn(*shape, 4, requires_grad=True)
    outputs = [layer(vectors), nn.functional.linear(vectors, layer.weight, layer.bias)]
    torch.testing.assert_close(*outputs)
    direction = torch.randn_like(outputs[0])
    parameters = [vectors, layer.weight, layer.bias]
    gradients = [torch.autograd.grad((output * direction).sum(), parameters) for output in outputs]
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected)
