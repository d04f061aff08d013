"""A GPU: whether training and embedding give the CPU's numbers there, and how fast they are.

    python benchmarks/gpu.py                       # all of it, in less than 150 seconds; the text is made up
    python benchmarks/gpu.py --text corpus.txt     # of a text, one tokenized sentence per line
    TRITON_INTERPRET=1 python benchmarks/gpu.py --device cpu --parts right --tiny    # without a GPU, in a minute

A step is all of it: the batch, the network forward and backward, the sampled softmax, clipping, Muon. The text made up
has Zipf's frequencies and some 9,000 distinct words in a window of 768 x 32.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed import random_weights

from elmo import ops
from elmo.bench.embedding import cut_runs, latency, throughput
from elmo.bench.machine import synchronize
from elmo.embedding.embedder import Embedder
from elmo.formats import load
from elmo.machine import card
from elmo.model.bilm import BiLMConfig
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
    """A row of the table of training steps; `goal` in words a second."""

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
SMALLEST = (Row("tiny", TINY, 4, 3, 8, 0),)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", nargs="+", default=["right", "steps", "train", "resume", "embed"])
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, to test this program")
    arguments = parser.parse_args()
    began = time.perf_counter()
    device = torch.device(arguments.device)
    print(f"{card(device.type)}, torch {torch.__version__}")
    if not ops.has_kernels(torch.zeros(1, device=device)):
        parser.error("Triton does not work here: see the warning above")
    ids = make_ids([arguments.text], WHITESPACE) if arguments.text else made_up(2_000 if arguments.tiny else 4_000_000)
    vocabulary = Vocabulary((*SPECIAL, *(word for word, _ in ids.ranked()[: 40 if arguments.tiny else WORDS - 3])))
    print(f"{len(ids.tokens):,} positions, {len(ids.words):,} words, {len(vocabulary):,} of them to predict")
    rows = SMALLEST if arguments.tiny else ROWS
    fabrics = {kind: launch(device.type, 1, 1, kind) for kind in ("32-true", "bf16-mixed")}
    parts = {
        "right": lambda: right(fabrics, ids, vocabulary, rows[0]),
        "steps": lambda: steps(fabrics["bf16-mixed"], ids, vocabulary, rows),
        "train": lambda: whole(ids, rows[0], device),
        "resume": lambda: resumed(ids, rows[0], device),
        "embed": lambda: embed(ids, device),
    }
    for name in arguments.parts:
        print(f"\n{name} ({time.perf_counter() - began:.0f} s)")
        parts[name]()
    print(f"\n{time.perf_counter() - began:.0f} s in all")


def made_up(positions: int, types: int = 600_000, seed: int = 1) -> Ids:
    """A text whose words have Zipf's frequencies, in sentences of some 25 and documents of some 3,500 positions."""
    rng = np.random.default_rng(seed)
    types = min(types, positions)
    letters = rng.choice(list("etaoinshrdlucmfwypvbgkjqxz"), (types, 12))
    words = [f"{''.join(row[: 2 + i % 9])}{i:x}" for i, row in enumerate(letters)]
    chances = 1 / np.arange(2.7, types + 2.7)
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


def training(
    fabric: Fabric, row: Row, vocabulary: Vocabulary, rate: torch.Tensor | None, optim: OptimConfig = MUON
) -> tuple[LanguageModel, Training]:
    torch.manual_seed(1)
    model = LanguageModel(row.model, len(vocabulary), ObjectiveConfig(row.negatives, 0.0, 0.5)).to(fabric.device)
    tables = model.lm_head.parameters()
    optimizer = build_optimizer(model.bilm.parameters(), optim, tables, muon_shapes(model.bilm), rate)

    def loss(model, batch, carried, common):  # noqa: ANN001, ANN202
        return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)

    wrapped: Any = fabric.setup_optimizers(optimizer)  # an optimizer in all but type
    return model, Training(fabric, fabric.setup_module(model), wrapped, loss, LoopConfig(), optim, 1)


def replay_of(fabric: Fabric, row: Row, ids: Ids, vocabulary: Vocabulary) -> Replay:
    rate = torch.zeros((), device=fabric.device)
    model, shared = training(fabric, row, vocabulary, rate)
    reader = ReaderConfig(row.streams, row.window, seed=1, max_characters=row.model.ids_per_token)
    return Replay(shared, model, rate, ids, vocabulary, reader, model.bilm.initial_state(row.streams), None)


# Right


def right(fabrics: dict[str, Fabric], ids: Ids, vocabulary: Vocabulary, row: Row) -> None:
    """Prints differences from the CPU, which has no kernels unless they are interpreted."""
    device, streams = fabrics["32-true"].device, min(row.streams, 16)
    reader = ReaderConfig(streams, row.window, seed=1, max_characters=row.model.ids_per_token)
    encoder_width = max(width for width, _ in row.model.char_cnn.filters) if row.model.char_cnn else 1
    text = copy_to_device(ids, vocabulary, reader.max_characters, encoder_width, device)
    batches, places = LmReader(ids, vocabulary, reader), LmReader(ids, vocabulary, reader)
    differ = 0
    for _ in range(200):
        batch, window = next(batches), places.places()
        slots = text.slots(text.distinct(ids.windows(window.places).inputs), batch.inputs.numel())
        found = text.window(torch.from_numpy(window.places).to(device), torch.from_numpy(window.keep).to(device), slots)
        rows = torch.cat([torch.nn.functional.pad(g, (0, 50 - g.shape[1]), value=261) for g in found.groups])
        differ += int((rows[found.inputs].cpu() != batch.char_ids[batch.inputs]).sum())
        differ += int((found.targets.cpu() != batch.targets).sum() + (found.starts.cpu() != batch.starts).sum())
    print(f"200 windows: {differ} differences from the reader's")
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


# Fast


def steps(fabric: Fabric, ids: Ids, vocabulary: Vocabulary, rows: tuple[Row, ...]) -> None:
    """Prints the table of captured steps."""
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
            for number in range(12):
                replay.step(1 + 12 * part + number, 1e-3)
            synchronize(fabric.device)
            times.append((time.perf_counter() - began) / 12)
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
        if on_gpu:
            torch.cuda.empty_cache()


def product_peak(device: torch.device) -> float:
    """Operations a second of a large product in bfloat16."""
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
    """Of the products of a step: forward, and twice that backward."""
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
        objective=ObjectiveConfig(row.negatives, 0.1, 0.5), optim=replace(MUON, warmup_steps=10), streams=row.streams,
        window=row.window, epochs=100, precision="bf16-mixed", accelerator=device.type, evaluate_words=1,
        ids=str(folder / "ids"), vocab_size=WORDS, loop=LoopConfig(1, 20, 10**6, 10**6, 1e6),
    )  # fmt: skip
    return replace(config, **changed)


def written(folder: Path, ids: Ids, positions: int) -> None:
    """The beginning of the text as a file."""
    lines = np.split(ids.tokens[:positions], np.flatnonzero(ids.tokens[:positions] == 0) + 1)[:-1]
    text = "\n".join(" ".join(ids.words[word] for word in line[:-1].tolist()) for line in lines)
    (folder / "text.txt").write_text(text + "\n", encoding="utf-8")


def whole(ids: Ids, row: Row, device: torch.device) -> None:
    """Prints the speed of `elmo train` itself."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, ids, 1_000_000)
        words = 400 * row.streams * row.window if device.type == "cuda" else 4 * row.streams * row.window
        train(configured(folder, row, device, max_words=words), quiet=True)
        lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        speeds = [line["tokens_per_s"] for line in lines if "tokens_per_s" in line]
        print(
            f"elmo train {row.name}, {row.streams} x {row.window}: {np.median(speeds):,.0f} words/s (goal {row.goal:,})"
        )


def resumed(ids: Ids, row: Row, device: torch.device) -> None:
    """Prints whether a run that stopped and went on is the run that did not, bit for bit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, ids, 200_000)
        total, found = (40 if device.type == "cuda" else 4) * row.streams * row.window, []
        for parts in ((1,), (2, 1)):
            output = str(folder / f"run-{len(parts)}")
            for number, part in enumerate(parts):
                plan = {"max_words": total // part, "output": output, "deterministic": True}
                keeps = replace(MUON, warmup_steps=10, decay=0.0)
                train(configured(folder, row, device, optim=keeps, **plan), resume=number > 0, quiet=True)
            found.append((Path(output) / "model" / "model.safetensors").read_bytes())
        print("stopped and resumed:", "equal" if found[0] == found[1] else "DIFFERENT")


# Embedding


def embed(ids: Ids, device: torch.device) -> None:
    """Prints tokens a second with all layers back on the CPU, and milliseconds for one sentence."""
    lines = np.split(ids.tokens[:300_000], np.flatnonzero(ids.tokens[:300_000] == 0) + 1)[:-1]
    sentences = [[ids.words[word] for word in line[:-1].tolist()] for line in lines if len(line) > 1]
    here = Embedder.load("english-base", device="cpu").embed(sentences[:50])
    there = Embedder.load("english-base", device=device).embed(sentences[:50])
    differences = [float(np.abs(one - other).max()) for one, other in zip(here, there, strict=True)]
    print(f"english-base, float32: largest difference from the CPU {max(differences):.1e}")
    for size in ("english-base", "published"):
        for precision in ("float32", "bfloat16"):
            bilm = load(size).bilm() if size == "english-base" else random_weights(BiLMConfig())
            embedder = Embedder(bilm, device=device, precision=precision)
            fast, alone = throughput(embedder, sentences, rounds=3), latency(embedder, cut_runs(sentences, 20, 8))
            one = f"20 tokens {alone.new_words:.1f} ms, known words {alone.known_words:.1f} ms"
            print(f"{size}, {precision}: {fast.tokens_per_second:,.0f} tokens/s; {one}")


if __name__ == "__main__":
    main()
