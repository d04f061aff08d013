"""Makes the first calls of MKL's elementwise functions from one thread.

Up to MKL 2024, which torch's x86 wheels contain, the first call of a function decides which kernel runs. When two
threads of a parallel `exp` make it together, one of them may run a kernel of low precision (relative errors of 1e-4)
that once, so the numbers differ from run to run (PyTorch issue 188792).
"""

import torch


def make_first_calls() -> None:
    """Calls every function that torch passes to MKL and that training or inference may need, on one number."""
    functions = (
        torch.exp, torch.expm1, torch.log, torch.log1p, torch.log2, torch.log10, torch.sqrt, torch.tanh, torch.erf,
        torch.sin, torch.cos,
    )  # fmt: skip
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")  # the caller may have set other defaults
        for function in functions:
            function(number)
