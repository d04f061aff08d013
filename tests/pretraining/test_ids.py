"""A text as ids: kept, made by several processes, and refused when it changes or is damaged."""

import io
import os
from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.pretraining import ids as module
from elmo.pretraining.ids import Ids, keep_ids, kept_ids, make_ids
from elmo.text import corpus
from elmo.text.tokenizer import WHITESPACE, TextConfig, Tokenizer
from elmo.text.vocabulary import SPECIAL, Vocabulary, count_vocabulary

WORD = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=3) | st.sampled_from(["<S>", "</S>"])
TEXTS = st.lists(
    st.lists(st.lists(st.lists(WORD, min_size=1, max_size=5), min_size=1, max_size=3), max_size=3),
    min_size=1,
    max_size=3,
)


def write(folder, texts):
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        lines = "\n\n".join("\n".join(map(" ".join, document)) for document in text)
        path.write_text(lines, encoding="utf-8")
    return paths


def sentences_of(ids: Ids) -> list[list[str]]:
    found, sentence = [], []
    for number in ids.tokens.tolist():
        if number:
            sentence.append(ids.words[number])
        else:
            found.append(sentence)
            sentence = []
    assert not sentence
    return found


def same(one: Ids, other: Ids) -> bool:
    arrays = ("tokens", "counts", "ends", "characters", "starts")
    lists = ("words", "files", "sizes", "fingerprint")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays) and all(
        getattr(one, name) == getattr(other, name) for name in lists
    )


@given(TEXTS)
def test_ids_are_the_text_also_kept(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("ids")
    paths = write(folder, texts)
    ids = make_ids(paths, WHITESPACE)
    expected = list(corpus.corpus_sentences(paths, Tokenizer(WHITESPACE)))
    assert sentences_of(ids) == expected
    vocabulary, counts = count_vocabulary(expected, max_size=1000, min_count=1)
    table = Counter(chain.from_iterable(expected))
    assert dict(ids.ranked()) == table
    assert [word for word, _ in ids.ranked() if word not in SPECIAL] == list(vocabulary.words[len(SPECIAL) :])
    assert ids.totals() == replace(counts, covered=0)
    assert ids.ends.tolist() == np.cumsum([len(each) + 1 for each in expected]).tolist()
    keep_ids(folder / "text", ids, paths, WHITESPACE)
    kept = kept_ids(folder / "text", paths, WHITESPACE)
    assert kept is not None
    assert same(kept, ids)


def test_marks_of_the_text_are_words_with_the_ids_of_the_vocabulary(tmp_path):
    ids = make_ids(write(tmp_path, [[[["a", "</S>", "<S>"]]]]), WHITESPACE)
    assert ids.tokens.tolist() == [2, 3, 4, 0]
    vocabulary = Vocabulary((*SPECIAL, "a"))
    assert ids.of_vocabulary(vocabulary).tolist() == [1, 0, 3, 1, 0]


def test_several_processes_make_the_same(tmp_path, monkeypatch):
    words = [f"w{number % 97}{'x' * (number % 5)}" for number in range(4000)]
    paths = write(tmp_path, [[[words[i : i + 7] for i in range(start, 2000 + start, 7)]] for start in (0, 2000)])
    expected = make_ids(paths, WHITESPACE)
    monkeypatch.setattr(module, "PART_CHARACTERS", 700)
    monkeypatch.setattr(module, "WORTH_SHARING", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    seen: list[tuple[int, int]] = []
    assert same(make_ids(paths, WHITESPACE, lambda *counts: seen.append(counts)), expected)
    assert seen == sorted(seen)
    assert len(seen) > 10
    done, total = seen[-1]
    assert {counts[1] for counts in seen} == {total}
    assert abs(done - total) < 0.01 * total
    beginning = make_ids(paths, WHITESPACE, most=500)
    assert 500 <= len(beginning.tokens) < 1000
    assert beginning.tokens.tolist() == expected.tokens[: len(beginning.tokens)].tolist()
    paths[1].write_bytes(paths[1].read_bytes() + b"\xe4\n")
    with refused("UTF-8"):
        make_ids(paths, WHITESPACE)


def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    paths = write(tmp_path, [[[["a"]]], [[["b"]]]])
    read = corpus.file_paragraphs

    def growing(path):
        yield from read(path)
        with paths[0].open("a", encoding="utf-8") as file:
            file.write("c\n")

    monkeypatch.setattr(corpus, "file_paragraphs", growing)
    with refused("0.txt", "changed"):
        make_ids(paths, WHITESPACE)


def test_kept_ids_are_of_one_text_read_in_one_way(tmp_path, monkeypatch):
    paths, folder = write(tmp_path, [[[["a", "b"]]]]), tmp_path / "text"
    assert kept_ids(folder, paths, WHITESPACE) is None
    keep_ids(folder, make_ids(paths, WHITESPACE), paths, WHITESPACE)
    assert kept_ids(folder, paths, WHITESPACE) is not None
    respelled = replace(WHITESPACE, normalize=("nfc", "v>u"))
    assert kept_ids(folder, paths, TextConfig()) is None
    assert kept_ids(folder, paths, respelled) is None
    keep_ids(tmp_path / "respelled", make_ids(paths, respelled), paths, respelled)
    assert kept_ids(tmp_path / "respelled", paths, respelled) is not None
    with monkeypatch.context() as patch:
        patch.setattr("elmo.text.tokenizer.VERSION", 0)
        assert kept_ids(folder, paths, WHITESPACE) is None
        assert kept_ids(folder, paths, WHITESPACE, any_version=True) is not None
    os.utime(paths[0], ns=(1, 1))  # a text of the same size that was written since
    assert kept_ids(folder, paths, WHITESPACE) is None
    assert kept_ids(folder, paths, WHITESPACE, any_version=True) is not None
    paths[0].write_text("a b c\n", encoding="utf-8")
    assert kept_ids(folder, paths, WHITESPACE, any_version=True) is None


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("tokens.bin", lambda raw: raw[:-1]),
        ("words.txt", lambda raw: raw[:-4]),
        ("words.txt", lambda raw: raw + b'"more"\n'),
        ("counts.npy", lambda raw: raw[:20]),
        ("paragraphs.npz", lambda raw: raw[:30]),
        ("text.json", lambda raw: raw[:-3]),
        ("text.json", lambda raw: b"[]"),
        ("text.json", lambda raw: raw.replace(b'"sizes": [', b'"sizes": [1')),
        ("tokens.bin", lambda raw: bytes(len(raw))),
        ("tokens.bin", lambda raw: raw[:3] + b"\x40" + raw[4:]),
        ("words.txt", lambda raw: raw.replace(b'"a"', b"123")),
        ("paragraphs.npz", lambda raw: archived(ends=[9], characters=[3], starts=[True])),
    ],
)
def test_damaged_ids_are_refused_with_the_remedy(tmp_path, file, damage):
    paths, folder = write(tmp_path, [[[["a", "b"]]]]), tmp_path / "text"
    keep_ids(folder, make_ids(paths, WHITESPACE), paths, WHITESPACE)
    (folder / file).write_bytes(damage((folder / file).read_bytes()))
    with refused(folder, "remove"):
        kept_ids(folder, paths, WHITESPACE)


def archived(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_what_a_killed_process_leaves_does_not_count(tmp_path):
    paths, folder = write(tmp_path, [[[["a", "b"]]]]), tmp_path / "text"
    ids = make_ids(paths, WHITESPACE)
    keep_ids(folder, ids, paths, WHITESPACE)
    (folder / "text.json").unlink()
    (folder / "tokens.bin.part").write_bytes(b"123")
    assert kept_ids(folder, paths, WHITESPACE) is None
    keep_ids(folder, ids, paths, WHITESPACE)
    found = kept_ids(folder, paths, WHITESPACE)
    assert found is not None
    assert same(found, ids)
