"""Readers of the tasks' formats: what they read, what they write, and what they refuse with which line."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.errors import IrregularInput
from elmo_lab.tasks import (
    ner,
    readers,
    readers_columns,
    readers_coref,
    readers_pairs,
    readers_roles,
    readers_squad,
    readers_trees,
    tagging,
)
from elmo_lab.tasks.readers_columns import TaggedSentence, read_conll
from elmo_lab.tasks.readers_pairs import read_snli
from elmo_lab.tasks.readers_roles import read_roles
from elmo_lab.tasks.treebank import escaped, unescaped


def write_coref_json(path: Path, documents: Iterable[readers_coref.Document]) -> None:
    readers.write_json_lines(path, map(readers_coref.as_record, documents))


def cannot_read(read: Callable[[Path], Any], path: Path, *words: str) -> None:
    """One line names the file and has all the words."""
    with refused(path, *words):
        read(path)


# columns


def test_conll_columns_comments_and_document_starts(file) -> None:
    text = (
        "-DOCSTART- -X- O\n\n# newdoc\nAnna NNP I-PER\nRossi NNP I-PER\nslept VBD O\n\n# SYM O\n1 CD O\n\n\n"
        "Oslo NNP I-LOC\nRome NNP B-LOC"
    )
    anna, hash_token, cities = read_conll(file(text))
    assert anna == TaggedSentence(("Anna", "Rossi", "slept"), ("B-PER", "I-PER", "O"), (4, 5, 6))
    assert hash_token.tokens == ("#", "1")  # as many columns as a token has: no comment
    assert cities.tags == ("B-LOC", "B-LOC")  # IOB1: the second city is another place
    assert cities.lines == (12, 13)


def test_conll_columns_are_chosen_and_tabs_keep_spaces(file) -> None:
    path = file("# text = #x to New York\n1\t#x\tO\t-\n2\tNew York\tB-LOC\tann\n")
    assert read_conll(path, 1, 2) == [TaggedSentence(("#x", "New York"), ("O", "B-LOC"), (2, 3))]


def test_columns_end_at_spaces_and_tabs_alone(file) -> None:
    """Other white space is part of a token: French numbers have no-break spaces."""
    french = file("10\u00a0000  NUM O\n euros\u00a0 NOUN\tO\r\n")
    assert read_conll(french) == [TaggedSentence(("10\u00a0000", "euros"), ("O", "O"), (1, 2))]
    (document,) = readers_coref.read_coref(file(COLUMNS.replace(" man ", "  hom\u3000me\u00a0 ")))
    assert document.sentences[0] == ("Ann", "met", "the", "hom\u3000me")
    assert document.speakers[0] == ("Host",) * 4


def test_conll_without_tags(file) -> None:
    (sentence,) = read_conll(file("# a comment\n#one\ntwo\n"), tag_column=None)
    assert sentence.tokens == ("#one", "two")
    assert sentence.tags is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a\tO\nb\n", ("line 2", "1 column", "have 2")),
        ("a\tO\nb\tO\tx\n", ("line 2", "3 columns", "have 2")),
        ("a\tO\nb\tNNP\n", ("line 2", "'NNP'", "column 2", "cut -f")),
        ("a\tB-X\tx\nb\tB-\tx\n", ("line 1", "'x'", "column 3")),
    ],
)
def test_malformed_columns_are_refused(file, text: str, parts: tuple[str, ...]) -> None:
    cannot_read(read_conll, file(text), *parts)


def test_numbers_of_tokens_are_no_words(file) -> None:
    cannot_read(ner.read, file("1\tB-X\n2\tO\n\n1\tO\n"), "the tokens are 1, 2, 3", "cut -f2,3")
    assert [example.tokens for example in ner.read(file("1\tO\n\n1\tO\n"))] == [("1",), ("1",)]
    assert [example.tokens for example in ner.read(file("1\tO\n2\tO\n\n2\tO\n"))] == [("1", "2"), ("2",)]


def test_a_column_that_is_not_there_is_refused(file) -> None:
    cannot_read(lambda path: read_conll(path, tag_column=4), file("a\tO\n"), "line 1", "2 columns", "no column 4")


def test_conll_is_written_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sentences = [(("a", "b"), ("B-X", "I-X"), ("O", "O")), (("#c",), ("O",), ("B-Y",))]
    readers_columns.write_conll(path, sentences)
    assert path.read_text() == "a\tB-X\tO\nb\tI-X\tO\n\n#c\tO\tB-Y\n\n"
    assert [(s.tokens, s.tags) for s in read_conll(path, tag_column=1)] == [s[:2] for s in sentences]
    for token in ("a\tb", "a\nb", "\r"):
        with refused("out", repr(token), ".jsonl"):
            readers_columns.write_conll(path, [((token,), ("O",))])


# tags

CHUNKS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("XY")), max_size=5)
"""Gaps before chunks, their lengths and types."""


def encoded(chunks: list[tuple[int, int, str]], scheme: str) -> tuple[list[tagging.Span], list[str]]:
    """Chunks and their tags, written from the schemes' definitions."""
    spans, tags = [], []
    for gap, length, kind in chunks:
        tags += ["O"] * gap
        touches = bool(tags) and tags[-1] != "O" and tags[-1][2:] == kind
        spans.append((len(tags), len(tags) + length, kind))
        first, middle, last = {"BIO": "BII", "IOB1": ("B" if touches else "I") + "II", "IOBES": "BIE"}[scheme]
        letters = [first, *[middle] * (length - 2), last][:length] if length > 1 else first
        letters = "S" if scheme == "IOBES" and length == 1 else letters
        tags += [f"{letter}-{kind}" for letter in letters]
    return spans, tags


@given(st.lists(CHUNKS, max_size=4), st.sampled_from(["BIO", "IOB1", "IOBES"]))
def test_schemes_are_told_apart_and_normalised(sentences, scheme) -> None:
    pairs = [encoded(chunks, scheme) for chunks in sentences]
    as_bio = [tuple(encoded(chunks, "BIO")[1]) for chunks in sentences]
    read = tagging.to_bio([tags for _, tags in pairs])
    assert read.broken == []
    assert read.sentences == as_bio
    assert tagging.to_bio([tags for _, tags in pairs], scheme).broken == []
    for (spans, tags), bio in zip(pairs, read.sentences, strict=True):
        assert tagging.spans(tags) == spans
        assert tagging.spans(bio) == spans
        assert bio == tagging.tags_of(spans, len(tags))


# trees


def test_tree_is_read_and_written(file, tmp_path: Path) -> None:
    line = "(3 (2 (2 Not) (4 great)) (1 (1 -LRB-ok) (2 1\\/2)))"
    (tree,) = readers_trees.read_trees(file(f"{line}\n\n"))
    assert tree.tokens == ("Not", "great", "(ok", "1/2")
    phrases = [(" ".join(tree.tokens[node.begin : node.end]), node.label) for node in tree.nodes]
    assert phrases == [
        ("Not great (ok 1/2", 3), ("Not great", 2), ("Not", 2), ("great", 4), ("(ok 1/2", 1), ("(ok", 1), ("1/2", 2)
    ]  # fmt: skip
    readers_trees.write_trees(tmp_path / "out", [tree])
    assert (tmp_path / "out").read_text() == line.replace("\\/", "/") + "\n"


def test_a_tree_keeps_its_quotation_marks(file, tmp_path: Path) -> None:
    """Networks read them as raw text has them, but a file of predictions has the tokens of its input."""
    line = "(3 (2 (2 ``) (2 (2 Good) (2 ''))) (2 -RRB-))"
    trees = readers_trees.read_trees(file(f"{line}\n"))
    readers_trees.write_trees(tmp_path / "out", trees)
    assert (tmp_path / "out").read_text() == f"{line}\n"


@pytest.mark.parametrize(
    ("token", "raw"),
    [
        ("``", '"'), ("''", '"'), ("`", "'"), ("-LRB-", "("), ("-RCB-", "}"), ("a-RSB-", "a]"), ("and\\/or", "and/or"),
        ("\\*", "*"), ("/.", "."), ("'s", "'s"), ("```", "```"), ("-lrb-", "-lrb-"), ("</S>", "</S>"),
    ],
)  # fmt: skip
def test_tokens_have_the_spelling_of_raw_text(token: str, raw: str) -> None:
    assert unescaped(token) == raw


@given(st.text("ab()[]{}", min_size=1))
def test_brackets_are_escaped_and_read_back(token: str) -> None:
    there = escaped(token)
    assert not set("()[]{}") & set(there)
    assert unescaped(there) == token


TREES = st.recursive(
    st.text("ab(", min_size=1, max_size=3), lambda part: st.lists(part, min_size=1, max_size=3), max_leaves=8
)


@given(TREES, st.data())
def test_any_tree_is_read_back(shape, data) -> None:
    def bracketed(part) -> str:
        label = data.draw(st.integers(0, 4))
        inner = part.replace("(", "-LRB-") if isinstance(part, str) else " ".join(map(bracketed, part))
        return f"({label} {inner})"

    line = bracketed(shape)
    with TemporaryDirectory() as folder:
        text, again = Path(folder, "text"), Path(folder, "again")
        text.write_text(f"{line}\n", encoding="utf-8")
        (tree,) = readers_trees.read_trees(text)
        readers_trees.write_trees(again, [tree])
        assert again.read_bytes() == text.read_bytes()
    assert [node.label for node in tree.nodes] == [int(label) for label in re.findall(r"\((\d)", line)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("(3 (2 Good) (2 film)", "leaves 1 bracket open"),
        ("(3 (2 Good) (2 film)))", "has ')' after the end of its tree"),
        ("(3 (2 Good) (2 film)) (2 x)", "after the end of its tree"),
        ("(3 (2 Good) (7 film))", "label 7"),
        ("(3 (2 Good film))", "'Good' at character 7"),
        ("(3 Good (2 film))", "'Good' at character 4"),
        ("(3 (2 Good) ( film))", "'(' at character 13"),
        ("(3 (2 ) (2 film))", "without a word"),
        ("Good film", "'Good' at character 1"),
        (")", "')' at character 1"),
    ],
)
def test_a_broken_tree_is_refused(file, line: str, problem: str) -> None:
    cannot_read(
        readers_trees.read_trees, file(f"(2 (2 A) (2 b))\n{line}\n"), "line 2", problem, "write one tree per line"
    )


# SNLI


def pair(**changes: object) -> str:
    return json.dumps({"gold_label": "neutral", "sentence1": "A cat.", "sentence2": "It sleeps."} | changes) + "\n"


def test_snli_leaves_out_pairs_without_agreement(file, tmp_path: Path) -> None:
    unlabelled = json.dumps({"sentence1": "a", "sentence2": "b"})
    pairs = read_snli(file(pair() + pair(gold_label="-") + "\n" + pair(gold_label="entailment") + unlabelled))
    assert [(each.label, each.line) for each in pairs] == [("neutral", 1), ("entailment", 4), (None, 5)]
    assert (pairs[0].premise, pairs[0].hypothesis) == ("A cat.", "It sleeps.")
    readers.write_json_lines(tmp_path / "out", map(readers_pairs.as_record, pairs))
    assert [each.label for each in read_snli(tmp_path / "out")] == ["neutral", "entailment", None]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (pair(sentence2=3), ("'sentence2' is '3'",)),
        ('{"gold_label": "neutral", "sentence1": "a"}', ("no 'sentence2' or 'hypothesis'",)),
        ("{nonsense", ("column 2", "not valid JSON", "correct it")),
        ('{"sentence1": "a", "sen', ("column 20", "not valid JSON", "complete it")),
        ("{'sentence1': 'a'}", ("column 2", "double quotes")),
        ("[1]", ("JSON object per line",)),
        ("[" * 100_000, ("not valid JSON",)),
    ],
)
def test_malformed_snli_is_refused(file, line: str, parts: tuple[str, ...]) -> None:
    cannot_read(read_snli, file(pair() + line), "line 2", *parts)


def test_labels_that_training_never_had_are_told_of() -> None:
    readers.tell_unknown([(1, "X")], {"X"}, Path("dev"))
    with pytest.warns(IrregularInput, match="dev.*'Y'.*line 7.*--strict"):
        readers.tell_unknown([(1, "X"), (7, "Y")], {"X"}, Path("dev"), "type")


# roles


def roles(**changes: object) -> str:
    prop = {"pred": 1, "lemma": "see", "roleset": "see.01", "tags": ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"]} | changes
    return json.dumps({"id": "s1", "tokens": ["We", "see", "a", "hill"], "props": [prop]}) + "\n"


def test_roles_are_read_and_written(file, tmp_path: Path) -> None:
    path = file(roles() + '{"tokens": ["Oh"], "props": []}\n' + roles(tags=None))
    first, second, third = read_roles(path)
    assert first.predicates == (readers_roles.Predicate(1, ("B-ARG0", "B-V", "B-ARG1", "I-ARG1"), "see", "see.01"),)
    assert (second.predicates, second.line) == ((), 2)
    assert third.predicates[0].tags is None
    readers.write_json_lines(tmp_path / "out", map(readers_roles.as_record, [first, second, third]))
    assert read_roles(tmp_path / "out") == [first, second, third]
    unnamed, zero = read_roles(file('{"id": null, "tokens": ["Oh"]}\n{"id": 0, "tokens": ["Oh"]}'))
    assert (unnamed.id, zero.id) == ("", "0")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (roles(pred=4), ("'pred': 4", "4 tokens")),
        (roles(pred=True), ("'pred': True",)),
        (roles(tags=["B-ARG0", "B-V"]), ("2 tags for 4 tokens",)),
        (roles(tags=["B-ARG0", "B-V", "O", "ARG1"]), ("token 3", "the tag is 'ARG1'")),
        (roles(tags=["B-ARG0", "B-V", "O", 1]), ("'tags' is",)),
        ('{"tokens": ["a", 1]}', ("'tokens' is",)),
        ('{"tokens": ["a"], "props": 3}', ("'props'",)),
    ],
)
def test_malformed_roles_are_refused(file, line: str, parts: tuple[str, ...]) -> None:
    cannot_read(read_roles, file(roles() + line), "line 2", *parts)


# SQuAD

CONTEXT = "The Tarn rose 3.5m in 1998; Odile's mill (built 1712) stood."


def squad(*answers: tuple[str, int], **changes: object) -> str:
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    question = {"id": "q1", "question": "When did it rise?", "answers": listed} | changes
    return json.dumps(
        {"version": "1.1", "data": [{"title": "Tarn", "paragraphs": [{"context": CONTEXT, "qas": [question]}]}]}
    )


def cut(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def read_squad(path: Path) -> list[readers_squad.Question]:
    return readers_squad.read_squad(path, cut)


def test_answers_are_runs_of_tokens_that_cover_them(file) -> None:
    (question,) = read_squad(file(squad(("1998", 22), ("Odile", 28), ("5", 16), ("n 1998; Od", 20))))
    assert question.tokens == ("When", "did", "it", "rise", "?")
    passage = question.passage
    assert all(CONTEXT[begin:end] == token for token, (begin, end) in zip(passage.tokens, passage.offsets, strict=True))
    places = [(answer.first or 0, answer.last or 0) for answer in question.answers]
    covered = [" ".join(passage.tokens[first : last + 1]) for first, last in places]
    assert covered == ["1998", "Odile", "5m", "in 1998 ; Odile"]
    assert [answer.text for answer in question.answers] == ["1998", "Odile", "5", "n 1998; Od"]


def test_questions_without_answers_can_be_predicted(file, tmp_path: Path) -> None:
    (question,) = read_squad(file(squad()))
    assert question.answers == ()
    readers_squad.write_squad(tmp_path / "out", {"q1": "né"})
    assert json.loads((tmp_path / "out").read_text()) == {"q1": "né"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (squad(id=None), ("'id' is 'None'",)),
        (
            squad().replace('"qas": [', '"qas": [{"id": "q1", "question": "Why?"}, '),
            ("two questions have the id 'q1'",),
        ),
        ('{"21645374": {"QUESTION": "a", "CONTEXTS": []}}', ("'21645374'", "SQuAD 1.1 is expected")),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', ("'qas'",)),
        ('{"data": 3}', ("'data'",)),
        ("[3]", ("line 1", "JSON object")),
        ("{", ("not valid JSON",)),
    ],
)
def test_malformed_squad_is_refused(file, text: str, parts: tuple[str, ...]) -> None:
    cannot_read(read_squad, file(text), *parts)


def test_a_tokenizer_that_changes_the_text_is_refused(file) -> None:
    cannot_read(
        lambda path: readers_squad.read_squad(path, lambda text: text.lower().split()), file(squad()), "tokenizer"
    )


# coreference

COLUMNS = """#begin document (bn/x/1); part 002
bn/x/1 2 0 Ann NNP (S* - - - Host * (0)
bn/x/1 2 1 met VBD * - - - Host * -
bn/x/1 2 2 the DT * - - - Host * (1
bn/x/1 2 3 man NN * - - - Host * (2)|1)

bn/x/1 2 0 He PRP * - - - Guest * (1|(3
bn/x/1 2 1 too RB * - - - Guest * 1)|(1
bn/x/1 2 2 . . * - - - Guest * 3)|1)
#end document
"""


def test_conll2012_is_read(file) -> None:
    (document,) = readers_coref.read_coref(file(COLUMNS))
    assert (document.name, document.part, document.genre, document.line) == ("bn/x/1", 2, "bn", 1)
    assert document.sentences == (("Ann", "met", "the", "man"), ("He", "too", "."))
    assert document.clusters == (((0, 0),), ((2, 3), (4, 5), (5, 6)), ((3, 3),), ((4, 6),))
    assert document.speakers == (("Host",) * 4, ("Guest",) * 3)


@pytest.mark.parametrize("writer", [readers_coref.write_conll2012, write_coref_json])
def test_coreference_is_read_back(file, tmp_path: Path, writer) -> None:
    (document,) = readers_coref.read_coref(file(COLUMNS))
    writer(tmp_path / "out", [document, document])
    again = readers_coref.read_coref(tmp_path / "out")
    assert [replace(each, line=1) for each in again] == [document] * 2


@pytest.mark.parametrize("title", ["(bn/x/1); part 002", "(1_x_brat); part 0", "GUM_x", "(a b); part 1"])
def test_the_reference_scorer_finds_documents_by_the_line_of_their_file(file, tmp_path: Path, title: str) -> None:
    """Its pattern is `^#\\s*begin document (.*?)$`; a document of another name has the recall 0."""
    begin = f"#begin document {title}"
    documents = readers_coref.read_coref(file(COLUMNS.replace("#begin document (bn/x/1); part 002", begin)))
    readers_coref.write_conll2012(tmp_path / "out", documents)
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines()[0] == begin


def test_names_and_tokens_that_columns_could_take_for_something_else(tmp_path: Path) -> None:
    document = readers_coref.Document("#1\n2", (("#", "a b", "\u00a0"),), (((0, 1),),), (("",) * 3,))
    readers_coref.write_conll2012(tmp_path / "out", [document])
    (again,) = readers_coref.read_coref(tmp_path / "out")
    assert (again.sentences, again.clusters) == (document.sentences, document.clusters)
    for token in ("a\tb", "a\nb", "\r"):
        with refused("tab", ".jsonl"):
            readers_coref.write_conll2012(tmp_path / "bad", [replace(document, sentences=((token, "", ""),))])
    with refused("token 1", "empty"):
        readers_coref.write_conll2012(tmp_path / "bad", [replace(document, sentences=(("a", "", ""),))])
    assert not (tmp_path / "bad").exists()


@given(st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=4), max_size=4), st.data())
def test_brackets_hold_all_clusters_without_crossings(drawn, data) -> None:
    distinct = list(dict.fromkeys((min(m), max(m)) for cluster in drawn for m in cluster))
    sizes = iter(distinct)
    found = (tuple(sorted(islice(sizes, len(cluster)))) for cluster in drawn)
    clusters = tuple(cluster for cluster in found if cluster)
    document = readers_coref.Document("d", (tuple("abcdefgh"),), clusters, (("",) * 8,))
    with TemporaryDirectory() as folder:
        path = Path(folder, "columns")
        if any(a < c < b < d for cluster in clusters for a, b in cluster for c, d in cluster):
            with pytest.raises(ValueError, match="cross"):
                readers_coref.write_conll2012(path, [document])
            return
        readers_coref.write_conll2012(path, [document])
        (read,) = readers_coref.read_coref(path)
    assert sorted(map(sorted, read.clusters or ())) == sorted(map(list, clusters))


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("(2)|1)", "(2)", ("line 4", "'(1'", "not closed")),
        ("* (1\n", "* -\n", ("line 5", "'1)'", "not open")),
        ("(0)", "0", ("line 2", "'0'", "coreference column")),
        ("(0)", "(0)|", ("line 2", "coreference column")),
        ("met VBD", "met", ("line 3", "11 columns", "has 12")),
        ("bn/x/1 2 1", "bn/x/1 2 7", ("line 1", "counts the words 0, 1, 2")),
        ("#end document\n", "", ("line 1", "has no end")),
        ("#begin document (bn/x/1); part 002\n", "", ("line 1", "outside a document")),
        ("#end document\n", "#end document\n#end document\n", ("line 11", "has no start")),
    ],
)
def test_malformed_conll2012_is_refused(file, old: str, new: str, parts: tuple[str, ...]) -> None:
    assert old in COLUMNS
    cannot_read(readers_coref.read_coref, file(COLUMNS.replace(old, new)), *parts)


def coref(**changes: object) -> str:
    record = {"doc_key": "d", "sentences": [["Ann", "met", "Bo"], ["She", "left"]], "clusters": [[[0, 0], [3, 3]]]}
    return json.dumps(record | changes) + "\n"


def test_coref_json_speakers_and_missing_parts(file) -> None:
    lines = coref(speakers=["A", "B"], genre="chat"), coref(speakers=[["A"] * 3, ["B"] * 2]), coref(clusters=None)
    by_sentence, by_token, bare = readers_coref.read_coref(file("".join(lines)))
    assert by_sentence.speakers == by_token.speakers == (("A",) * 3, ("B",) * 2)
    assert by_sentence.genre == "chat"
    assert by_sentence.clusters == (((0, 0), (3, 3)),)
    assert bare.clusters is None
    assert bare.speakers == (("",) * 3, ("",) * 2)


def test_a_document_has_one_genre_in_both_formats(tmp_path: Path) -> None:
    """That of its name, where a file does not say another; columns cannot."""
    names = {"GUM_bio_byron": "bio", "bc/cctv/00/cctv_0000_3": "bc", "GUM_alone": "", "fable": "", "a_b_c": ""}
    text, speakers = (("Ann", "left"),), (("-", "-"),)
    documents = [readers_coref.Document(name, text, (), speakers) for name in names]
    for file, write in (("d.jsonl", write_coref_json), ("d.conll", readers_coref.write_conll2012)):
        write(tmp_path / file, documents)
        assert {each.name: each.genre for each in readers_coref.read_coref(tmp_path / file)} == names


def test_a_coref_speaker_of_null_is_unknown(file) -> None:
    lines = coref(speakers=[[None, "A", None], [None] * 2]), coref(speakers=[None, "B"])
    some, one = readers_coref.read_coref(file("".join(lines)))
    assert some.speakers == (("", "A", ""), ("", ""))
    assert one.speakers == (("",) * 3, ("B",) * 2)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (coref(clusters=[[[0, 5]]]), ("[0, 5]", "5 tokens")),
        (coref(clusters=[[[1, 0]]]), ("[1, 0]",)),
        (coref(clusters=[[3]]), ("mention 3",)),
        (coref(clusters=[3]), ("'clusters'",)),
        (coref(speakers=["A"]), ("'speakers'",)),
        (coref(speakers=["A", 2]), ("'speakers'", "null")),
        (coref(part="1"), ("'part': '1'",)),
        (coref(sentences=[3]), ("'a sentence'",)),
        (coref(sentences=3), ("'sentences'",)),
    ],
)
def test_malformed_coref_json_is_refused(file, line: str, parts: tuple[str, ...]) -> None:
    cannot_read(readers_coref.read_coref, file(coref() + line), "line 2", *parts)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    cannot_read(read_snli, tmp_path, "folder")


LONG, DIGITS = "x" * 200_000, "9" * 5000
GAP = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"


@pytest.mark.parametrize(
    ("read", "text", "line"),
    [
        (read_snli, LONG, "line 1"),
        (read_snli, f'premise,hypothesis,label\n"{LONG},b,0\n', "line 2"),
        (read_roles, f"{DIGITS} My cats ||| O B-V\n", "line 1"),
        (read_roles, f'{{"tokens": ["a"], "props": [{{"pred": {DIGITS}, "tags": ["B-V"]}}]}}\n', "line 1"),
        (readers_coref.read_coref, GAP + f"1\tHe is Al .\tHe\t{DIGITS}\tAl\t6\tTRUE\tAl\t6\tFALSE\tu\n", "line 2"),
        (readers_coref.read_coref, coref(clusters="DIGITS").replace('"DIGITS"', DIGITS), "line 1"),
    ],
    ids=["snli-header", "snli-quotes", "roles", "roles-json", "gap", "coref-json"],
)
def test_fields_and_numbers_beyond_what_python_reads_are_refused(file, read, text: str, line: str) -> None:
    cannot_read(read, file(text), line)


def test_a_label_of_thousands_of_digits_is_another_label(file) -> None:
    with pytest.warns(IrregularInput, match="label"):
        assert read_snli(file(f"premise,hypothesis,label\na,b,{DIGITS}\nc,d,0\n"))
