"""A forked child embeds and ends, whatever another thread of its parent held or computed at that moment."""

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served import running_service
from tiny import tiny_model

from elmo.embedding.embedder import Embedder
from elmo.embedding.graphs import GraphReader
from elmo.embedding.store import write_vectors
from elmo.embedding.store_parquet import ParquetVectors
from elmo.embedding.words import WordVectors
from elmo.forking import cached_property
from elmo.ops.parallel import run_both
from elmo.server.batching import Batcher, BatchKind
from elmo.text.characters import encode_words

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]
CPU = torch.device("cpu")


@contextmanager
def another_thread(holds: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """For the block, another thread is where `holds` calls its argument, which then waits for the end of the block."""
    reached, over = threading.Event(), threading.Event()

    def stay() -> None:
        reached.set()
        assert over.wait(60)

    thread = threading.Thread(target=holds, args=(stay,))
    thread.start()
    assert reached.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join()


def ends(work: Callable[[], object]) -> bool:
    """Whether a forked child that does `work` ends in time and without an error."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    child.kill()
    child.join()
    return child.exitcode == 0


def holding(lock: Any) -> Callable[[Callable[[], None]], None]:
    """Returns a function that stays while it holds the lock."""

    def hold(stay: Callable[[], None]) -> None:
        with lock:
            stay()

    return hold


def test_words_that_another_thread_encodes():
    """The words that it has not finished are encoded by the child."""
    stays: list[Callable[[], None]] = []

    def encode(words: Sequence[str]) -> np.ndarray:
        if threading.current_thread() is not threading.main_thread():
            stays[0]()
        return encode_words(words, max_characters=50)

    bilm = tiny_model().bilm()
    words, expected = WordVectors(bilm, encode, CPU), WordVectors(bilm, encode, CPU)(["a", "b"])

    def read() -> None:
        torch.testing.assert_close(words(["a", "b"]), expected, rtol=0, atol=0)

    def encode_and_stay(stay: Callable[[], None]) -> None:
        stays.append(stay)
        words(["a", "b"])

    with another_thread(encode_and_stay):
        assert ends(read)
    assert len(words) == 2


def test_an_embedder_with_which_another_thread_embeds():
    embedder = Embedder(tiny_model().bilm())
    expected = embedder.embed([["a", "b"]])[0]

    def embed() -> None:
        np.testing.assert_array_equal(embedder.embed([["a", "b"]])[0], expected)

    with another_thread(holding(embedder.words.lock)):
        assert ends(embed)


@pytest.mark.parametrize("embeds", [False, True])
def test_the_threads_of_a_child(embeds: bool):
    """Only a child that embeds has one thread: torch would wait in it for threads that only its parent has."""
    embedder = Embedder(tiny_model().bilm())

    def count() -> None:
        if embeds:
            embedder.embed([["a", "b"]])
        assert torch.get_num_threads() == (1 if embeds else 2)

    torch.set_num_threads(2)
    assert ends(count)


def test_a_child_keeps_the_words_of_its_parent_if_no_thread_was_changing_them():
    embedder = Embedder(tiny_model().bilm())
    embedder.embed([["a", "b"]])

    def count() -> None:
        assert len(embedder.words) == 2 + 2  # with the boundaries

    assert ends(count)


def test_a_file_that_another_thread_reads(tmp_path: Path):
    with write_vectors(tmp_path / "v.parquet") as writer:
        writer.append("a", ["a"], np.ones((1, 2), np.float32))
    with closing(ParquetVectors(tmp_path / "v.parquet")) as vectors:

        def read() -> None:
            assert vectors[0].tolist() == [[1, 1]]

        with another_thread(holding(vectors.lock)):
            assert ends(read)


def test_a_graph_that_another_thread_launches():
    """A child cannot use its parent's GPU; with a free lock, it comes to the error that says so."""
    reader = GraphReader(tiny_model().bilm(), torch.float32)

    def take() -> None:
        assert reader.lock.acquire(timeout=5)

    with another_thread(holding(reader.lock)):
        assert ends(take)


def test_the_thread_of_the_other_direction():
    def run() -> None:
        done = [False, False]
        torch.set_num_threads(2)
        run_both(lambda direction: done.__setitem__(direction, True), CPU)
        assert done == [True, True]

    run()
    assert ends(run)


def test_a_property_that_another_thread_computes():
    class Text:
        stay: Callable[[], None] = staticmethod(lambda: None)

        @cached_property
        def length(self) -> int:
            self.stay()
            return 3

    def compute(stay: Callable[[], None]) -> None:
        text = Text()
        text.stay = stay
        assert text.length == 3

    def read() -> None:
        assert Text().length == 3

    with another_thread(compute):
        assert ends(read)


def test_a_queue_to_which_another_thread_adds():
    """The child begins with an empty queue, and can run it."""

    def embed(texts: list[str], kind: BatchKind) -> list[np.ndarray]:
        return [np.zeros(1) for _ in texts]

    batcher = Batcher(embed, 8, 8)
    batcher.submit(["of the parent"], BatchKind("top", None), 8)

    def answer() -> None:
        answered = batcher.submit(["a"], BatchKind("top", None), 8)
        batcher.close()
        batcher.run()
        assert len(answered.result(0)) == 1

    with another_thread(holding(batcher.changed)):
        assert ends(answer)
    assert batcher.waiting == 8


def test_the_threads_of_a_service(tmp_path: Path):
    with running_service(tmp_path / "model", tiny_model()) as service:

        def split() -> None:
            (found,) = asyncio.run(service.split(["a b"]))
            assert found.tokens == ("a", "b")

        split()
        assert ends(split)
