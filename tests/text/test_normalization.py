"""Normalization: a spelling that the model reads, whatever the door; texts, tokens and offsets stay as they are."""

import json
from dataclasses import replace
from pathlib import Path
from unicodedata import is_normalized

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tiny import tiny_model

from elmo.config import ConfigError, from_dict
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import Model, allennlp, content_hash, native
from elmo.integrations.allennlp import Elmo
from elmo.integrations.reader import Reader
from elmo.pretraining.ids import make_ids
from elmo.pretraining.scoring import Scorer
from elmo.text.batching import to_batch
from elmo.text.normalization import NAMED, respell_function
from elmo.text.tokenizer import TextConfig, Tokenizer, text_of, text_values
from elmo.text.vocabulary import Vocabulary
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.inputs import InputConfig
from elmo_lab.tasks.source import layer_cache, make_collator, open_source

LATIN = ("nfc", "no-macrons", "v>u", "V>U", "j>i", "J>I", "æ>ae", "Æ>Ae", "œ>oe", "Œ>Oe")
RAW = "Jūppiter cæcum vīdit ."
READ = ["Iuppiter", "caecum", "uidit", "."]


def model_of(*steps: str) -> Model:
    return replace(tiny_model(), text=TextConfig("whitespace", "line", normalize=steps))


def with_softmax(model: Model) -> Model:
    words = ("<S>", "</S>", "<UNK>", "uidit", "caecum")
    weights = {"weight": torch.randn(len(words), 4, generator=torch.Generator().manual_seed(1)), "bias": torch.zeros(5)}
    return replace(model, lm_head=weights, vocabulary=Vocabulary(words))


@pytest.mark.parametrize(
    ("steps", "words", "read"),
    [
        ((), "Vīvō", "Vīvō"),
        (LATIN, "Jūppiter vīvŏ Œdipūs aër", "Iuppiter uiuo Oedipus aër"),
        (("no-macrons",), "ǖ й", "ü й"),  # the second is a letter, not a short и
        (("no-marks",), "ἀρχή \u0301", "αρχη \u0301"),  # of the second nothing would be left
        (("no-marks", "lower"), "É", "e"),
        (("nfc",), "e\u0301", "é"),
        (("nfkc",), "ﬁlius ´", "filius ´"),  # the second is a space and an accent, in nfkc
        (("lower", "v>u"), "VIVAT", "uiuat"),
        (("lower",), "<S> <UNK>", "<S> <UNK>"),
    ],
)
def test_a_word_is_read_in_the_spelling_of_the_steps(steps: tuple[str, ...], words: str, read: str) -> None:
    assert list(map(respell_function(steps), words.split())) == read.split()


STEPS = st.sets(st.sampled_from((*NAMED, "v>u", "j>i", "æ>ae", "ß>ss", "x>é")))


@given(st.text(min_size=1), STEPS.filter(lambda steps: not {"x>é", "no-marks"} <= steps))
def test_respelling_twice_changes_nothing_more(word: str, steps: set[str]) -> None:
    respell = respell_function(tuple(sorted(steps)))
    read = respell(word)
    assert respell(read) == read
    assert bool(read)
    assert any(map(str.isspace, word)) or not any(map(str.isspace, read))


@given(st.text(min_size=1, max_size=5), st.permutations(["nfc", "lower", "no-macrons", "v>u"]))
def test_the_order_of_steps_does_not_matter(word: str, steps: list[str]) -> None:
    assert respell_function(tuple(steps))(word) == respell_function(("nfc", "lower", "no-macrons", "v>u"))(word)


@given(st.text(alphabet="aāăeēvVjJæ\u0304\u0306\u0301", min_size=1))
def test_composed_letters_are_composed(word: str) -> None:
    assert is_normalized("NFC", respell_function(LATIN)(word))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (["upper"], "'upper'"),
        (["vv>u"], "one character"),
        (["v>"], None),
        (["v> "], "one character"),
        (["v>u", "v>w"], "'v' twice"),
        (["nfc", "nfc"], "twice"),
        (["v>u", "u>w"], "'v>u'"),
        (["lower", "v>U"], "'v>U'"),
        ("nfc", "list"),
    ],
)
def test_steps_are_checked(steps: object, said: str | None) -> None:
    if said is None:
        assert from_dict(TextConfig, {"normalize": steps}).normalize == ("v>",)
        return
    with refused(said, error=ConfigError):
        from_dict(TextConfig, {"normalize": steps})


def test_texts_and_tokens_are_read_alike_and_stay_as_they_are() -> None:
    embedder, plain = (Embedder(model.bilm(), text=model.text) for model in (model_of(*LATIN), model_of()))
    (vectors,) = embedder.embed([RAW])
    assert vectors.tokens == tuple(RAW.split())
    assert vectors.offsets == ((0, 8), (9, 14), (15, 20), (21, 22))
    (expected,) = plain.embed([READ])
    np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_array_equal(embedder.embed([RAW.split()])[0], expected)
    assert not np.array_equal(plain.embed([RAW.split()])[0], expected)


def test_without_steps_nothing_changes() -> None:
    found, expected = (
        Embedder(tiny_model().bilm(), text=text).embed([RAW.split()])[0] for text in (TextConfig(), None)
    )
    np.testing.assert_array_equal(found, expected)
    assert text_values(TextConfig()) == {"tokens": "spacy", "sentences": "rule", "language": "en"}
    assert content_hash(model_of()) == content_hash(replace(model_of(), text=None))


def test_a_stored_model_keeps_its_spelling(tmp_path: Path) -> None:
    native.save(model_of(*LATIN), tmp_path / "latin")
    assert native.load(tmp_path / "latin").text == TextConfig("whitespace", "line", normalize=LATIN)
    assert content_hash(native.load(tmp_path / "latin")) != content_hash(model_of())
    native.save(model_of(), tmp_path / "plain")
    assert "normalize" not in json.loads((tmp_path / "plain" / "config.json").read_text(encoding="utf-8"))["text"]
    with pytest.raises(InputError, match="spelling"):
        allennlp.save(model_of(*LATIN), tmp_path / "published")
    file = tmp_path / "plain" / "config.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    values["text"]["normalize"] = ["upper"]
    file.write_text(json.dumps(values), encoding="utf-8")
    with refused("config.json", "'upper'", error=ConfigError):
        native.load(tmp_path / "plain")


def test_a_softmax_knows_words_in_their_spelling() -> None:
    (found,) = Scorer(with_softmax(model_of(*LATIN))).score([RAW.split()])
    (expected,) = Scorer(with_softmax(model_of())).score([READ])
    assert found.tokens == tuple(RAW.split())
    assert found.known.tolist() == expected.known.tolist() == [False, True, True, False]
    np.testing.assert_array_equal(found.forward, expected.forward)


def test_the_ids_of_a_text_are_of_its_spelling(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(f"{RAW}\n", encoding="utf-8")
    assert make_ids([path], TextConfig("whitespace", "line", normalize=LATIN)).words[2:] == READ


def test_the_other_doors_read_the_spelling(tmp_path: Path) -> None:
    native.save(model_of(*LATIN), tmp_path / "latin")
    (expected,) = Embedder(model_of().bilm()).embed([READ])
    reader = Reader(str(tmp_path / "latin"))
    np.testing.assert_array_equal(reader.embedder().embed([RAW.split()])[0], expected)
    config = InputConfig(elmo="input", model=str(tmp_path / "latin"))
    opened = open_source(config)
    assert opened is not None
    cache = layer_cache(opened, CacheConfig(enabled=False, dtype="float32"))
    np.testing.assert_array_equal(cache([RAW.split()])[0], expected)
    tuned = make_collator(replace(config, tuned=True), (), opened, CacheConfig(enabled=False))
    assert tuned.to_batch is not None
    assert tuned.to_batch([RAW.split()]).char_ids.equal(to_batch([READ]).char_ids)
    with refused("elmo.load"):
        Elmo(None, tmp_path / "latin", 1)


def test_batches_and_tokenized_text_have_the_spelling() -> None:
    batch = to_batch([RAW.split()], normalize=LATIN)
    assert batch.char_ids.equal(to_batch([READ]).char_ids)
    text = text_of(TextConfig(language="la", normalize=LATIN), pretokenized=True)
    assert text == TextConfig("whitespace", "line", normalize=LATIN)
    assert Tokenizer(text).tokens(RAW) == RAW.split()
