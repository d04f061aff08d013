"""Checks whether training and embedding give the CPU's numbers on a GPU, and measures how fast they are there.

    PYTHONPATH=$PWD timeout 200 python benchmarks/gpu.py 2>&1 | tee "$OUT/gpu.log"     # the text is made up
    python benchmarks/gpu.py --text corpus.txt     # of a text, one tokenized sentence per line
    python benchmarks/gpu.py --text wiki.train.txt --parts recipe --seconds 400 --curve english-large/index.json
    TRITON_INTERPRET=1 python benchmarks/gpu.py --device cpu --tiny    # without a GPU, in a minute

Results are printed at once. A part that fails does not stop the others, and no part begins after `--seconds`; in both
cases the exit code is 1. The program needs torch, Triton, numpy, jaxtyping, safetensors, h5py, filelock, rich and
lightning-fabric.

The part `recipe` trains 300 steps of the recipe english-large on the text, and compares their losses with the first
object of a list "curve": its "loss" is the mean up to its "step", at whose rate "lr" the mean here ends, too. The
program of the packaged model's curve had first made 33 steps with rates up to 5e-5, which its mean leaves out, so its
step 250 is step 217 here, and its mean is some 0.04 lower by estimate. It comes from the model's whole text; a part of
that text has other words and a slightly different loss.

A step includes the batch, the network forward and backward, the sampled softmax, clipping and Muon. The made-up text
has Zipf's frequencies and some 9,000 distinct words in a window of 768 x 32.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed import random_weights

from elmo import config, ops
from elmo.bench.embedding import cut_runs, latency, throughput
from elmo.bench.machine import synchronize
from elmo.embedding.embedder import Embedder
from elmo.formats import load
from elmo.machine import card
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import Ids, make_ids
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig, muon_shapes
from elmo.pretraining.replay import Replay
from elmo.pretraining.resident import copy_to_device
from elmo.pretraining.settings import TrainConfig
from elmo.pretraining.train import pretrain as train
from elmo.text.tokenizer import WHITESPACE
from elmo.text.vocabulary import SPECIAL, Vocabulary
from elmo.training.distributed import Fabric, launch
from elmo.training.loop import LoopConfig, Training
from elmo.training.optim import OptimConfig, build_optimizer

BASE = BiLMConfig(
    LstmConfig(1024, 256), CharCnnConfig(filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 256)), n_highway=1)
)
LARGE = BiLMConfig(
    LstmConfig(2048, 512), CharCnnConfig(filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512)), n_highway=1)
)
TINY = BiLMConfig(LstmConfig(24, 8), CharCnnConfig(4, ((1, 4), (2, 4)), 1))
WORDS = 50_000
MUON = OptimConfig("muon", 1e-3, weight_decay=0.1, vector_decay=0.0, table_decay=0.01)


@dataclass(frozen=True)
class Row:
    """A row of the table of training steps; `goal` is in words per second."""

    name: str
    model: BiLMConfig
    streams: int
    window: int
    negatives: int
    goal: int


ROWS = (
    Row("english-base", BASE, 256, 20, 4096, 450_000),
    Row("english-base", BASE, 1024, 20, 8192, 1_000_000),
    Row("english-large", LARGE, 768, 32, 8192, 650_000),
    Row("published", BiLMConfig(), 384, 20, 8192, 240_000),
)
SMALLEST = (Row("tiny", TINY, 2, 2, 8, 0),)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", nargs="+", default=["right", "steps", "train", "resume", "embed"])
    parser.add_argument("--seconds", type=float, default=150, help="no part begins later")
    parser.add_argument("--curve", type=Path, help="losses to compare those of the part `recipe` with")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, to test this program")
    arguments = parser.parse_args()
    began, tiny, device = time.perf_counter(), arguments.tiny, torch.device(arguments.device)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"{card(device.type)}, torch {torch.__version__}")
    if not ops.has_kernels(torch.zeros(1, device=device)):
        parser.error("Triton does not work here: see the warning above")
    ids = make_ids([arguments.text], WHITESPACE) if arguments.text else made_up(2_000 if tiny else 4_000_000)
    vocabulary = Vocabulary((*SPECIAL, *(word for word, _ in ids.ranked()[: 40 if tiny else WORDS - 3])))
    print(f"{len(ids.tokens):,} positions, {len(ids.words):,} words, {len(vocabulary):,} of them to predict")
    rows = SMALLEST if tiny else ROWS
    fabrics = {kind: launch(device.type, 1, 1, kind) for kind in ("32-true", "bf16-mixed")}
    parts = {
        "right": lambda: right(fabrics, ids, vocabulary, rows[0], 10 if tiny else 200),
        "steps": lambda: steps(fabrics["bf16-mixed"], ids, vocabulary, rows, 1 if tiny else 12),
        "train": lambda: whole(ids, rows[::2], device),
        "resume": lambda: resumed(ids, rows[0], device),
        "embed": lambda: embed(ids, device, tiny),
        "recipe": lambda: recipe(arguments.text, arguments.curve, rows[0] if tiny else None, device),
    }
    failed = run_parts({name: parts[name] for name in arguments.parts}, began, arguments.seconds)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    sys.exit(1 if failed else 0)


def run_parts(parts: dict[str, Callable[[], None]], began: float, seconds: float) -> list[str]:
    """Runs the parts in turn; returns the names of those that failed or had no time, and says why."""
    failed = []
    for name, part in parts.items():
        passed = time.perf_counter() - began
        print(f"\n{name} ({passed:.0f} s)")
        if passed > seconds:
            print("no time is left")
            failed.append(name)
            continue
        try:
            part()
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed.append(name)
        gc.collect()  # a failed part may still hold memory of the GPU
    return failed


def made_up(positions: int) -> Ids:
    """Makes up a text with Zipf's frequencies, in sentences of some 25 and documents of some 3,500 positions."""
    rng = np.random.default_rng(1)
    types = min(600_000, positions)
    letters = rng.choice(list("etaoinshrdlucmfwypvbgkjqxz"), (types, 12))
    words = [f"{''.join(row[: 2 + i % 9])}{i:x}" for i, row in enumerate(letters)]
    chances = np.arange(2.7, types + 2.7) ** -1.1
    tokens = (rng.choice(types, positions, p=chances / chances.sum()) + 2).astype(np.int32)
    tokens[rng.random(positions) < 0.04] = 0
    tokens[0], tokens[-1] = 2, 0
    ends = np.flatnonzero(tokens == 0) + 1
    starts = rng.random(len(ends)) < 25 / 3500
    starts[0] = True
    counts = np.bincount(tokens, minlength=types + 2)
    counts[:2] = 0
    characters = np.diff(ends, prepend=0) * 6
    return Ids(
        tokens, ["</S>", "<S>", *words], counts, ends, characters, starts, [(0, len(ends))], [6 * positions],
        ["made up"], "made up",
    )  # fmt: skip


def training(fabric: Fabric, row: Row, vocabulary: Vocabulary, rate: torch.Tensor) -> tuple[LanguageModel, Training]:
    torch.manual_seed(1)
    model = LanguageModel(row.model, len(vocabulary), ObjectiveConfig(row.negatives, 0.0, 0.5)).to(fabric.device)
    tables = model.lm_head.parameters()
    optimizer = build_optimizer(model.bilm.parameters(), MUON, tables, muon_shapes(model.bilm), rate)

    def loss(model, batch, carried, common):  # noqa: ANN001, ANN202
        return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)

    wrapped: Any = fabric.setup_optimizers(optimizer)  # its type does not say that it is an optimizer
    return model, Training(fabric, fabric.setup_module(model), wrapped, loss, LoopConfig(), MUON, 1)


def replay_of(fabric: Fabric, row: Row, ids: Ids, vocabulary: Vocabulary) -> Replay:
    rate = torch.zeros((), device=fabric.device)
    model, shared = training(fabric, row, vocabulary, rate)
    reader = ReaderConfig(row.streams, row.window, seed=1, max_characters=row.model.ids_per_token)
    return Replay(shared, model, rate, ids, vocabulary, reader, model.bilm.initial_state(row.streams), None)


# Whether the numbers are right


def right(fabrics: dict[str, Fabric], ids: Ids, vocabulary: Vocabulary, row: Row, windows: int) -> None:
    """Prints differences from the CPU, which has no kernels unless they are interpreted."""
    device, streams = fabrics["32-true"].device, min(row.streams, 16)
    reader = ReaderConfig(streams, row.window, seed=1, max_characters=row.model.ids_per_token)
    encoder_width = max(width for width, _ in row.model.char_cnn.filters) if row.model.char_cnn else 1
    text = copy_to_device(ids, vocabulary, reader.max_characters, encoder_width, device)
    batches, places = LmReader(ids, vocabulary, reader), LmReader(ids, vocabulary, reader)
    differ = 0
    for _ in range(windows):
        batch, window = next(batches), places.places()
        slots = text.slots(text.distinct(ids.windows(window.places).inputs), batch.inputs.numel())
        found = text.window(torch.from_numpy(window.places).to(device), torch.from_numpy(window.keep).to(device), slots)
        rows = torch.cat([torch.nn.functional.pad(g, (0, 50 - g.shape[1]), value=261) for g in found.groups])
        differ += int((rows[found.inputs].cpu() != batch.char_ids[batch.inputs]).sum())
        differ += int((found.targets.cpu() != batch.targets).sum() + (found.starts.cpu() != batch.starts).sum())
    print(f"{windows} windows: {differ} differences from the reader's")
    torch.manual_seed(1)
    here = LanguageModel(row.model, len(vocabulary), ObjectiveConfig(0, 0.0, 0.0))
    there = LanguageModel(row.model, len(vocabulary), ObjectiveConfig(0, 0.0, 0.0)).to(device)
    there.load_state_dict(here.state_dict())
    batch = next(batches)
    drawn = torch.arange(3, 3 + min(row.negatives, len(vocabulary) // 2))
    expected = gradients(here, batch, drawn, torch.float32)
    for dtype in (torch.float32, torch.bfloat16):
        found = gradients(there, batch.to(device), drawn.to(device), dtype)
        worst = max(float((found[n] - expected[n]).norm() / (expected[n].norm() + 1e-12)) for n in expected)
        print(f"{dtype}: worst relative difference of the loss and of a gradient from the CPU's: {worst:.1e}")


def gradients(model: LanguageModel, batch, drawn: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:  # noqa: ANN001
    model.zero_grad()
    from elmo.pretraining.objective import top_layer

    state = model.bilm.initial_state(batch.inputs.shape[1])
    with torch.autocast(batch.inputs.device.type, dtype, enabled=dtype != torch.float32):
        hidden, _ = top_layer(model.bilm, batch.char_ids, batch.inputs, batch.keep, state)
        words = batch.targets.transpose(1, 2).flatten()
        loss = model.lm_head.sampled_loss(hidden.flatten(0, 2), words, drawn) / len(words)
    loss.backward()
    found = {name: weight.grad.cpu() for name, weight in model.named_parameters() if weight.grad is not None}
    return found | {"loss": loss.detach().cpu()}


# How fast training is


def steps(fabric: Fabric, ids: Ids, vocabulary: Vocabulary, rows: tuple[Row, ...], count: int) -> None:
    """Prints the table of captured steps; each is the median of three times `count`."""
    peak = product_peak(fabric.device)
    print(f"a large bfloat16 product: {peak / 1e12:.0f} TFLOP/s")
    print("| size | streams x window, negatives | ms a step | words/s | goal | of the peak | GPU memory | capture |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        on_gpu = fabric.device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        replay = replay_of(fabric, row, ids, vocabulary)
        began = time.perf_counter()
        float(replay.step(0, 1e-3)[0])
        capture, times = time.perf_counter() - began, []
        for part in range(3):
            synchronize(fabric.device)
            began = time.perf_counter()
            for number in range(count):
                replay.step(1 + count * part + number, 1e-3)
            synchronize(fabric.device)
            times.append((time.perf_counter() - began) / count)
        replay.check()
        seconds, words = sorted(times)[1], row.streams * row.window
        share = operations(row, sum(replay.distinct)) / seconds / peak
        memory = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0
        print(
            f"| {row.name} | {row.streams} x {row.window}, {row.negatives:,} | {1e3 * seconds:.1f} |"
            f" {words / seconds:,.0f} | {row.goal:,} | {share:.0%} | {memory:.1f} GiB | {capture:.1f} s |"
            f"  distinct words {replay.distinct} of {replay.slots}"
        )
        del replay
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()


def product_peak(device: torch.device) -> float:
    """Measures the operations per second of a large product in bfloat16."""
    size = 8192 if device.type == "cuda" else 256
    one = torch.randn(size, size, device=device).bfloat16()
    best = float("inf")
    for _ in range(6):
        synchronize(device)
        began = time.perf_counter()
        torch.mm(one, one)
        synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def operations(row: Row, distinct: int) -> float:
    """Returns the operations of the products of a step: once forward, and twice as many backward."""
    lstm, cnn = row.model.lstm, row.model.char_cnn
    assert cnn is not None
    places = 2 * row.streams * row.window
    of_layer = 2 * 4 * lstm.dim * 2 * lstm.projection_dim + 2 * lstm.dim * lstm.projection_dim
    of_word = sum(2 * 20 * width * cnn.embedding_dim * count for width, count in cnn.filters)
    of_word += cnn.n_highway * 4 * cnn.n_filters**2 + 2 * cnn.n_filters * lstm.projection_dim
    softmax = 2 * row.negatives * lstm.projection_dim
    return 3 * (places * (lstm.n_layers * of_layer + softmax) + distinct * of_word)


def configured(folder: Path, row: Row, device: torch.device, **changed: object) -> TrainConfig:
    config = TrainConfig(
        (str(folder / "text.txt"),), str(folder / "run"), text=WHITESPACE, model=row.model,
        objective=ObjectiveConfig(row.negatives, 0.1, 0.5), optim=replace(MUON, warmup_steps=1), streams=row.streams,
        window=row.window, epochs=100, precision="bf16-mixed", accelerator=device.type, evaluate_words=1,
        ids=str(folder / "ids"), vocab_size=WORDS, loop=LoopConfig(1, 20, 10**6, 10**6, 1e6),
    )  # fmt: skip
    return replace(config, **changed)


def written(folder: Path, ids: Ids, positions: int) -> None:
    """Writes the beginning of the text to a file."""
    lines = np.split(ids.tokens[:positions], np.flatnonzero(ids.tokens[:positions] == 0) + 1)[:-1]
    text = "\n".join(" ".join(ids.words[word] for word in line[:-1].tolist()) for line in lines)
    (folder / "text.txt").write_text(text + "\n", encoding="utf-8")


def whole(ids: Ids, rows: tuple[Row, ...], device: torch.device) -> None:
    """Prints the speed of `elmo train` itself."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, ids, 1_000_000)
        for number, row in enumerate(rows):
            words = (300 if device.type == "cuda" else 3) * row.streams * row.window
            run = folder / f"run-{number}"
            train(configured(folder, row, device, max_words=words, output=str(run)), quiet=True)
            speeds = [line["tokens_per_s"] for line in logged(run, "tokens_per_s")]
            speed = f"{np.median(speeds):,.0f} words/s (goal {row.goal:,})"
            print(f"elmo train {row.name}, {row.streams} x {row.window}: {speed}")


def logged(run: Path, key: str) -> list[dict[str, Any]]:
    """Returns the lines of a run's log that have `key`."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if key in line]


def recipe(text: Path | None, curve: Path | None, tiny: Row | None, device: torch.device) -> None:
    """Prints the losses of 300 steps of the recipe english-large, as means since the one before, and of a curve.

    The rates are those of the whole run, which begins to fall when the warm-up of 300 steps has ended.
    """
    if text is None:
        raise ValueError("the part recipe needs --text")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = config.load_toml(config.RECIPES / "english-large.toml")
        changed = {"train": [str(text)], "output": str(folder / "run"), "accelerator": device.type, "evaluate_words": 1}
        plan = config.from_dict(TrainConfig, values | changed)
        plan = replace(plan, optim=replace(plan.optim, decay=0.0))
        every, steps = (50, 300) if tiny is None else (1, 3)
        if tiny is not None:
            plan = replace(
                plan, model=tiny.model, streams=tiny.streams, window=tiny.window, vocab_size=40, text=WHITESPACE,
                objective=replace(plan.objective, negatives=tiny.negatives), optim=replace(plan.optim, warmup_steps=3),
            )  # fmt: skip
        words, quiet = steps * plan.streams * plan.window, 10**6
        loop = replace(plan.loop, log_steps=1, evaluate_steps=quiet, checkpoint_steps=quiet, checkpoint_minutes=1e6)
        train(replace(plan, loop=loop, max_words=words), quiet=True)
        lines = logged(folder / "run", "loss")
        losses = np.array([line["loss"] for line in lines]).reshape(-1, every).mean(1)
        print("recipe:", ", ".join(f"step {every * (1 + i)} {loss:.3f}" for i, loss in enumerate(losses)))
        for point in json.loads(curve.read_text(encoding="utf-8"))["curve"][:1] if curve else ():
            found = [line["loss"] for line in lines if line["lr"] <= point["lr"]]
            print(f"mean up to step {len(found)}: {np.mean(found):.3f}; the curve has {point['loss']:.3f}")


def resumed(ids: Ids, row: Row, device: torch.device) -> None:
    """Prints whether a run that stopped and resumed equals, bit for bit, one that did not stop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, ids, 200_000)
        total, found = (40 if device.type == "cuda" else 4) * row.streams * row.window, []
        for parts in ((1,), (2, 1)):
            output = str(folder / f"run-{len(parts)}")
            for number, part in enumerate(parts):
                plan = {"max_words": total // part, "output": output, "deterministic": True}
                keeps = replace(MUON, warmup_steps=1, decay=0.0)
                train(configured(folder, row, device, optim=keeps, **plan), resume=number > 0, quiet=True)
            found.append((Path(output) / "model" / "model.safetensors").read_bytes())
        print("stopped and resumed:", "equal" if found[0] == found[1] else "DIFFERENT")


# How fast embedding is


def embed(ids: Ids, device: torch.device, tiny: bool) -> None:
    """Prints the tokens per second with all layers back on the CPU, and the milliseconds for one sentence."""
    tokens = ids.tokens[: 400 if tiny else 300_000]
    lines = np.split(tokens, np.flatnonzero(tokens == 0) + 1)[:-1]
    sentences = [[ids.words[word] for word in line[:-1].tolist()] for line in lines if len(line) > 1]
    models: dict[str, Callable[[], BiLM]] = {
        "english-base": lambda: load("english-base").bilm(),
        "published": lambda: random_weights(BiLMConfig()),
    }
    if tiny:
        models = {"tiny": lambda: random_weights(TINY)}
    for size, made in models.items():
        here, there = (Embedder(made(), device=place).embed(sentences[:20]) for place in ("cpu", device))
        difference = max(float(np.abs(one - other).max()) for one, other in zip(here, there, strict=True))
        print(f"{size}, float32: largest difference from the CPU {difference:.1e}")
        for precision in ("float32", "bfloat16"):
            embedder = Embedder(made(), device=device, precision=precision)
            fast, alone = throughput(embedder, sentences, rounds=2), latency(embedder, cut_runs(sentences, 20, 8))
            one = f"20 tokens {alone.new_words:.1f} ms, known words {alone.known_words:.1f} ms"
            print(f"{size}, {precision}: {fast.tokens_per_second:,.0f} tokens/s; {one}")


if __name__ == "__main__":
    main()
