"""What holds on every processor, and what happens on one without bfloat16; `make test-cpus` runs it on several."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_run import TINY, metrics, texts

import elmo
from elmo import cli, ops
from elmo.cli.arguments import DEMO_TEXT

SENTENCES = [line.split() for line in Path(str(DEMO_TEXT)).read_text(encoding="utf-8").splitlines()[:8]]
SLOW = ops.Support(("torch",), "this CPU has no bfloat16 instructions, so float32 is faster")

NEAR = {
    "float32": [0.99999, 0.99999, 0.99999],
    "int8": [0.99999, 0.998, 0.997],
    "bfloat16": [0.9995, 0.9995, 0.9995],
    "int8-weights": [0.99999, 0.9995, 0.9995],
}
"""The cosines with float32 that each layer exceeds."""


@pytest.fixture
def without_bfloat16(monkeypatch) -> None:
    true = ops.find_support
    for module in ("elmo.ops", "elmo.ops.packing"):
        monkeypatch.setattr(f"{module}.find_support", lambda name: SLOW if name == "bfloat16" else true(name))


@pytest.fixture(scope="module")
def plain() -> list[np.ndarray]:
    """By products of torch, in float32."""
    return elmo.load(device="cpu", library="torch").embed(SENTENCES)


def smallest_cosines(seen: list[np.ndarray], expected: list[np.ndarray]) -> np.ndarray:
    """Of every layer, over all tokens."""
    a, b = (torch.from_numpy(np.concatenate(vectors, axis=1)) for vectors in (seen, expected))
    return torch.cosine_similarity(a, b, dim=-1).amin(1).numpy()


FEW = ("max_words=400", "prefetch=false")
"""No process reads ahead: QEMU may stop one that is forked beside another thread (qemu_plugin_vcpu_init_hook)."""


def train(tmp_path, *more: str) -> Path:
    output = tmp_path / "run"
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", *texts(tmp_path), *TINY, "--output", str(output), "--quiet", *FEW, *more])
    return output


@pytest.mark.parametrize(
    ("precision", "library"), [(name, library) for name in NEAR for library in ops.find_support(name).libraries]
)
def test_every_library_is_as_near_on_every_processor(precision, library, plain):
    embedder = elmo.load(device="cpu", precision=precision, library=library)
    together = embedder.embed(SENTENCES)
    assert (smallest_cosines(together, plain) > NEAR[precision]).all()
    if precision == "float32":
        for seen, expected in zip(together, plain, strict=True):
            np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-4)
    if precision == "int8-weights":  # few rows, as of a sentence alone, have another product
        alone = [embedder.embed([sentence])[0] for sentence in SENTENCES]
        assert (smallest_cosines(alone, plain) > NEAR[precision]).all()
        assert (smallest_cosines(alone, together) > 0.9999).all()


@pytest.mark.usefixtures("without_bfloat16")
@pytest.mark.filterwarnings("default:precision bf16-mixed")
def test_training_in_bfloat16_becomes_float32_with_one_warning(tmp_path, capsys):
    run = train(tmp_path, "precision=bf16-mixed")
    warned = f"elmo: warning: precision bf16-mixed: {SLOW.problem}; training with precision=32-true"
    assert [line for line in capsys.readouterr().err.splitlines() if "warning" in line] == [warned]
    assert json.loads((run / "train.json").read_text(encoding="utf-8"))["precision"] == "32-true"


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.filterwarnings("ignore:precision bf16-mixed")
def test_a_short_training_learns(tmp_path, precision):
    losses = [
        line["loss"]
        for line in metrics(train(tmp_path, f"precision={precision}", "loop.log_steps=5"))
        if "loss" in line
    ]
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.usefixtures("without_bfloat16")
def test_info_says_which_products_are_used(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["info", "--check", "--json"])
    found = json.loads(capsys.readouterr().out)["CPU products"]
    assert found["float32"] == ops.find_support("float32").libraries[0]
    assert found["bfloat16"] == f"not used: {SLOW.problem}"
