"""Optimizers and the learning rate of a step."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True)
class OptimConfig:
    """AdamW, or Adagrad as the published models were trained with."""

    name: Literal["adamw", "adagrad"] = "adamw"
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    initial_accumulator: float = 1.0
    """Adagrad's sum of squares before the first step."""
    warmup_steps: int = 200
    """Steps of linear increase from zero."""
    decay: float = 0.4
    """The last part of all steps, over which the rate falls linearly to a hundredth; 0 keeps it."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; 0 for no limit."""


def build_optimizer(parameters: Iterable[nn.Parameter], config: OptimConfig) -> torch.optim.Optimizer:
    if config.name == "adagrad":
        return torch.optim.Adagrad(
            parameters, config.lr, initial_accumulator_value=config.initial_accumulator, eps=1e-10
        )
    return torch.optim.AdamW(parameters, config.lr, config.betas, weight_decay=config.weight_decay, fused=True)


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Warm-up, a plateau, a linear fall at the end; `step` counts from 0.

    The plateau does not depend on `total_steps`: a run can be made longer before its fall begins.
    """
    rate = config.lr * min(1.0, (step + 1) / max(1, config.warmup_steps))
    falling = config.decay * total_steps
    if falling and step > total_steps - falling:
        rate *= max(0.01, (total_steps - step) / falling)
    return rate
