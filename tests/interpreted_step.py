"""The whole captured step, run on the CPU by Triton's interpreter and the stand-in for a CUDA graph.

`test_interpreted.py` runs it: TRITON_INTERPRET must be set before Triton is imported.
"""

from typing import Any

import pytest
import torch
from graph_stand_in import CaptureError
from interpreted_kernels import CONFIG, close
from refusals import refused
from small_corpus import write_corpus

from elmo import ops
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import make_ids
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig, muon_shapes
from elmo.pretraining.replay import Replay, can_replay
from elmo.pretraining.resident import copy_to_device
from elmo.text.tokenizer import WHITESPACE
from elmo.text.vocabulary import Vocabulary
from elmo.training.distributed import launch
from elmo.training.loop import LoopConfig, Steps, Training, TrainingError
from elmo.training.optim import OptimConfig, build_optimizer

READER = ReaderConfig(streams=2, window=3, seed=3, max_characters=20)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = write_corpus(tmp_path_factory.mktemp("text") / "text.txt", 12)
    with path.open("a", encoding="utf-8") as file:
        file.write("\nA word-of-many-characters , and another-such-long-word-here .\n" * 3)
    ids = make_ids([path], WHITESPACE)
    return ids, Vocabulary(("<S>", "</S>", "<UNK>", *(word for word, count in ids.ranked() if count > 1)))


def test_windows_on_a_gpu_are_those_of_the_reader(text):
    ids, vocabulary = text
    batches, places = LmReader(ids, vocabulary, READER), LmReader(ids, vocabulary, READER)
    there = copy_to_device(ids, vocabulary, READER.max_characters, 3, CPU)
    assert len(there.characters) == 2
    for _ in range(150):
        batch, window = next(batches), places.places()
        distinct = there.distinct(ids.windows(window.places).inputs)
        slots = [count + extra for count, extra in zip(distinct, (0, 2), strict=True)]
        found = there.window(torch.from_numpy(window.places), torch.from_numpy(window.keep), slots)
        assert sum(distinct) == len(batch.char_ids)
        for name in ("targets", "keep", "starts"):
            assert torch.equal(getattr(found, name), getattr(batch, name)), name
        rows = [torch.nn.functional.pad(group, (0, 20 - group.shape[1]), value=261) for group in found.groups]
        assert torch.equal(torch.cat(rows)[found.inputs], batch.char_ids[batch.inputs])


def test_places_of_a_window_need_no_more_slots_than_there_are_words(text):
    ids, vocabulary = text
    there = copy_to_device(ids, vocabulary, READER.max_characters, 3, CPU)
    sizes = there.group_sizes()
    assert there.slots([10**6, 10**6], 10**6) == sizes
    assert there.slots([3, 0], 10) == [min(20, sizes[0]), min(20, sizes[1])]


def training(vocabulary, optim, rate=None):
    torch.manual_seed(1)
    model = LanguageModel(CONFIG, len(vocabulary), ObjectiveConfig(8, 0.0, 0.5), sparse=False)
    fabric = launch("cpu", 1, 1, "32-true")
    optimizer = build_optimizer(
        model.bilm.parameters(), optim, model.lm_head.parameters(), muon_shapes(model.bilm), rate
    )

    def loss(model, batch, carried, common):
        return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)

    wrapped: Any = fabric.setup_optimizers(optimizer)
    return model, Training(fabric, fabric.setup_module(model), wrapped, loss, LoopConfig(), optim, 5)


def replayed(text, optim):
    """The model, and its captured step."""
    ids, vocabulary = text
    rate = torch.zeros(())
    model, captured = training(vocabulary, optim, rate)
    return model, Replay(captured, model, rate, ids, vocabulary, READER, model.bilm.initial_state(2), None)


@pytest.fixture(autouse=True)
def same_negatives(monkeypatch):
    """A GPU draws its own; here they depend on nothing."""
    monkeypatch.setattr("elmo.model.lm_head.LmHead.draw", lambda head, count, _: torch.arange(3, 3 + count))


@pytest.mark.parametrize(
    "optim",
    [
        OptimConfig("muon", 0.01, weight_decay=0.1, table_decay=0.01, vector_decay=0.0, clip_norm=0.5),
        OptimConfig("adamw", 0.01),
        OptimConfig("adagrad", 0.1, clip_norm=0.0),
    ],
    ids=lambda optim: optim.name,
)
def test_captured_steps_are_those_of_the_loop(text, optim, monkeypatch):
    ids, vocabulary = text
    model, replay = replayed(text, optim)
    assert can_replay(model, CPU)
    found = [replay.step(number, optim.lr / (1 + number)) for number in range(2)]
    replay.check()
    monkeypatch.delenv("TRITON_INTERPRET")
    other, plain = training(vocabulary, optim)
    steps = Steps(plain, LmReader(ids, vocabulary, READER), other.bilm.initial_state(2))
    expected = [steps.step(number, optim.lr / (1 + number)) for number in range(2)]
    assert replay.position().items() >= steps.position().items()
    for pair, others in zip(found, expected, strict=True):
        assert [float(number) for number in pair] == pytest.approx([float(number) for number in others], rel=1e-5)
    close(replay.carried, steps.carried, rtol=1e-4)
    for (name, weight), same in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(weight, same, rtol=1e-3, atol=2e-5, msg=name)


def test_more_distinct_words_than_slots_are_captured_anew_and_nothing_is_lost(text, monkeypatch):
    found = []
    for least in (False, True):
        if least:
            monkeypatch.setattr("elmo.pretraining.resident.SPARE", 0.0)
            monkeypatch.setattr("elmo.pretraining.resident.STEP", 1)
            monkeypatch.setattr(
                "elmo.pretraining.resident.ResidentText.slots",
                lambda self, distinct, positions: [max(1, count) for count in distinct],
            )
        _, replay = replayed(text, OptimConfig("adamw", 0.01))
        found.append([float(replay.step(number, 0.01)[0]) for number in range(3)])
        assert all(room >= count for room, count in zip(replay.slots, replay.distinct, strict=True))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_step_that_is_not_finite_is_named(text):
    model, replay = replayed(text, OptimConfig("adamw", 0.01))
    replay.step(6, 0.01)
    replay.check()
    with torch.no_grad():
        model.lm_head.bias[3] = float("nan")
    replay.step(7, 0.01)
    with refused("step 8", "finite", error=TrainingError):
        replay.check()


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (lambda x: x[torch.tensor(1)], "_local_scalar_dense|index"),
        (lambda x: x[x > 1], "index"),
        (lambda x: x.unique(), "unique"),
        (lambda x: (x > 1).nonzero(), "nonzero"),
        (lambda x: float(x.sum()), "_local_scalar_dense"),
        (lambda x: x.masked_select(x > 1), "masked_select"),
    ],
)
def test_the_stand_in_refuses_what_reads_back(operation, problem):
    x = torch.arange(4.0)

    def step():
        operation(x)

    run = ops.capture(step, CPU, lambda: [])
    with pytest.raises(CaptureError, match=problem):
        run()


def test_the_stand_in_refuses_shapes_that_change():
    sizes = iter((3, 3, 3, 4))
    x = torch.arange(8.0)

    def step():
        x[: next(sizes)].add_(1)

    run = ops.capture(step, CPU, lambda: [x])
    run()
    run()
    with refused("CUDA graph", error=CaptureError):
        run()


def test_a_capture_leaves_everything_as_it_was():
    x, made = torch.arange(3.0), []

    def step():
        if not made:
            made.append(torch.ones(2))
        x.add_(1)
        made[0].add_(1)

    run = ops.capture(step, CPU, lambda: [x, *made])
    assert (x.tolist(), made[0].tolist()) == ([0, 1, 2], [0, 0])
    run()
    assert (x.tolist(), made[0].tolist()) == ([1, 2, 3], [1, 1])
