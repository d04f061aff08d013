"""Decides whether Triton's kernels run: where it works on a GPU, and for tests on a CPU with `TRITON_INTERPRET=1`."""

import os
import warnings
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

FUSED = {"enable_fp_fusion": True}
"""The option of every launch: a product and a sum may be one instruction. Triton's default depends on its release."""


def has_kernels(x: Tensor) -> bool:
    """Returns whether the kernels run on this tensor's device and with its data type."""
    if x.dtype != torch.float32 or torch.compiler.is_exporting():
        return False
    can_run = x.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    return can_run and _kernels(x.device.type) is not None


def kernels_for(x: Tensor) -> ModuleType:
    """Returns `elmo.ops.kernels`, for a device for which `has_kernels` is true."""
    found = _kernels(x.device.type)
    assert found is not None
    return found


@cache
def _kernels(device: str) -> ModuleType | None:
    """The kernels; None, with a warning, if Triton is not installed or its kernels do not give the right numbers."""
    try:
        from elmo.ops import kernels

        if device == "cuda" and not isinstance(kernels.softmax_row, kernels.triton.JITFunction):
            problem = "it is interpreted on the CPU: unset TRITON_INTERPRET"
        elif _is_right(kernels, device):
            return kernels
        else:
            problem = "its numbers differ from torch's"
    except ModuleNotFoundError:
        problem = "it is not installed: pip install triton"
    except Exception as error:  # Triton has many errors: no compiler, no driver, an old card
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    warnings.warn(f"Triton does not work here ({problem}): the GPU is used without it, more slowly", stacklevel=4)
    return None


def _is_right(kernels: ModuleType, device: str) -> bool:
    """Whether a small softmax row equals torch's. It takes no random numbers, which would shift those of training."""
    logits = torch.linspace(-9, 9, 2 * 37, dtype=torch.float32, device=device).view(2, 37)
    bias, own = logits[1] / 7, logits[:, 3].clone()
    expected = torch.logsumexp(torch.cat([logits + bias, own[:, None]], 1), 1) - own
    column = torch.full((2,), -1, dtype=torch.int32, device=device)
    loss, to_own = torch.empty_like(own), torch.empty_like(own)
    kernels.softmax_row[(2,)](logits, bias.contiguous(), column, own, loss, to_own, 37, BLOCK=64, **FUSED)
    return torch.allclose(loss, expected, atol=1e-4)
