"""AdamW on tables whose rows are not all touched, against torch's AdamW and SparseAdam; Muon, against torch's."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.pretraining.objective import muon_shapes
from elmo.training.optim import OptimConfig, build_optimizer, orthogonalize


def pair(rows: int = 6) -> tuple[nn.Parameter, nn.Parameter]:
    values = torch.randn(rows, 3)
    return nn.Parameter(values.clone()), nn.Parameter(values.clone())


def test_table_with_gradients_everywhere_is_plain_adamw() -> None:
    config = OptimConfig()
    (table, same_table), (weight, same_weight) = pair(), pair(4)
    ours = build_optimizer([weight], config, [table])
    plain = torch.optim.AdamW([same_weight, same_table], config.lr, config.betas, weight_decay=config.weight_decay)
    for _ in range(5):
        for parameter, twin in ((table, same_table), (weight, same_weight)):
            parameter.grad = torch.randn_like(parameter)
            twin.grad = parameter.grad.clone()
        ours.step()
        plain.step()
    torch.testing.assert_close(table, same_table)
    torch.testing.assert_close(weight, same_weight)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_rows_without_a_gradient_are_left_alone_as_by_sparse_adam(as_sparse: bool) -> None:
    config = OptimConfig(weight_decay=0.0)
    table, same = pair()
    ours = build_optimizer([nn.Parameter(torch.zeros(1))], config, [table])
    sparse = torch.optim.SparseAdam([same], config.lr, config.betas)
    for rows in ([0, 3], [3], [1, 3, 5], [0]):
        before = table.detach().clone()
        values = torch.randn(len(rows), 3)
        table.grad = torch.zeros_like(table).index_put((torch.tensor(rows),), values)
        same.grad = torch.sparse_coo_tensor(torch.tensor([rows]), values, same.shape, check_invariants=True)
        if as_sparse:
            table.grad = table.grad.to_sparse(1)
        ours.step()
        sparse.step()
        untouched = [row for row in range(len(table)) if row not in rows]
        assert torch.equal(table[untouched], before[untouched])
        torch.testing.assert_close(table, same)


def test_a_bias_is_a_table_of_single_numbers() -> None:
    bias = nn.Parameter(torch.ones(5))
    optimizer = build_optimizer([nn.Parameter(torch.zeros(1))], OptimConfig(), [bias])
    bias.grad = torch.tensor([0.0, 2.0, 0.0, 0.0, -1.0])
    optimizer.step()
    assert (bias != 1).tolist() == [False, True, False, False, True]


@pytest.mark.parametrize("shape", [(24, 6), (6, 24), (8, 8)])
def test_muon_is_torchs_for_every_matrix_of_a_stack(shape: tuple[int, int]) -> None:
    """torch iterates in bfloat16, and here the small Gram matrix is, in float32: hence the tolerance."""
    config = OptimConfig(name="muon", lr=0.1)
    stack = nn.Parameter(torch.randn(2, *shape))
    twins = [nn.Parameter(matrix.clone()) for matrix in stack.detach()]
    table, bias = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4))
    same_bias = nn.Parameter(bias.detach().clone())
    ours = build_optimizer([bias, stack], config, [table], {stack: tuple(stack.shape)})
    theirs = torch.optim.Muon(twins, config.lr, config.weight_decay, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW([same_bias], config.lr, config.betas, weight_decay=config.weight_decay)
    before, table_before = stack.detach().clone(), table.detach().clone()
    for _ in range(4):
        stack.grad, bias.grad = torch.randn_like(stack), torch.randn_like(bias)
        same_bias.grad = bias.grad.clone()
        for twin, gradient in zip(twins, stack.grad, strict=True):
            twin.grad = gradient.clone()
        for optimizer in (ours, theirs, adam):
            optimizer.step()
    moved, expected = stack.detach() - before, torch.stack([twin.detach() for twin in twins]) - before
    assert float((moved - expected).norm() / expected.norm()) < 0.02
    torch.testing.assert_close(bias, same_bias)
    assert torch.equal(table, table_before), "without a gradient"


@pytest.mark.parametrize("rank", [1, 5, 16])
def test_steps_of_muon_are_orthogonal_where_there_is_a_gradient(rank: int) -> None:
    """As that of a grown model, whose new rows have none."""
    left, right = torch.randn(16, rank), torch.randn(rank, 64)
    matrix = left @ right
    values = torch.linalg.svdvals(orthogonalize(matrix))
    assert values[:rank].min() > 0.6
    assert values[:rank].max() < 1.3
    assert bool((values[rank:] < 0.05).all())
    assert torch.equal(orthogonalize(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_muon_steps_on_all_weights_of_a_bilm_but_tables_and_biases() -> None:
    config = BiLMConfig(LstmConfig(dim=8, projection_dim=6), CharCnnConfig(5, ((1, 4), (3, 8)), 1))
    bilm = BiLM(config)
    names = {parameter: name for name, parameter in bilm.named_parameters()}
    found = {names[parameter]: shape for parameter, shape in muon_shapes(bilm).items()}
    layer = {"weight_input": (2, 32, 6), "weight_state": (2, 32, 6), "weight_projection": (2, 6, 8)}
    assert found == {
        "token_encoder.convolutions.0.weight": (4, 5),
        "token_encoder.convolutions.1.weight": (8, 15),
        "token_encoder.highways.0.transform.weight": (4, 3, 12),
        "token_encoder.highways.0.carry.weight": (4, 3, 12),
        "token_encoder.projection.weight": (6, 12),
        **{f"layers.{depth}.{name}": shape for depth in (0, 1) for name, shape in layer.items()},
    }


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_tables_and_vectors_may_have_decays_of_their_own(name: str, in_tensor: bool) -> None:
    """Without gradients to speak of, a step only shrinks the weights."""
    stack, vector, table, of_table = (nn.Parameter(torch.ones(*shape)) for shape in ((2, 4, 3), (4,), (5, 3), (5,)))
    config = OptimConfig(name, 0.1, weight_decay=0.5, table_decay=0.2, vector_decay=0.0)  # type: ignore[arg-type]
    rate = torch.tensor(0.1) if in_tensor else None
    ours = build_optimizer([stack, vector], config, [table, of_table], {stack: tuple(stack.shape)}, rate)
    for parameter in (stack, vector, table, of_table):
        parameter.grad = torch.full_like(parameter, 1e-30)
    before = [parameter.detach().clone() for parameter in (stack, vector, table, of_table)]
    ours.step()
    # AdamW's first step is the learning rate, however small the gradient, unless that is below its epsilon.
    for parameter, old, decay in zip((stack, vector, table, of_table), before, (0.5, 0.0, 0.2, 0.0), strict=True):
        torch.testing.assert_close(parameter.detach(), old * (1 - 0.1 * decay), atol=1e-6, rtol=0)


@pytest.mark.parametrize("config", [OptimConfig("adamw", 0.1), OptimConfig("adagrad", 0.1), OptimConfig("muon", 0.1)])
def test_a_rate_in_a_tensor_gives_the_steps_of_a_number(config: OptimConfig) -> None:
    found = []
    for rate in (None, torch.tensor(0.1)):
        torch.manual_seed(3)
        stack, vector, table = (nn.Parameter(torch.randn(*shape)) for shape in ((2, 4, 3), (4,), (6, 3)))
        ours = build_optimizer([stack, vector], config, [table], {stack: tuple(stack.shape)}, rate)
        for rows in ([0, 3], [3], [1, 3, 5]):
            for parameter in (stack, vector):
                parameter.grad = torch.randn_like(parameter)
            table.grad = torch.zeros_like(table).index_put((torch.tensor(rows),), torch.randn(len(rows), 3))
            ours.step()
        found.append([stack, vector, table])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture(params=["ieee", "tf32"])
def own_precision(request):
    """What a program has set for its products; torch then refuses to read `allow_tf32`."""
    settings = torch.backends.cuda.matmul
    if not hasattr(settings, "fp32_precision"):
        pytest.skip("torch 2.9 and later have this name")
    before, settings.fp32_precision = settings.fp32_precision, request.param
    yield request.param
    settings.fp32_precision = before


def test_muon_takes_products_of_rounded_numbers_on_a_gpu_only(own_precision, monkeypatch):
    settings, found = torch.backends.cuda.matmul, []
    monkeypatch.setattr(
        "elmo.training.optim.orthogonalize", lambda matrix: found.append(settings.fp32_precision) or matrix.clone()
    )
    for device in ("cpu", "cuda"):
        with FakeTensorMode(), torch.device(device):
            matrix, vector = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((3, 4), (4,)))
            optimizer = build_optimizer([matrix, vector], OptimConfig("muon"), matrices={matrix: (3, 4)})
            for parameter in (matrix, vector):
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
    assert found == [own_precision, "tf32"]
    assert settings.fp32_precision == own_precision
