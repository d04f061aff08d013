"""Triton compiles each kernel for GPUs, without having one: its interpreter accepts more than a GPU does.

The launches are recorded from `elmo.ops.fused` itself, so the types and options are those that a GPU gets.
"""

from unittest import mock

import pytest
import torch
from idle_kernels import NAMES as KERNELS
from idle_kernels import Idle

from elmo.ops import fused
from elmo.ops.packed_lstm import Clips

triton = pytest.importorskip("triton")

NAMES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32"}
STEPS, WORDS, SIZE, CELLS = 2, 5, 16, 32


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()


def launch_all(dtype: torch.dtype, rows: int, keep: torch.Tensor | None, clips: Clips) -> None:
    """Trains and reads a layer, and computes a loss."""
    states = torch.zeros(2, rows, SIZE), torch.zeros(2, rows, CELLS)
    weights = (2, 4 * CELLS, WORDS), (2, 4 * CELLS, SIZE), (2, 4 * CELLS), (2, SIZE, CELLS)
    words = normal(2, STEPS, rows, WORDS)
    trained = fused.train_lstm(words, *(normal(*shape) for shape in weights), *states, clips, keep, dtype)
    sum(part.sum() for part in trained).backward()
    stored = [normal(*shape, dtype=torch.float32 if len(shape) == 2 else dtype) for shape in weights]
    with torch.no_grad():
        fused.read_lstm(words, *stored, *states, clips, torch.ones(STEPS, rows), keep)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
        targets, negatives = torch.arange(rows), torch.arange(5, 5 + rows)
        fused.sampled_loss(normal(rows, SIZE), normal(20, SIZE), normal(20), targets, negatives, torch.zeros(20))


def signature_of(kernel, arguments, options) -> tuple[dict[str, str], dict[tuple[int], object], dict[str, object]]:
    """Returns the types, constants and options of a launch. As in Triton, an integer of 1 becomes a constant."""
    types, constants = {}, {}
    for place, (name, value) in enumerate(zip(kernel.arg_names, arguments, strict=False)):
        if isinstance(value, torch.Tensor):
            types[name] = NAMES[value.dtype]
        elif isinstance(value, float):
            types[name] = "fp32"
        elif value == 1:
            types[name], constants[(place,)] = "constexpr", 1
        else:
            types[name] = "i32"
    for name in kernel.arg_names[len(arguments) :]:
        types[name], constants[(kernel.arg_names.index(name),)] = "constexpr", options[name]
    return types, constants, {name: value for name, value in options.items() if name not in types}


@pytest.mark.parametrize("capability", [80, 90], ids=["Ampere", "Hopper"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_kernel_compiles_for_a_gpu(capability, dtype, monkeypatch, tmp_path):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from elmo.ops import kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    recorders = {name: mock.Mock() for name in KERNELS}
    with monkeypatch.context() as recording:
        recording.setattr(fused, "kernels_for", lambda _: kernels)
        for name, recorder in recorders.items():
            recording.setattr(kernels, name, Idle(recorder))
        launch_all(dtype, 3, torch.ones(2, STEPS, 3, dtype=torch.bool), Clips(3.0, 3.0, 1.0))
        launch_all(dtype, 1, None, Clips(None, None, 0.0))
    for name, recorder in recorders.items():
        kernel, compiled = getattr(kernels, name), set()
        for arguments, given in recorder.call_args_list:
            types, constants, options = signature_of(kernel, arguments, given)
            if (key := str((types, constants))) not in compiled:
                source = ASTSource(fn=kernel, signature=types, constexprs=constants)
                assert compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["cubin"]
                compiled.add(key)
        assert len(compiled) > 1, name
