"""The fast operations against the readable reference and against autograd."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from elmo import ops
from elmo.model.lm_head import LmHead, expected_tries, log_expected, log_uniform
from elmo.model.lstm import BiLstmLayer, LstmConfig, recurrence


def lstm_case(projection: bool, clips: bool, active: bool, keep: bool):
    torch.manual_seed(3)
    size, hidden, rows, steps = 3, 5 if projection else 3, 4, 6
    layer = BiLstmLayer(LstmConfig(hidden, size, 1, 0.4 if clips else None, 0.2 if clips else None)).double()
    layer.bias.data.normal_()
    inputs = torch.randn(2, steps, rows, size, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(2, rows, n, dtype=torch.float64).mul(0.3).requires_grad_() for n in (size, hidden)]
    counts = [4, 4, 3, 3, 1, 0] if active else None
    kept = torch.rand(2, steps, rows) < 0.7 if keep else None
    return layer, (inputs, *state, counts, kept)


CASES = [(p, c, a, k) for p in (True, False) for c in (True, False) for a, k in ((False, False), (True, True))]


@pytest.mark.parametrize(("projection", "clips", "active", "keep"), CASES)
def test_lstm_outputs_and_gradients_equal_the_reference(projection, clips, active, keep, monkeypatch) -> None:
    """Also without gradients, two steps a chunk."""
    monkeypatch.setattr("elmo.ops.packed_lstm.READ_AT_ONCE", 8)
    layer, arguments = lstm_case(projection, clips, active, keep)
    leaves = [arguments[0], arguments[1], arguments[2], *layer.parameters()]
    results = []
    for run in (lambda *a: recurrence(layer, *a), layer):
        outputs = run(*arguments)
        torch.manual_seed(0)
        loss = sum((part * torch.randn_like(part)).sum() for part in outputs)
        results.append((outputs, torch.autograd.grad(loss, leaves)))
    for expected, seen in zip(*results, strict=True):
        for e, s in zip(expected, seen, strict=True):
            torch.testing.assert_close(s, e, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        for seen, expected in zip(layer(*arguments), results[0][0], strict=True):
            torch.testing.assert_close(seen, expected, rtol=1e-10, atol=1e-12)


def test_directions_in_parallel_give_the_same_as_one_after_the_other() -> None:
    layer, arguments = lstm_case(True, True, True, True)
    results = []
    for n in (1, 2):
        torch.set_num_threads(n)
        with torch.no_grad():
            results.append(layer(*arguments))
        assert torch.get_num_threads() == n
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_linear_is_that_of_torch(rows) -> None:
    torch.manual_seed(rows)
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((rows, 5), (7, 5), (7,))]
    gradient = torch.randn(rows, 7)
    results = []
    for linear in (ops.linear, torch.nn.functional.linear):
        output = linear(*leaves)
        results.append((output, *torch.autograd.grad(output, leaves, gradient)))
    for seen, expected in zip(*results, strict=True):
        torch.testing.assert_close(seen, expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.linear(*leaves).dtype == torch.bfloat16


@pytest.mark.parametrize("width", [1, 3])
def test_convolve_max_equals_conv1d_and_max(width: int) -> None:
    torch.manual_seed(0)
    characters = torch.randn(7, 9, 4, dtype=torch.float64, requires_grad=True)
    convolution = nn.Conv1d(4, 6, width).double()
    leaves = [characters, convolution.weight, convolution.bias]
    expected = convolution(characters.transpose(1, 2)).amax(-1)
    seen = ops.convolve_max(characters, convolution.weight, convolution.bias)
    torch.testing.assert_close(seen, expected)
    weights = torch.randn_like(seen)
    for e, s in zip(*(torch.autograd.grad((r * weights).sum(), leaves) for r in (expected, seen)), strict=True):
        torch.testing.assert_close(s, e)


def head_case():
    torch.manual_seed(0)
    head = LmHead(23, 4).double()
    head.bias.data.normal_()
    hidden = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    return head, hidden, torch.randint(0, 23, (11,))


def assert_same_gradients(seen, expected, leaves) -> None:
    torch.testing.assert_close(seen, expected)
    for e, s in zip(torch.autograd.grad(expected, leaves), torch.autograd.grad(3 * seen, leaves), strict=True):
        torch.testing.assert_close(s, 3 * e)


@pytest.mark.parametrize("block", [40, 2**20])
def test_full_softmax_loss_equals_cross_entropy(block: int, monkeypatch) -> None:
    monkeypatch.setattr("elmo.ops.softmax.LOGITS_AT_ONCE", block)
    head, hidden, targets = head_case()
    expected = nn.functional.cross_entropy(hidden @ head.weight.T + head.bias, targets, reduction="sum")
    assert_same_gradients(head.loss(hidden, targets), expected, [hidden, head.weight, head.bias])
    torch.testing.assert_close(-head.log_probabilities(hidden, targets).sum(), expected)


@pytest.mark.parametrize("block", [20, 2**20])
def test_sampled_loss_equals_the_definition(block: int, monkeypatch) -> None:
    """Candidates: the target and the negatives that are not it, each logit less the log of its expected count."""
    monkeypatch.setattr("elmo.ops.softmax.LOGITS_AT_ONCE", block)
    head, hidden, targets = head_case()
    negatives = torch.randperm(23)[:9]
    assert any(t in negatives for t in targets)  # accidental hits are part of the case
    chances = log_uniform(23)
    log_q = torch.log(1 - (1 - chances) ** expected_tries(chances, 9)).float()
    losses = []
    for h, t in zip(hidden, targets, strict=True):
        candidates = torch.cat([t[None], negatives[negatives != t]])
        logits = head.weight[candidates] @ h + head.bias[candidates] - log_q[candidates]
        losses.append(torch.logsumexp(logits, 0) - logits[0])
    loss = head.sampled_loss(hidden, targets, negatives)
    assert_same_gradients(loss, torch.stack(losses).sum(), [hidden, head.weight, head.bias])


def test_negatives_are_distinct_and_drawn_as_often_as_expected() -> None:
    """Compared with drawing with replacement until enough words are distinct, which is what the formula is about."""
    torch.manual_seed(0)
    n_words, count, rounds = 40, 12, 4000
    head = LmHead(n_words, 2)
    seen = torch.zeros(n_words)
    for _ in range(rounds):
        negatives = head.draw(count)
        assert len(set(negatives.tolist())) == count
        seen[negatives] += 1
    expected = log_expected(len(head.bias), count).exp()
    assert abs(float(expected.sum()) - count) < 1e-3
    torch.testing.assert_close(seen / rounds, expected, atol=0.04, rtol=0)


def test_multiplied_pairs() -> None:
    """More pairs than are taken at once, rows that come often, never, and with themselves."""
    rows = torch.randn(40, 6, dtype=torch.double, requires_grad=True)
    weight = torch.randn(3, 6, dtype=torch.double, requires_grad=True)
    first, second = torch.randint(30, (2, 2500))
    fast = ops.multiplied_pairs(rows, weight, first, second)
    slow = (rows[first] * rows[second]) @ weight.T
    torch.testing.assert_close(fast, slow)
    direction = torch.randn_like(fast)
    for got, expected in zip(
        *(torch.autograd.grad((y * direction).sum(), [rows, weight]) for y in (fast, slow)), strict=True
    ):
        torch.testing.assert_close(got, expected)
    assert ops.multiplied_pairs(rows, weight, first[:0], second[:0]).shape == (0, 3)


@pytest.mark.parametrize("most", [2, 262, 2**31])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 1), (200, 2), (500, 50)])
def test_distinct_rows_are_those_of_torch(shape, most) -> None:
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(most, shape, generator=generator)
    ids = torch.cat([ids, ids[torch.randperm(len(ids), generator=generator)]])
    for seen, expected in zip(ops.distinct_rows(ids), ids.unique(dim=0, return_inverse=True), strict=True):
        assert torch.equal(seen, expected)


FIRST_EXP = """
import torch
import elmo.ops
torch.set_num_threads(2)
x = torch.linspace(-8, 0, 50_000)
packed = [elmo.ops.pack(torch.randn(512, 256), "float32") for _ in range(100)]  # so that both threads are awake
print(torch.equal(x.exp(), x.exp()))
"""


def test_the_first_exp_of_a_process_is_as_precise_as_the_second() -> None:
    # Without first calls from one thread, half of the processes differ on an Intel processor with AVX-512.
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", FIRST_EXP], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
