"""What a user writes, for the type checker: test_wheel.py has mypy read it against the installed package."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import elmo
from elmo import formats
from elmo.embedding.job import embed_file
from elmo.embedding.store import read_vectors
from elmo.model.export import exported
from elmo.search.nearest import search
from elmo.types import Batch, BiLMOutput, LstmState
from elmo_lab.tasks.trained import TrainedTask


def means(sentences: Iterable[list[str]]) -> np.ndarray:
    embedder = elmo.load("default", device="cpu", precision="float32", state="echo")
    rows = [vectors.mean(axis=0) for vectors in embedder.embed_stream(sentences, layers="average")]
    first: np.ndarray = embedder.embed([["a"]], layers=[0.2, 0.3, 0.5], pool="mean")[0]
    return np.stack([*rows, first])


class Tagger(nn.Module):
    def __init__(self, path: Path, labels: int) -> None:
        super().__init__()
        self.elmo = formats.load(path).elmo(dropout=0.1, frozen=False)
        self.labels = nn.Linear(256, labels)

    def forward(self, batch: Batch) -> Tensor:
        (vectors,), mask = self.elmo(batch)
        scores: Tensor = self.labels(vectors) * mask[:, :, None]
        return scores


def train(tagger: Tagger, sentences: list[list[str]]) -> float:
    batch = elmo.to_batch(sentences)
    loss = tagger(batch).square().mean() + tagger.elmo.penalty(0.001)
    loss.backward()
    return float(loss.detach())


def layers(bilm: elmo.BiLM, batch: Batch, state: LstmState | None = None) -> Tensor:
    output: BiLMOutput = bilm(batch, state)
    return output.layers


def f1(folder: Path, examples: list[object]) -> float:
    task = TrainedTask.load(folder)
    return task.score(examples)["f1"]


def main() -> None:
    mix = elmo.ScalarMix(3)
    print(mix.weights().tolist())
    embedder = elmo.Embedder.load("default")
    done = embed_file(embedder, "in.txt", "out.npz", "all")
    print(done.rows, done.tokens)
    found = search(embedder, [["a", "play"]], [(["a", "play"], 1)], layers=(1,), k=3)
    print(found[0][0].neighbors[0].similarity)
    with read_vectors("out.npz") as vectors:
        print(len(vectors), vectors[0].shape, vectors.tokens(0))
    torch.export.save(exported(elmo.BiLM(elmo.BiLMConfig())), "a.pt2")


if __name__ == "__main__":
    main()
