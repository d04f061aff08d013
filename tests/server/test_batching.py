"""The queue in front of a model: every request is answered once and right, whatever fails, waits or goes away."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.server.batching import Batcher, BatchKind, QueueClosed, QueueFull

TOP, FIRST = BatchKind("top", None), BatchKind(0, "mean")


class Model:
    """Vectors that say which sentence they are of; a sentence with "bad" raises."""

    batcher: Batcher

    def __init__(self) -> None:
        self.batches: list[tuple[list[list[str]], BatchKind]] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, sentences, kind):
        self.go.wait(5)
        self.batches.append((sentences, kind))
        if any("bad" in sentence for sentence in sentences):
            raise ValueError("a bad sentence")
        return [self.vector(sentence, kind) for sentence in sentences]

    @staticmethod
    def vector(sentence, kind):
        return np.array([hash((*sentence, str(kind))) % 1000, len(sentence)], float)


@contextmanager
def running(model, **options):
    batcher = model.batcher = Batcher(model, **({"batch_tokens": 20, "queue_tokens": 1000, "wait": 0.001} | options))
    thread = threading.Thread(target=batcher.run)
    thread.start()
    try:
        yield batcher
    finally:
        model.go.set()
        batcher.close()
        thread.join(10)
        assert not thread.is_alive()


def submit(batcher, sentences, kind):
    """Each sentence is a text, and has two boundaries."""
    return batcher.submit(sentences, kind, sum(len(sentence) + 2 for sentence in sentences))


requests = st.lists(
    st.tuples(
        st.lists(st.lists(st.sampled_from(["a", "b", "bad"]), max_size=6), max_size=4),
        st.sampled_from([TOP, FIRST]),
        st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(requests=requests, held=st.booleans())
def test_every_request_is_answered_once_and_right(requests, held):
    model = Model()
    with running(model) as batcher:
        if held:
            model.go.clear()
        waiting = [(submit(batcher, sentences, kind), sentences, kind, gone) for sentences, kind, gone in requests]
        for future, *_, gone in waiting:
            if gone:
                future.cancel()
        model.go.set()
        for future, sentences, kind, _ in waiting:
            try:
                seen = future.result(5)
            except CancelledError:
                continue
            except ValueError:
                assert any("bad" in sentence for sentence in sentences), "only the cause fails"
                continue
            assert not any("bad" in sentence for sentence in sentences)
            assert [v.tolist() for v in seen] == [model.vector(s, kind).tolist() for s in sentences]
    assert batcher.waiting == 0
    done = [id(sentence) for sentences, _ in model.batches for sentence in sentences]
    if not any("bad" in sentence for sentences, *_ in requests for sentence in sentences):
        assert len(done) == len(set(done)), "no sentence is embedded twice"


def test_requests_share_batches_of_one_kind_within_the_budget():
    model, tokens = Model(), []
    model.go.clear()
    with running(model, wait=0.0, observe=lambda number, seconds: tokens.append(number)) as batcher:
        first = submit(batcher, [["begins"]], TOP)  # is at work while the others come
        while batcher.waiting:
            pass
        kinds = [TOP, FIRST, TOP, FIRST, TOP, TOP, TOP]
        futures = [submit(batcher, [["a"] * 3, ["b"] * 2], kind) for kind in kinds]  # nine tokens with boundaries
        model.go.set()
        for future in (first, *futures):
            future.result(5)
    sizes = [(len(sentences), kind) for sentences, kind in model.batches[1:]]
    assert sizes == [(4, TOP), (4, FIRST), (4, TOP), (2, TOP)]
    assert tokens == [3, 18, 18, 18, 9]


def test_what_is_at_work_waits_no_more():
    """Also of a batch of several requests, for the metrics."""
    model = Model()
    model.go.clear()
    with running(model, wait=60.0, batch_tokens=12) as batcher:
        futures = [submit(batcher, [["a"] * 2], TOP) for _ in range(3)]  # four tokens with boundaries
        end = time.monotonic() + 4
        while batcher.waiting and time.monotonic() < end:
            time.sleep(0.001)
        assert batcher.waiting == 0
        model.go.set()
        assert [len(future.result(5)) for future in futures] == [1, 1, 1]


def test_a_request_waits_for_others_no_longer_than_its_deadline():
    model = Model()
    with running(model, wait=0.05, batch_tokens=1000) as batcher:
        assert len(submit(batcher, [["a"]], TOP).result(5)) == 1
        both = [submit(batcher, [["a"]], TOP), submit(batcher, [["b"]], TOP)]
        for future in both:
            future.result(5)
    assert [len(sentences) for sentences, _ in model.batches] == [1, 2]


@contextmanager
def full(room: int) -> Iterator[tuple[Model, Batcher, Future]]:
    """A batcher that waits for its model, with room for ten tokens and a request of this many in it."""
    model = Model()
    model.go.clear()
    with running(model, queue_tokens=10, wait=0.0) as batcher:
        submit(batcher, [["a"]], TOP)
        while batcher.waiting:
            pass
        waiting = submit(batcher, [["a"] * room], TOP)
        with pytest.raises(QueueFull):
            submit(batcher, [["a"]], TOP)
        yield model, batcher, waiting


def test_a_full_queue_refuses_and_a_larger_request_is_let_in_alone():
    with full(50) as (model, _, large):
        model.go.set()
        assert len(large.result(5)) == 1


def test_who_has_gone_leaves_room_for_others():
    with full(8) as (model, batcher, gone):
        gone.cancel()
        there = submit(batcher, [["b"]], TOP)
        model.go.set()
        assert len(there.result(5)) == 1
    assert [sentences for sentences, _ in model.batches] == [[["a"]], [["b"]]]


class Steps(Model):
    """A model that reads a large request in steps, and says which sentences it has read when."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.stepped, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, sentences, kind):
        for step in range(4 if sum(map(len, sentences)) > 20 else 0):
            if step:
                self.batcher.between()
            self.read.append(f"step {step}")
            self.stepped.release()
            assert self.goes_on.acquire(timeout=10)
        self.read += [sentence[0] for sentence in sentences]
        return [np.array(sentence[:1]) for sentence in sentences]


def test_small_requests_are_answered_between_two_steps_of_a_large_one():
    model = Steps()
    with running(model, wait=0.0) as batcher:
        large = submit(batcher, [["large"] * 30], TOP)
        assert model.stepped.acquire(timeout=10)
        second = submit(batcher, [["second"] * 30], TOP)
        small = [submit(batcher, [[name]], kind) for name, kind in (("a", TOP), ("b", FIRST))]
        called = batcher.call(lambda: model.read.append("called"), 3)
        model.goes_on.release(8)
        assert second.result(10)[0] == "second"
        assert [future.result(0)[0] for future in (large, *small)] == ["large", "a", "b"]
        assert called.done()
    assert model.read[:8] == ["step 0", "a", "step 1", "b", "step 2", "called", "step 3", "large"]


def test_what_nobody_waits_for_is_not_read_to_its_end():
    model = Steps()
    with running(model, wait=0.0) as batcher:
        large = submit(batcher, [["large"] * 30], TOP)
        assert model.stepped.acquire(timeout=10)
        assert large.cancel()
        model.goes_on.release()
        assert submit(batcher, [["a"]], TOP).result(10)[0] == "a"
    assert model.read == ["step 0", "a"]


def test_calls_are_made_between_batches_and_their_errors_are_theirs():
    model = Model()
    with running(model) as batcher:
        futures = [submit(batcher, [["a"]], TOP), batcher.call(lambda: 7, 3), batcher.call(lambda: 1 / 0, 3)]
        assert futures[1].result(5) == 7
        with pytest.raises(ZeroDivisionError):
            futures[2].result(5)
        assert len(futures[0].result(5)) == 1


def test_what_was_accepted_is_done_after_closing_and_nothing_else():
    model = Model()
    model.go.clear()
    with running(model, wait=60.0, batch_tokens=10**6) as batcher:
        futures = [submit(batcher, [["a"]], kind) for kind in (TOP, FIRST)]
        batcher.close()
        with pytest.raises(QueueClosed):
            submit(batcher, [["b"]], TOP)
        model.go.set()
        assert [len(future.result(5)) for future in futures] == [1, 1]


def test_an_idle_queue_never_waits_without_an_end(monkeypatch):
    """On Windows, Ctrl-C would not interrupt it."""
    batcher, waits = Batcher(Model(), 20, 1000), []

    def wait(condition, seconds=None):
        waits.append(seconds)
        batcher.close()

    monkeypatch.setattr(threading.Condition, "wait", wait)
    batcher.run()
    assert len(waits) == 1
    assert waits[0] is not None
