"""Vocabulary files, and counting."""

import gzip
import hashlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.text.vocabulary import LONG, SKIPPED, SPECIAL, Vocabulary, count_vocabulary

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"]), min_size=1, max_size=5)
SENTENCES = st.lists(st.lists(st.sampled_from([*"abcdefé", "日本", "<S>", "<UNK>"]), max_size=12), max_size=12)


@given(words=st.lists(WORD, unique=True, max_size=20))
def test_save_and_load_are_inverse(words, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    vocabulary = Vocabulary(SPECIAL + tuple(word for word in words if word not in SPECIAL))
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert vocabulary.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert vocabulary.ids(vocabulary.words) == list(range(len(vocabulary)))
    assert [file.name for file in path.parent.iterdir()] == ["vocab.txt"]


def test_unknown_words_have_the_id_of_unk_and_a_word_that_is_there_twice_the_last():
    vocabulary = Vocabulary(("the", "<UNK>", "<S>", "</S>", "the"))
    assert vocabulary.id("cat") == vocabulary.unknown == 1
    assert vocabulary.ids(["the", "cat", "</S>"]) == [4, 1, 3]
    assert "the" in vocabulary
    assert "cat" not in vocabulary


def test_load_reads_the_published_kinds(tmp_path):
    """White space around a word does not count, but a space of Unicode is a word."""
    lines = "\ufeff<S> \r\n\t</S>\r\n<UNK>\n!!!MAXTERMID \r\nthe \r\n \n\u00a0\na b\na\u2028b\r\ncat\u2009\n\x85\n"
    (tmp_path / "vocab.txt").write_bytes(lines.encode())
    (tmp_path / "VOCAB.TXT.GZ").write_bytes(gzip.compress(lines.encode()))
    plain, packed = Vocabulary.load(tmp_path / "vocab.txt"), Vocabulary.load(tmp_path / "VOCAB.TXT.GZ")
    assert plain == packed
    assert plain.words == (*SPECIAL, "the", "", "\u00a0", "a b", "a\u2028b", "cat\u2009", "\x85")
    assert plain.sha256 == packed.sha256


def test_a_word_with_a_line_end_is_not_saved(tmp_path):
    with refused("line end"):
        Vocabulary((*SPECIAL, "a\nb")).save(tmp_path / "vocab.txt")
    assert list(tmp_path.iterdir()) == []


@given(SENTENCES, st.integers(4, 9), st.integers(1, 3))
def test_count_vocabulary_counts(sentences, max_size, min_count):
    vocabulary, counts = count_vocabulary(iter(sentences), max_size, min_count)
    table = Counter(token for sentence in sentences for token in sentence)
    expected = [w for w, n in sorted(table.items(), key=lambda i: (-i[1], i[0])) if n >= min_count and w not in SPECIAL]
    assert vocabulary.words == (*SPECIAL, *expected[: max_size - 3])
    assert counts.tokens == sum(table.values())
    assert counts.sentences == len(sentences)
    assert counts.types == len(table)
    assert counts.covered == sum(table[word] for word in vocabulary.words[3:])


def test_count_vocabulary_keeps_its_table_small_and_the_frequent_words():
    sentences = [["often", f"rare{i}"] for i in range(1000)]
    vocabulary, counts = count_vocabulary(sentences, max_types=50)
    assert vocabulary.words == (*SPECIAL, "often")
    assert counts.types <= 50
    assert counts.covered == 1000


def test_counting_keeps_few_characters_of_long_words_and_all_words_of_text() -> None:
    text = [[f"rare{n}", "long" * 20] for n in range(40)]
    mixed = [[*words, f"{100 + n}" * 1000] for n, words in enumerate(text)]
    kept = {most: count_vocabulary(mixed, min_count=1, max_types=most)[0].words for most in (100, 10_000)}
    assert sum(map(len, kept[10_000])) > 40 * 3000
    assert sum(map(len, kept[100])) < 100 * LONG + 40 * 6
    assert {word for words in text for word in words} < set(kept[100])


def test_count_vocabulary_tells_its_progress_and_refuses_a_size_without_room():
    seen: list[int] = []
    count_vocabulary([["a"] * 60_000] * 4, progress=seen.append)
    assert seen == [120_000, 240_000, 240_000]
    with refused("max_size is 3"):
        count_vocabulary([["a"]], max_size=3)


def test_a_word_that_loading_skips_is_not_counted(tmp_path):
    vocabulary, counts = count_vocabulary([[SKIPPED, "the", "cat"]] * 3)
    vocabulary.save(tmp_path / "vocab.txt")
    assert Vocabulary.load(tmp_path / "vocab.txt") == vocabulary == Vocabulary((*SPECIAL, "cat", "the"))
    assert (counts.tokens, counts.covered) == (9, 6)
