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


@pytest.mark.parametrize("library", ops.find_support("float32").libraries)
def test_float32_gives_the_same_by_every_library(library, plain):
    for seen, expected in zip(elmo.load(device="cpu", library=library).embed(SENTENCES), plain, strict=True):
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("library", ops.find_support("int8").libraries)
def test_int8_is_as_near_on_every_processor(library, plain):
    seen = elmo.load(device="cpu", precision="int8", library=library).embed(SENTENCES)
    assert (smallest_cosines(seen, plain) > [0.99999, 0.998, 0.997]).all()


@pytest.mark.parametrize("library", ops.find_support("bfloat16").libraries)
def test_bfloat16_is_as_near_on_every_processor(library, plain):
    seen = elmo.load(device="cpu", precision="bfloat16", library=library).embed(SENTENCES)
    assert (smallest_cosines(seen, plain) > 0.9995).all()


@pytest.mark.parametrize("library", ops.find_support("int8-weights").libraries)
def test_8_bit_weights_are_as_near_on_every_processor(library, plain):
    """A sentence alone, of few rows, and all together."""
    embedder = elmo.load(device="cpu", precision="int8-weights", library=library)
    together = embedder.embed(SENTENCES)
    alone = [embedder.embed([sentence])[0] for sentence in SENTENCES]
    assert (smallest_cosines(together, plain) > [0.99999, 0.9995, 0.9995]).all()
    assert (smallest_cosines(alone, plain) > [0.99999, 0.9995, 0.9995]).all()
    assert (smallest_cosines(alone, together) > 0.9999).all()


@pytest.mark.usefixtures("without_bfloat16")
@pytest.mark.filterwarnings("default:precision bfloat16")
def test_embedding_in_bfloat16_becomes_float32_with_one_warning(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("A quiet harbour .\n", encoding="utf-8")
    arguments = ["embed", str(tmp_path / "text.txt"), str(tmp_path / "vectors.npz"), "--pretokenized", "--quiet"]
    with pytest.raises(SystemExit, match="0"):
        cli.main([*arguments, "--precision", "bfloat16"])
    assert capsys.readouterr().err == f"elmo: warning: precision bfloat16: {SLOW.problem}; using float32\n"


FEW = ("max_words=400", "prefetch=false")
"""No process reads ahead: QEMU may stop one that is forked beside another thread (qemu_plugin_vcpu_init_hook)."""


def train(tmp_path, *more: str) -> Path:
    output = tmp_path / "run"
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", *texts(tmp_path), *TINY, "--output", str(output), "--quiet", *FEW, *more])
    return output


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
