"""Perplexity is what a brute-force computation says."""

import hashlib
import json
import math
import random
from pathlib import Path

import pytest
import torch
from brute_force import KNOWN, LINES, STRANGE, VOCABULARY, BruteForce, Document, random_model
from command import printed

from elmo.formats import Model, content_hash, native
from elmo.model.lm_head import LmHead
from elmo.ops import softmax
from elmo.ops.softmax import PackedSoftmax
from elmo.pretraining import perplexity
from elmo.pretraining.perplexity import HeldOut, Perplexity, perplexities, perplexity_report, sum_losses


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model()


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> tuple[Path, list[Document]]:
    """More documents than there are streams, of every length, with unknown words."""
    rng = random.Random(4)
    words = [*KNOWN, *STRANGE]
    documents = [
        [[rng.choice(words) for _ in range(rng.randint(1, 12))] for _ in range(rng.randint(1, 5))] for _ in range(24)
    ]
    path = tmp_path_factory.mktemp("text") / "heldout.txt"
    lines = "\n\n".join("\n".join(" ".join(sentence) for sentence in document) for document in documents)
    path.write_text(lines, encoding="utf-8")
    return path, documents


def dealt(documents: list[Document], streams: int) -> list[Document]:
    """The sentences that every stream reads: a document goes to the stream that was given the least text so far."""
    given = [0] * streams
    read: list[Document] = [[] for _ in range(streams)]
    for document in documents:
        receiver = given.index(min(given))
        given[receiver] += len("\n".join(" ".join(sentence) for sentence in document))
        read[receiver] += document
    return [sentences for sentences in read if sentences]


@pytest.mark.parametrize("streams", [1, 3, 16])
def test_perplexity_is_that_of_brute_force(model, text, tmp_path, monkeypatch, streams):
    path, documents = text
    monkeypatch.setattr(perplexity, "STREAMS", streams)
    brute = BruteForce(model, tmp_path / "published")
    found = perplexity_report(model, [path], LINES)["perplexity"]
    each = [[sentence] for document in documents for sentence in document]
    assert found["reset"] == pytest.approx(brute.summary(each), rel=1e-5)
    assert found["carry"] == pytest.approx(brute.summary(dealt(documents, streams)), rel=1e-5)
    assert abs(found["carry"]["mean"] / found["reset"]["mean"] - 1) > 0.01  # or this shows nothing
    assert 0.1 < found["carry"]["unknown_rate"] < 0.5


def test_command_reports_brute_force_and_the_vocabulary(model, text, tmp_path):
    path, documents = text
    native.save(model, tmp_path / "model")
    given = ("perplexity", path, "--model", tmp_path / "model")
    found = json.loads(printed(*given, "--json"))
    words = "".join(f"{word}\n" for word in VOCABULARY.words).encode()
    assert found["vocabulary"] == {"size": len(VOCABULARY), "sha256": hashlib.sha256(words).hexdigest()}
    assert found["bilm"]["sha256"] == content_hash(model)
    each = [[sentence] for document in documents for sentence in document]
    brute = BruteForce(model, tmp_path / "published")
    assert found["perplexity"]["reset"] == pytest.approx(brute.summary(each), rel=1e-5)
    shown = printed(*given)
    assert f"{found['perplexity']['carry']['mean']:,.2f}" in shown
    assert found["vocabulary"]["sha256"] in shown


def test_another_device_gives_the_same(model, text, there):
    ours = perplexity_report(model, [text[0]], LINES, device="cpu")["perplexity"]
    theirs = perplexity_report(model, [text[0]], LINES, device=there)["perplexity"]
    for policy, numbers in ours.items():
        assert theirs[policy] == pytest.approx(numbers, rel=1e-5)


@pytest.mark.parametrize("world", [2, 3])
def test_sums_of_several_processes_are_those_of_one(model, text, world):
    heldout = HeldOut([text[0]], LINES, VOCABULARY)
    bilm, lm_head = model.bilm(), LmHead(len(VOCABULARY), 4)
    lm_head.load_state_dict(model.lm_head)
    whole = sum_losses(bilm, lm_head, heldout)
    parts = [sum_losses(bilm, lm_head, heldout, rank, world) for rank in range(world)]
    reset = list(perplexities(whole)).index("reset")  # what is carried depends on the streams, so on their number
    torch.testing.assert_close(torch.stack(parts).sum(0)[reset], whole[reset])
    torch.testing.assert_close(torch.stack(parts).sum(0)[..., :2], whole[..., :2])
    assert perplexities(whole)["reset"].tokens == int(whole[reset, 0, 0])


@pytest.mark.parametrize(("limit", "most"), [(1, 10), (20, 20), (100, 100)])
def test_beginning_of_a_text_is_never_empty(model, text, monkeypatch, limit, most):
    monkeypatch.setattr(perplexity, "STREAMS", 2)
    monkeypatch.setattr(perplexity, "WINDOW", 5)
    for numbers in perplexity_report(model, [text[0]], LINES, max_words=limit)["perplexity"].values():
        assert most - 10 <= numbers["tokens"] <= most
        assert numbers["forward"] > 1


def test_network_that_has_diverged_has_infinite_perplexity():
    assert Perplexity(2, (0, 0), (-1e5, -1.0), (-1e5, -1.0)).summary()["mean"] == math.inf


@pytest.mark.parametrize(("scale", "bias"), [(0.5, 2.0), (0.0, 0.0), (40.0, 1.0), (0.5, 60.0), (3.0, 300.0)])
def test_packed_softmax_is_that_of_the_readable_one(monkeypatch, scale, bias):
    """Also where exponentials of logits or of biases leave float32: then the largest is subtracted first."""
    monkeypatch.setattr(softmax, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(softmax, "WORDS_AT_ONCE", 7)
    torch.manual_seed(5)
    head = LmHead(40, 8)
    with torch.no_grad():
        head.bias.copy_(torch.randn(40) * bias)
    hidden, targets = torch.randn(23, 8) * scale, torch.randint(40, (23,))
    seen = PackedSoftmax(head.weight, head.bias).log_probabilities(hidden, targets)
    logits = hidden.double() @ head.weight.double().T + head.bias.double()
    expected = torch.log_softmax(logits, 1).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(seen.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(seen, head.log_probabilities(hidden, targets), rtol=1e-5, atol=1e-5)


def test_packed_softmax_of_a_sure_word_whose_exponential_is_too_small():
    """Its bias makes up for a product whose exponential is zero in float32."""
    weight, bias = torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([3000.0, 0.0, 0.0])
    seen = PackedSoftmax(weight, bias).log_probabilities(torch.tensor([[-110.0]]), torch.tensor([0]))
    assert seen.tolist() == [0.0]


def test_packed_softmax_of_what_is_not_a_number_is_not_a_number():
    head = LmHead(40, 8)
    hidden = torch.randn(3, 8)
    hidden[1, 2] = math.nan
    seen = PackedSoftmax(head.weight, head.bias).log_probabilities(hidden, torch.tensor([1, 2, 3]))
    assert seen.isnan().tolist() == [False, True, False]


def test_both_policies_are_read_in_one_pass(model, text):
    """The text is tokenised once, every word of a window encoded once."""
    words = sum(len(sentence) + 1 for document in text[1] for sentence in document)
    seen: list[tuple[int, int]] = []
    read: list[tuple[int, int]] = []
    perplexity_report(
        model, [text[0]], LINES, progress=lambda *n: seen.append(n), reading=lambda *n: read.append((*n, len(seen)))
    )
    assert seen == sorted(seen)
    assert seen[-1] == (words, words)
    assert read, "what takes the longest of a small model"
    assert not any(measured for _, _, measured in read), "the text is tokenized before anything is measured"
