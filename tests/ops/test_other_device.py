"""On a device that is not the CPU all is computed there and gives the same numbers.

The device is a simulated one (`other_device`), and a GPU where there is one.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from brute_force import random_model
from other_device import Elsewhere
from small_corpus import write_corpus
from tiny import CONFIG, tiny_model
from torch import nn

from elmo.embedding.embedder import Embedder
from elmo.formats import native
from elmo.model.lm_head import LmHead, log_expected, log_uniform
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import make_ids
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.server.service import ServeConfig, Service
from elmo.text.batching import to_batch
from elmo.text.tokenizer import WHITESPACE
from elmo.text.vocabulary import Vocabulary

CPU = torch.device("cpu")
SENTENCES = [["word"] * (1 + number % 7) + [f"n{number}"] for number in range(120)] + [[]]
"""More than are read side by side, so that rows of a batch begin anew."""


def test_the_device_is_as_strict_as_a_gpu(there) -> None:
    numbers = torch.zeros(3, 2, device=there)
    assert numbers.is_cuda or isinstance(numbers, Elsewhere)
    assert (numbers + 1).cpu().tolist() == [[1.0, 1.0]] * 3
    for mixed in (
        lambda: numbers + torch.ones(3, 2),
        lambda: numbers.index_fill_(0, torch.tensor([1]), 5),
        lambda: numbers.index_select(0, torch.tensor([1])),
        lambda: torch.cat([numbers, torch.ones(3, 2)]),
        lambda: torch.rand(2, device=there, generator=torch.Generator()),
    ):
        with pytest.raises(RuntimeError, match=there.type):
            mixed()
    with pytest.raises((RuntimeError, TypeError)):
        numbers.numpy()


@pytest.mark.parametrize("state", ["reset", "echo", "carry", "warm"])
def test_vectors_are_the_same(state, there, monkeypatch) -> None:
    monkeypatch.setattr("elmo.embedding.embedder.GPU_ROWS", 96)
    options = {"state": state, "warm_text": ["a b"]} if state == "warm" else {"state": state}
    ours = Embedder(tiny_model().bilm(), device="cpu", **options).embed(SENTENCES)
    found = Embedder(tiny_model().bilm(), device=there, **options).embed(SENTENCES)
    for expected, vectors in zip(ours, found, strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_another_default_device_changes_nothing(there) -> None:
    """More words than are encoded at once, and a sampled softmax, whose tables are kept."""
    found = []
    for device, default in ((CPU, CPU), (CPU, there), (there, CPU), (there, there)):
        log_uniform.cache_clear()
        log_expected.cache_clear()
        batch = to_batch([[f"w{number}" for number in range(first, first + 5)] for first in range(0, 300, 5)]).to(
            device
        )
        bilm, softmax = tiny_model().bilm().to(device), LmHead(50, 4)
        nn.init.constant_(softmax.weight, 0.1)
        with torch.device(default), torch.no_grad():
            torch.manual_seed(1)
            top = bilm(batch).layers[-1, 0, :5, :4]
            softmax = softmax.to(device)
            loss = softmax.sampled_loss(top, batch.lengths.new_zeros(5), softmax.draw(10))
        found.append((top.cpu(), loss.cpu()))
    for seen in found[1:]:
        torch.testing.assert_close(seen, found[0], atol=1e-6, rtol=1e-5)


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Vocabulary]:
    path = write_corpus(tmp_path / "text.txt", documents=4)
    words = dict.fromkeys(path.read_text(encoding="utf-8").split())
    return path, Vocabulary(("<S>", "</S>", "<UNK>", *words))


def language_model(device: torch.device, vocabulary: Vocabulary, negatives: int) -> LanguageModel:
    torch.manual_seed(2)
    objective = ObjectiveConfig(negatives=negatives, dropout=0.0, reset_probability=0.5)
    return LanguageModel(CONFIG, len(vocabulary), objective).to(device)


@pytest.mark.parametrize("negatives", [0, 8])
def test_gradients_of_training_are_the_same(text, negatives, there) -> None:
    """Of two windows, the second from the state that the first one left."""
    path, vocabulary = text
    found = []
    for device in (CPU, there):
        model = language_model(device, vocabulary, negatives)
        reader = LmReader(make_ids([path], WHITESPACE), vocabulary, ReaderConfig(4, 5))
        state = model.bilm.initial_state(4)
        loss = torch.zeros(())
        for _ in range(2):
            batch = next(reader).to(device)
            loss, state = model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, state)
            loss.backward()
            state = type(state)(*(part.detach() for part in state))
        gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        assert len(gradients) == len(list(model.parameters()))
        found.append({name: g.cpu() for name, g in gradients.items()} | {"loss": loss.detach().cpu()})
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], atol=1e-6, rtol=1e-4)


def test_a_server_embeds_and_scores_the_same(
    there: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model runs in the thread that made it, here this one."""
    monkeypatch.setattr("elmo.embedding.embedder.GPU_ROWS", 96)
    native.save(random_model(), tmp_path / "model")
    sentences = [["oak", "elm", "pine"] * 5, ["ash"]]
    seen = []
    for device in (CPU, there):
        service = Service(ServeConfig(str(tmp_path / "model"), device=str(device)))
        assert service.embedder.device.type == device.type
        assert service.scorer is not None
        scores = list(service.scorer.score(sentences))
        best = service.scorer.substitutes(sentences[0], 1, 2)
        vectors = [service.embedders[state].embed(sentences, "average", "mean") for state in ("reset", "echo")]
        numbers = [np.stack(vectors).ravel(), *(each for own in scores for each in (own.forward, own.backward))]
        seen.append(np.concatenate([*numbers, [each.log_probability for each in best]]))
    np.testing.assert_allclose(seen[1], seen[0], atol=1e-5)
