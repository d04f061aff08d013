"""Optimizers and the learning rate of a step."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
"""The momentum of Muon."""
NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315
"""The coefficients of Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks"."""


@dataclass(frozen=True)
class OptimConfig:
    """The optimizer (AdamW, Muon for matrices and AdamW for the rest, or Adagrad as in the paper), and its schedule."""

    name: Literal["adamw", "muon", "adagrad"] = "adamw"
    """The optimizer; with `muon`, AdamW updates all that is no matrix."""
    lr: float = 4e-3
    """The peak learning rate. Muon's two parts share it, since its steps are scaled to the size of AdamW's."""
    betas: tuple[float, float] = (0.9, 0.98)
    """The coefficients of AdamW's running averages."""
    weight_decay: float = 0.01
    """The weight decay of AdamW and Muon."""
    vector_decay: float | None = None
    """The weight decay of biases and of the embedding of characters; none means `weight_decay`."""
    table_decay: float | None = None
    """The weight decay of the rows of a softmax; none means `weight_decay`."""
    initial_accumulator: float = 1.0
    """Adagrad's sum of squares before the first step."""
    warmup_steps: int = 100
    """The steps of linear warm-up from zero."""
    decay: float = 0.4
    """The final fraction of steps over which the learning rate falls linearly towards zero; 0 keeps it constant."""
    lowest: float = 0.01
    """The learning rate at the end of the fall, as a fraction of the peak."""
    clip_norm: float = 1.0
    """The largest global norm of the gradient; 0 means no limit."""
    sharded: bool = False
    """Whether each process keeps the optimizer state of only its part of the sampled softmax's rows."""


def build_optimizer(
    parameters: Iterable[nn.Parameter],
    config: OptimConfig,
    tables: Iterable[nn.Parameter] = (),
    matrices: Mapping[nn.Parameter, tuple[int, ...]] | None = None,
    rate: Tensor | None = None,
) -> torch.optim.Optimizer:
    """Returns the optimizer of a configuration.

    `tables` are parameters of which a step touches only some rows, such as a sampled softmax. `matrices` are those of
    `parameters` that Muon updates, each with its shape as one matrix or a stack of them, `(..., M, N)`. With `rate`, a
    tensor that holds the learning rate, steps read nothing back, so a CUDA graph can hold them.
    """
    matrices, tables = matrices or {}, list(tables)
    groups: list[dict[str, Any]] = [{"params": list(parameters)}, {"params": tables}]
    lr = config.lr if rate is None else rate
    if config.name == "adagrad":  # a row without a gradient stays as it is
        adagrad = Adagrad(groups, config.lr, initial_accumulator_value=config.initial_accumulator, eps=1e-10)
        for group in adagrad.param_groups:
            group["lr"] = lr
        return adagrad
    if config.name == "muon" or config.vector_decay is not None:
        groups[0]["params"] = [parameter for parameter in groups[0]["params"] if parameter not in matrices]
        groups.insert(0, {"params": list(matrices), "shapes": list(matrices.values())})
    if config.vector_decay is not None:
        groups[1]["weight_decay"] = config.vector_decay
        groups[-1]["params"] = [table for table in tables if table.dim() > 1]
        groups.append({"params": [table for table in tables if table.dim() == 1], "weight_decay": config.vector_decay})
    for group in groups:
        if config.table_decay is not None and any(table.dim() > 1 for table in tables if table in set(group["params"])):
            group["weight_decay"] = config.table_decay
    kind = Muon if config.name == "muon" else TableAdamW
    optimizer = kind(
        groups, lr, config.betas, weight_decay=config.weight_decay, fused=True, capturable=rate is not None
    )
    for group in optimizer.param_groups:
        group["is_table"] = any(table is parameter for table in tables for parameter in group["params"])
    return optimizer


class Adagrad(torch.optim.Adagrad):
    """Adagrad, which reads nothing back from a GPU if the learning rate is a tensor and gradients are dense."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates the weights once."""
        for group in self.param_groups:
            if not isinstance(group["lr"], Tensor):
                super().step()
                return
            for parameter in group["params"]:
                if parameter.grad is not None:
                    total = self.state[parameter]["sum"].addcmul_(parameter.grad, parameter.grad)
                    parameter.sub_(group["lr"] * parameter.grad / (total.sqrt() + group["eps"]))


class TableAdamW(torch.optim.AdamW):
    """AdamW that does not change rows of a table without a gradient.

    Plain AdamW keeps moving such a row by its momentum and forgets how large its gradients are, so the next one,
    however small, moves it by several times the learning rate: noise for every rarely sampled word.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates the weights once."""
        groups = [group for group in self.param_groups if group["is_table"]]
        with _withheld(table for group in groups for table in group["params"]) as gradients:
            super().step()
        for group in groups:
            for table in group["params"]:
                if table in gradients:
                    update = _update_all_rows if isinstance(group["lr"], Tensor) else _update_rows
                    update(table, gradients[table], group, self._state_of(table, group))

    def _state_of(self, parameter: nn.Parameter, group: dict[str, Any], squares: bool = True) -> dict[str, Tensor]:
        """The state of a parameter that AdamW itself does not update."""
        state = self.state[parameter]
        if not state:
            device = parameter.device if isinstance(group["lr"], Tensor) else torch.device("cpu")
            state |= {"step": torch.zeros((), device=device), "exp_avg": torch.zeros_like(parameter)}
            state |= {"exp_avg_sq": torch.zeros_like(parameter)} if squares else {}
        return state


def _update_rows(table: nn.Parameter, gradient: Tensor, group: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Updates the rows that have a gradient, which may be sparse, by AdamW."""
    state["step"] += 1
    (beta1, beta2), lr, steps = group["betas"], group["lr"], float(state["step"])
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        rows, new = gradient.indices()[0], gradient.values()
    else:
        rows = (gradient if gradient.dim() == 1 else gradient.any(1)).nonzero().squeeze(1)
        new = gradient[rows]
    average = state["exp_avg"][rows].lerp_(new, 1 - beta1)
    square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(new, new, value=1 - beta2)
    state["exp_avg"][rows], state["exp_avg_sq"][rows] = average, square
    scale = (square / (1 - beta2**steps)).sqrt_().add_(group["eps"])
    values = table[rows].mul_(1 - lr * group["weight_decay"])
    table[rows] = values.addcdiv_(average / (1 - beta1**steps), scale, value=-lr)


def _update_all_rows(table: nn.Parameter, gradient: Tensor, group: dict[str, Any], state: dict[str, Tensor]) -> None:
    """Does the same for a dense gradient, without reading back which rows have one."""
    state["step"] += 1
    (beta1, beta2), lr, steps = group["betas"], group["lr"], state["step"]
    touched = gradient != 0
    if touched.dim() > 1:
        touched = touched.any(1, keepdim=True)
    average = state["exp_avg"].lerp(gradient, 1 - beta1)
    square = (state["exp_avg_sq"] * beta2).addcmul_(gradient, gradient, value=1 - beta2)
    state["exp_avg"].copy_(torch.where(touched, average, state["exp_avg"]))
    state["exp_avg_sq"].copy_(torch.where(touched, square, state["exp_avg_sq"]))
    scale = square.div_(1 - beta2**steps).sqrt_().add_(group["eps"])
    step = average.div_(1 - beta1**steps).div_(scale).mul_(lr)
    table.copy_(torch.where(touched, table * (1 - lr * group["weight_decay"]) - step, table))


class Muon(TableAdamW):
    """Muon (Jordan et al. 2024) for the first parameter group, `TableAdamW` for the others.

    The step of a matrix is the orthogonal matrix nearest to its averaged gradient, so every direction moves equally
    far, scaled to the root mean square of a step of AdamW (Liu et al. 2025, "Muon is Scalable for LLM Training", sec.
    2.2).
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates the weights once."""
        group = self.param_groups[0]
        lr, shapes = group["lr"], dict(zip(group["params"], group["shapes"], strict=True))
        with _withheld(group["params"]) as gradients:
            super().step()
        for matrix, gradient in gradients.items():
            state = self._state_of(matrix, group, squares=False)  # AdamW, which loads it, expects a step
            average = state["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
            with _rounding_inputs(matrix.is_cuda):
                step = orthogonalize(gradient.lerp(average, MOMENTUM).reshape(shapes[matrix]))
            scale = 0.2 * max(step.shape[-2:]) ** 0.5
            matrix.mul_(1 - lr * group["weight_decay"]).sub_(step.reshape(matrix.shape) * (lr * scale))


@contextmanager
def _rounding_inputs(wanted: bool) -> Iterator[None]:
    """Inside the block, a GPU rounds the inputs of float32 products to 10 bits (TF32), several times faster.

    The singular values that `orthogonalize` leaves differ far more from 1.
    """
    if not wanted:
        yield
        return
    settings = torch.backends.cuda.matmul
    # torch 2.9 brought another name, and refuses to read the old one in a program that has set the new one.
    name, value = ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)


@contextmanager
def _withheld(parameters: Iterable[nn.Parameter]) -> Iterator[dict[nn.Parameter, Tensor]]:
    """Yields the gradients of `parameters`, which have none until the end: AdamW leaves them as they are."""
    gradients = {parameter: parameter.grad for parameter in parameters if parameter.grad is not None}
    for parameter in gradients:
        parameter.grad = None
    yield gradients
    for parameter, gradient in gradients.items():
        parameter.grad = gradient


def orthogonalize(matrix: Tensor) -> Tensor:
    """Returns nearly `U V^T` of the singular value decomposition `U S V^T` of a matrix `(..., M, N)`.

    Singular values become 0.7 to 1.2, unless they were tiny. There are five Newton-Schulz iterations
    `X <- (a I + b X X^T + c (X X^T)^2) X`. Each is a polynomial of the Gram matrix of the shorter side, so only that
    small matrix is iterated on.
    """
    if matrix.shape[-2] > matrix.shape[-1]:
        return orthogonalize(matrix.mT).mT
    matrix = matrix / (torch.linalg.matrix_norm(matrix, keepdim=True) + 1e-7)
    a, b, c = NEWTON_SCHULZ
    gram = matrix @ matrix.mT
    factor = eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    for _ in range(5):
        polynomial = a * eye + b * gram + c * gram @ gram
        factor = polynomial @ factor
        gram = polynomial @ gram @ polynomial
    return factor @ matrix


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Returns the rate of a step, which counts from 0: warm-up, a plateau, and linear decay at the end.

    The plateau does not depend on `total_steps`, so a run can be extended before its decay begins.
    """
    rate = config.lr * min(1.0, (step + 1) / max(1, config.warmup_steps))
    falling = config.decay * total_steps
    if falling and step > total_steps - falling:
        rate *= max(config.lowest, (total_steps - step) / falling)
    return rate
