"""The compiled steps of the LSTM against those of torch, and what happens without a compiler."""

import json
import os
import shutil

import pytest
import torch
from small_run import TINY, losses, texts

from elmo import cli, ops
from elmo.model.lstm import BiLstmLayer, LstmConfig
from elmo.ops import char_windows, compiled, int8_reading, packing

needs_compiler = pytest.mark.skipif(not ops.can_compile(), reason="no C compiler")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_all_c_code_is_taken_where_there_is_a_compiler():
    """Where code in C does not compile or gives wrong numbers, it is not taken, and its other tests are skipped."""
    assert ops.can_compile()
    assert char_windows.compile_windows() is not None
    with_avx2 = packing.is_x86() and torch.backends.cpu.get_cpu_capability() != "DEFAULT"
    assert int8_reading.has_compiled() == with_avx2


@pytest.fixture
def without_compiler(monkeypatch):
    """The environment's compiler fails."""
    monkeypatch.setenv("CC", os.devnull)
    for found in (compiled.load_library, char_windows.compile_windows):
        found.cache_clear()
    yield
    for found in (compiled.load_library, char_windows.compile_windows):
        found.cache_clear()


def outputs_and_gradients(wanted: bool, clip: float | None, more: bool, size: int = 21) -> list[torch.Tensor]:
    """Of a layer in float32; `more`: rows that end, and states that are forgotten. 21 cells are no whole vectors."""
    torch.manual_seed(3)
    layer, rows, steps = BiLstmLayer(LstmConfig(size, 6, 1, clip, clip)), 4, 5
    layer.bias.data.normal_()
    inputs = torch.randn(2, steps, rows, 6).mul(3).requires_grad_()
    hidden, cell = torch.randn(2, rows, 6).requires_grad_(), torch.randn(2, rows, size).requires_grad_()
    active, keep = ([4, 4, 3, 1, 0], torch.rand(2, steps, rows) < 0.7) if more else (None, None)
    with ops.compiled_steps(wanted):
        outputs = layer(inputs, hidden, cell, active, keep)
    loss = sum((part * torch.randn_like(part)).sum() for part in outputs)
    return [*outputs, *torch.autograd.grad(loss, [inputs, hidden, cell, *layer.parameters()])]


@needs_compiler
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_outputs_and_gradients_are_those_of_torch(clip, more) -> None:
    for seen, expected in zip(*(outputs_and_gradients(w, clip, more) for w in (True, False)), strict=True):
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("wanted", "clip"), [(False, None), pytest.param(True, 0.5, marks=needs_compiler)])
def test_with_products_in_bfloat16_they_are_near(wanted, clip) -> None:
    plain = outputs_and_gradients(False, clip, True)
    with torch.autocast("cpu", torch.bfloat16):
        seen = outputs_and_gradients(wanted, clip, True)
    for s, p in zip(seen, plain, strict=True):
        assert s.dtype == torch.float32
        assert 0 < torch.linalg.vector_norm(s - p) < 0.03 * torch.linalg.vector_norm(p)


@needs_compiler
def test_any_number_of_threads_gives_the_same() -> None:
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        results.append(outputs_and_gradients(True, 0.5, False, size=2100)[1:3])
    for one, other in zip(results[0] * 2, results[1] + results[2], strict=True):
        torch.testing.assert_close(one, other)


@needs_compiler
def test_values_at_the_ends_of_the_range() -> None:
    """Saturated gates, and numbers that are not finite: they come out as from torch, not as something else."""
    values = torch.tensor([0.0, 1e-30, 1e-4, 20, 88, 1e4, 3e38, torch.inf, torch.nan])
    values = torch.cat([values, -values])
    products = [values.repeat(4)[None], values.repeat(4)[None].flip(1)]
    nothing = [torch.zeros_like(one) for one in products]
    library = compiled.load_library()
    assert library is not None
    kernel = compiled.StepKernel(library, torch.float32)
    cell, gates = torch.full((2, 1, 18), 0.5), torch.empty(2, 1, 72)
    cells, memory = torch.empty_like(cell), torch.empty_like(cell)
    kernel.forward(products, nothing, torch.zeros(2, 72), 1.0, 3.0, cell, gates, cells, memory)
    i, j, f, o = torch.stack(products).chunk(4, dim=-1)
    i, j, f, o = i.sigmoid(), j.tanh(), (f + 1).sigmoid(), o.sigmoid()
    torch.testing.assert_close(gates, torch.cat([i, j, f, o], dim=-1), equal_nan=True)
    expected = (f * 0.5 + i * j).clamp(-3, 3)
    torch.testing.assert_close(cell, expected, equal_nan=True)
    torch.testing.assert_close(memory, o * expected.tanh(), equal_nan=True)


@needs_compiler
@pytest.mark.usefixtures("doubles")
def test_the_sample_step_is_right_where_new_tensors_are_float64() -> None:
    compiled.load_library.cache_clear()
    assert ops.can_compile()


@pytest.mark.filterwarnings("ignore:the learning rate rises")
@pytest.mark.usefixtures("without_compiler")
def test_without_a_compiler_training_runs_by_torch_and_says_so_in_its_record(tmp_path) -> None:
    assert not ops.can_compile()
    assert char_windows.compile_windows() is None
    output = tmp_path / "run"
    settings = ("max_words=100", "compiled=true")
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", *texts(tmp_path), *TINY, "--output", str(output), "--quiet", *settings])
    assert json.loads((output / "train.json").read_text(encoding="utf-8"))["compiled"] is False
    assert losses(output)


@needs_compiler
@pytest.mark.filterwarnings("ignore:the learning rate rises")
def test_a_run_goes_on_with_what_it_began_with(tmp_path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(ops, "compiled_steps", lambda wanted: asked.append(wanted) or compiled.compiled_steps(wanted))
    arguments = ["train", *texts(tmp_path), *TINY, "--output", str(tmp_path / "run"), "--quiet"]
    for more in (["compiled=false", "max_words=40"], ["--resume", "max_words=60"]):
        with pytest.raises(SystemExit, match="0"):
            cli.main([*arguments, *more])
    assert asked == [False] * 3
