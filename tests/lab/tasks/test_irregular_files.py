"""Public files as they are: one irregular line does not refuse a corpus, it is counted in one warning, or refused."""

import bz2
import gzip
import json
import lzma
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from command import run
from refusals import refusal, refused
from tiny import write_tiny

from elmo.embedding.job import read_lines as embed_lines
from elmo.errors import InputError, IrregularInput
from elmo.text import corpus, lines
from elmo.text.records import read_conllu, read_conllu_columns
from elmo.text.tokenizer import WHITESPACE, Tokenizer
from elmo_lab.tasks import (
    coref_scores,
    readers_columns,
    readers_coref,
    readers_pairs,
    readers_roles,
    readers_squad,
    readers_trees,
    tagging,
)

File = Callable[..., Path]


def tags(path: Path) -> list[list[tuple[str, str]]]:
    return [list(zip(each.tokens, each.tags or (), strict=True)) for each in readers_columns.read_entities(path)]


# Text


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["input", "input.txt", "input.gz"])
def test_compression_is_known_by_content(file: File, pack: Callable[[bytes], bytes], name: str) -> None:
    assert list(corpus.file_lines(file(pack("a\nné\n".encode()), name))) == ["a", "né"]


@pytest.mark.parametrize("text", [b"a b\rc\r\rd", b"a b\rc\r\rd\r", b"\xef\xbb\xbfa b\r\nc\r\n\r\nd\r\n"])
def test_line_ends_of_all_kinds(file: File, text: bytes) -> None:
    assert list(corpus.file_lines(file(text))) == ["a b", "c", "", "d"]


def test_marks_at_the_beginning_of_lines_are_no_text(file: File) -> None:
    assert list(corpus.file_lines(file("\ufeffa\n\ufeffb\n"))) == ["a", "b"]


def test_carriage_returns_within_lines_are_told_of(file: File) -> None:
    with pytest.warns(IrregularInput, match="carriage return.*2 times.*lines 2, 3"):
        assert len(list(corpus.file_lines(file(b"a\nb\rc\nd\re\n")))) == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be"])
@pytest.mark.parametrize(
    "text",
    [
        "Нора живёт в Порту .\nОна играет .\n",
        "東京は日本の首都です。とても大きい。\n人が多い。\n",
        "גרה בעיר\nנורה\n",
        "नोरा शहर में रहती है\nवह खेलती है\n",
        "서울은 크다\n",
        "Η Νόρα ζει στο Πόρτο\n",
        "Nora’s café 🙂\n",
        "نورا می‌رود\n",
        "Anna\tO\nslept\tO\n",
    ],
)
def test_wide_encodings_of_all_alphabets_are_known(file: File, text: str, encoding: str) -> None:
    with refused("input", f"iconv -f {encoding} -t utf-8"):
        list(corpus.file_lines(file(text.encode(encoding))))


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("café\n中文\n".encode() + b"x\xff\n" + "né\n".encode(), "line 3", "iconv -c -f utf-8 -t utf-8"),
        ("süß, aber\nschön\n".encode("latin1"), "line 1", "iconv -f windows-1252"),
        ("мир и дом\n".encode("koi8-r"), "line 1", "iconv -f ENCODING"),
        ("中文中文\n".encode("gb18030"), "line 1", "iconv -f ENCODING"),
    ],
)
def test_the_remedy_for_bytes_that_are_no_utf8_destroys_nothing(
    file: File, text: bytes, place: str, remedy: str
) -> None:
    with refused(place, remedy) as raised:
        list(corpus.file_lines(file(text)))
    assert "latin1" not in str(raised.value)


@pytest.mark.parametrize("read", [embed_lines, lines.numbered_lines])
def test_a_line_that_no_memory_holds_is_refused(
    file: File, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Iterable[Any]]
) -> None:
    """A small compressed file can have one: 458 kB of .xz for 3 GB."""
    for module in (corpus, lines):
        monkeypatch.setattr(module, "MOST_CHARACTERS", 100_000)
    path = file(lzma.compress(b"a line\n" + b"x y " * 1_000_000), "x.txt.xz")
    with refused("x.txt.xz", "line 2", "100,000"):
        list(read(path))
    assert len(list(read(file(b"x y " * 24_999 + b"\n", "long.txt")))) == 1


def test_a_zip_archive_is_named_with_its_members(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "snli.zip", "w") as archive:
        archive.writestr("snli_1.0/dev.txt", "a")
    with refused("snli.zip", "snli_1.0/dev.txt", "unpack"):
        list(corpus.file_lines(tmp_path / "snli.zip"))


@pytest.mark.parametrize("line", ["10\u00a0000 euros\u00a0", "\u3000a\u00a0b \t c", "a\x0bb\x0cc", "a\ufeff\u200b b"])
def test_pretokenized_text_has_the_tokens_of_columns(file: File, line: str) -> None:
    """Labels and vectors have the same length."""
    tokens = Tokenizer(WHITESPACE).tokens(line)
    rows = file("\n".join(tokens) + "\n")
    assert [list(each.tokens) for each in readers_columns.read_conll(rows, tag_column=None)] == [tokens]


# CoNLL-U


@pytest.mark.parametrize(
    ("lines", "sentences", "told"),
    [
        (["1\ta", "2\tb", "1\tc", "2\td"], [["a", "b"], ["c", "d"]], "without an empty line before it, line 3"),
        (["1\ta", "2\tb", "1-2\tcd", "1\tc", "2\td"], [["a", "b"], ["c", "d"]], "without an empty line.* line 3"),
        (["1\ta", "2\tb", "2\tc"], [["a", "b", "c"]], "not the next number, line 3"),
        (["1\ta", "3\tb"], [["a", "b"]], "not the next number, line 2"),
        (["2\ta", "3\tb"], [["a", "b"]], "not the next number, line 1"),
        (["1 a a NOUN _ _ 0 root _ _"], [["a"]], "separated by spaces, line 1"),
    ],
)
def test_conllu_whose_ids_do_not_count(lines: list[str], sentences: list[list[str]], told: str) -> None:
    with pytest.warns(IrregularInput, match=f"x: .*{told}"):
        assert [record.tokens for record in read_conllu(lines, "x")] == sentences
    with pytest.warns(IrregularInput, match=told):
        assert [[form for (form,) in each] for each in read_conllu_columns(lines, (1,), "x")] == sentences


def test_regular_conllu_says_nothing() -> None:
    lines = ["# text = al b", "0.1\tx", "1-2\tal", "1\ta", "2\tel", "2.1\ty", "3\tb", "\f", "1\tc", "", "\u200b"]
    assert [record.tokens for record in read_conllu(lines)] == [["a", "el", "b"], ["c"]]


# Columns


@pytest.mark.parametrize(
    ("text", "found", "told"),
    [
        ("a\tB-X\nb\tO\nc\tI-X\n", ["B-X", "O", "B-X"], "I- where no entity .*line 3"),
        ("a B-X\nb I-Y\n", ["B-X", "B-Y"], "I- where no entity .*line 2"),
        ("a S-X\nb B-X\nc O\n", ["B-X", "B-X", "O"], "IOBES does not allow.*line 3"),
        ("a\tB-X\n \tI-X\n", ["B-X", "I-X"], "an empty token.*line 2"),
        ("a B-X\n I-X\n", ["B-X", "I-X"], "an empty token.*line 2"),
        ("a\tx\tB-X\nb\tx\t\n", ["B-X", "O"], "an empty tag, read as O, line 2"),
        ("a\tB-X\nb I-X\n", ["B-X", "I-X"], "spaces instead of tabs, line 2"),
    ],
)
def test_irregular_columns_are_read_as_conlleval_does(file: File, text: str, found: list[str], told: str) -> None:
    with pytest.warns(IrregularInput, match=f"input: .*{told}"):
        (sentence,) = tags(file(text))
    assert [tag for _, tag in sentence] == found
    with warnings.catch_warnings():
        warnings.simplefilter("error", IrregularInput)
        with pytest.raises(InputError, match=told):
            tags(file(text))


REGULAR = {
    "IOB1": ("a I-X\nb I-X\nc B-X\n", "B-X I-X B-X"),
    "IOE2": ("a I-X\nb E-X\nc E-X\n", "B-X I-X B-X"),
    "IOE1": ("a I-X\nb E-X\nc I-X\nd O\n", "B-X I-X B-X O"),
    "BILOU": ("a B-X\nb I-X\nc L-X\nd U-Y\n", "B-X I-X I-X B-Y"),
    "BMES": ("a B-X.NAM\nb M-X.NAM\nc E-X.NAM\nd S-Y\n", "B-X.NAM I-X.NAM I-X.NAM B-Y"),
    "untyped": ("a B\nb I\nc O\nd B\n", "B I O B"),
    "untyped BMES": ("a B\nb M\nc E\nd S\n", "B I I B"),
    "a mark at the end": ("a\tB-X\nb\tO\x1a", "B-X O"),
    "a byte-order mark at the end": ("a\tB-X\nb\tO\ufeff", "B-X O"),
    "an end of file of DOS": ("a\tB-X\nb\tO\r\n\x1a", "B-X O"),
    "tabs at the end": ("a\tB-X\t\nb\tO\t\n", "B-X O"),
    "spaces at the end": ("a B-X \nb O  \n", "B-X O"),
    "carriage returns": ("a\tB-X\rb\tO\r", "B-X O"),
    "WikiAnn": ("en:a\tB-X\nen:b\tO\n", "B-X O"),
    "GermEval": ("#\thttp://x [2009-10-17]\n1\ta\tB-X\tB-Y\n2\tb\tO\tO\n", "B-X O"),
    "Universal NER": ("# sent_id = 1\n# text = a b\n1\ta\tB-X\t-\tann\n2\tb\tO\t-\tann\n", "B-X O"),
    "numbers and multiword tokens": ("1-2\tab\tO\t_\n1\ta\tB-X\t_\n2\tb\tO\t_\n", "B-X O"),
    "CoNLL-2002": ("a B-X\nb O\n\n", "B-X O"),
    "CoNLL-2003": ("-DOCSTART- -X- -X- O\n\na NNP B-NP B-X\nb VBD B-VP O\n", "B-X O"),
    "form feeds": ("\f\na B-X\nb O\n\f\n", "B-X O"),
    "zero-width": ("\u200b\na B-X\nb O\n\u200e\n", "B-X O"),
    "JSON lines": ('{"tokens": ["a", "b"], "tags": ["B-X", "O"]}\n', "B-X O"),
    "a list of JSON": ('[\n {"tokens": ["a", "b"],\n  "ner_tags": ["B-X", "O"]}\n]\n', "B-X O"),
    "the Hub's rows": ('{"rows": [{"row_idx": 0, "row": {"tokens": ["a", "b"], "tags": ["B-X", "O"]}}]}', "B-X O"),
}


@pytest.mark.parametrize("name", REGULAR)
def test_layouts_of_columns_are_read_without_a_word(file: File, name: str) -> None:
    text, expected = REGULAR[name]
    (sentence,) = tags(file(text))
    assert [token for token, _ in sentence] == list("abcd"[: len(sentence)])
    assert [tag for _, tag in sentence] == expected.split()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0\tNora\tB-PER\n1\tlives\tO\n", ["Nora B-PER", "lives O"]),  # numbers from 0
        ("B-PER\tNora\nO\tlives\n", ["Nora B-PER", "lives O"]),  # MIT: the tags come first
        ("Nora\tperson-artist\nsaw\tO\nold\tO\nPorto\tlocation-GPE\n.\tO\n", None),  # Few-NERD: types alone
    ],
)
def test_other_columns_are_found_without_a_word(file: File, text: str, found: list[str] | None) -> None:
    found = found or ["Nora B-person-artist", "saw O", "old O", "Porto B-location-GPE", ". O"]
    assert [f"{token} {tag}" for each in tags(file(text)) for token, tag in each] == found


@pytest.mark.parametrize(
    "text",
    [
        "# id 1\tdomain=en\nNora _ _ B-PER\n# _ _ O\n\n# id 2\tdomain=en\nlives _ _ O\n",  # MultiCoNER
        "#\thttp://x [2009-10-17]\n1\tNora\tB-PER\tO\n2\t#\tO\tO\n\n#\thttp://y\n1\tlives\tO\tO\n",  # GermEval
        "# O\nNora B-PER\n",
    ],
)
def test_comments_are_the_same_where_tags_are_not_read(file: File, text: str) -> None:
    path = file(text)
    read = [each.tokens for each in readers_columns.read_entities(path)]
    assert "id" not in "".join(map(str, read))
    assert [each.tokens for each in readers_columns.read_entities(path, unlabelled=True)] == read


@pytest.mark.parametrize("text", ["a\n#\nb\n", "# \na\n#\nb\n", "a NN\n# SYM\nb NN\n"])
def test_a_token_may_be_the_sign_of_comments(file: File, text: str) -> None:
    tokens = [each.tokens for each in readers_columns.read_entities(file(text), unlabelled=True)]
    assert [token for each in tokens for token in each][-3:] == ["a", "#", "b"]


def test_the_first_token_may_be_the_sign_of_comments(file: File) -> None:
    (sentence,) = readers_columns.read_conll(file("# SYM\nb NN\n"), tag_column=None)
    assert sentence.tokens == ("#", "b")


def test_untyped_tags_are_chunks() -> None:
    assert tagging.spans(["B", "I", "O", "I"]) == [(0, 2, ""), (3, 4, "")]
    assert tagging.tags_of([(0, 2, "")], 3) == ("B", "I", "O")
    assert tagging.bio_tags(["", "X"]) == ("O", "B", "I", "B-X", "I-X")


def test_numbers_as_tags_are_refused_with_the_remedy(file: File) -> None:
    path = file('{"tokens": ["a"], "ner_tags": [3]}\n')
    with refused("line 1", "'ner_tags'"):
        tags(path)
    assert [each.tags for each in readers_columns.read_entities(path, unlabelled=True)] == [None]


@pytest.mark.parametrize("tag", ["B_PER", "PER-B", "PER_I"])
def test_marks_that_are_written_otherwise_are_no_types(file: File, tag: str) -> None:
    with refused("line 1", repr(tag), "B-TYPE"):
        tags(file(f"Nora\t{tag}\nlives\tO\nin\tO\n"))
    (sentence,) = tags(file("a\tB_cell\nb\tO\nc\tO\nd\tO\ne\tvirus\n"))
    assert [tag for _, tag in sentence if tag != "O"] == ["B-B_cell", "B-virus"]


# CoNLL-2012

GOLD = """#begin document (bc/x); part 000
bc/x 0 0 Ann NNP (TOP(S(NP*) - - - Bob (PERSON) (ARG0*) (0)
bc/x 0 1 bought VBD (VP* buy 01 1 Bob * (V*) -
bc/x 0 2 New NNP (NP(NP* - - - Bob (GPE* (ARG1* (1
bc/x 0 3 York NNP *) - - - Bob *) * -
bc/x 0 4 maps NNS *))) - - - Bob * *) 1)

bc/x 0 0 Yes UH (TOP*) - - - Bob * -
#end document
"""


def test_conll2012_has_entities_roles_and_coreference(file: File) -> None:
    first, second = tags(file(GOLD))
    assert [tag for _, tag in first] == ["B-PERSON", "O", "B-GPE", "I-GPE", "O"]
    assert second == [("Yes", "O")]
    one, other = readers_roles.read_roles(file(GOLD))
    expected = readers_roles.Predicate(1, ("B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1"), "buy", "01")
    assert one.predicates == (expected,)
    assert (other.tokens, other.predicates) == (("Yes",), ())
    (document,) = readers_coref.read_coref(file(GOLD))
    assert document.clusters == (((0, 0),), ((2, 4),))
    assert document.speakers[1] == ("Bob",)


SEMEVAL = """#begin document 17_cars
1\tAnn\tann\tann\tNNP\tNNP\t_\t_\t2\t2\tSBJ\tSBJ\t_\t_\t_\t_\t(0)
2\truns\trun\trun\tVBZ\tVBZ\t_\t_\t0\t0\tROOT\tROOT\t_\t_\t_\t_\t_

1\tShe\tshe\tshe\tPRP\tPRP\t_\t_\t0\t0\tROOT\tROOT\t_\t_\t_\t_\t(0)
#end document 17_cars
"""


def columns(name: str, separator: str, begin: str) -> str:
    rows = [("0", "0", "Ann", "-", "(0)"), ("0", "1", "runs", "-", "-"), (), ("0", "0", "She", "-", "(0)")]
    lines = (separator.join((name, *row)) if row else "" for row in rows)
    return "\n".join([f"#begin document {begin}", *lines, "#end document", ""])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SEMEVAL, "17_cars"),
        (columns("a b c", " ", "(a b c); part 000"), "a b c"),
        (columns("a b", "\t", "(a b); part 000"), "a b"),
        (columns("#x", " ", "(#x); part 000"), "#x"),
        (columns("#x y", "\t", "#x y"), "#x y"),
    ],
)
def test_the_words_of_coreference_are_found_by_their_numbers(file: File, text: str, name: str) -> None:
    (document,) = readers_coref.read_coref(file(text))
    assert (document.name, document.sentences) == (name, (("Ann", "runs"), ("She",)))
    assert document.clusters == (((0, 0), (2, 2)),)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("\n\nbc/x 0 0 Yes", "\nbc/x 0 0 Yes", "without an empty line before it, line 7"),
        ("bc/x 0 3 York", "bc/x 0 5 York", "not the next"),
        (
            "#end document\n",
            "#begin document (y); part 000\ny 0 0 a - -\ny 0 1 b - -\n#end document\n",
            "without '#end",
        ),
    ],
)
def test_irregular_conll2012_is_read_and_told_of(file: File, old: str, new: str, told: str) -> None:
    text = GOLD.replace(" (PERSON)", " *").replace(old, new)
    text = text.replace("* (ARG0*) (0)", "* (0)").replace("* (V*) -", "* -").replace("(ARG1* (1", "(1")
    text = text.replace("*) * -", "*) -").replace("* *) 1)", "* 1)")
    with pytest.warns(IrregularInput, match=told):
        document = readers_coref.read_coref(file(text))[0]
    assert document.sentences == (("Ann", "bought", "New", "York", "maps"), ("Yes",))


def test_an_empty_last_cell_is_no_mention(file: File) -> None:
    text = "#begin document (x); part 0\nx\t0\t0\tAnn\t_\t(0)\nx\t0\t1\truns\t_\t\nx\t0\t2\tfast\t_\n#end document\n"
    with pytest.warns(IrregularInput, match="empty.*2 times.*lines 3, 4"):
        (document,) = readers_coref.read_coref(file(text))
    assert document.sentences == (("Ann", "runs", "fast"),)
    assert document.clusters == (((0, 0),),)


def test_a_mention_in_two_clusters_is_scored_as_the_reference_scorer_does(file: File) -> None:
    """That program's numbers for this key, and a response without `Ann` in the second cluster."""
    rows = [("Ann", "(0)|(1)"), ("her", "(0)"), ("dog", "(1)"), ("it", "(1)"), ("she", "(0)")]
    lines = [f"x 0 {number} {word} - {cell}" for number, (word, cell) in enumerate(rows)]
    key = "\n".join(["#begin document (x); part 000", *lines, "#end document", ""])
    with pytest.warns(IrregularInput, match=r"twice.*\(0, 0\).*line 1"):
        (document,) = readers_coref.read_coref(file(key))
    clusters = document.clusters
    assert clusters is not None
    assert clusters == (((0, 0), (1, 1), (4, 4)), ((0, 0), (2, 2), (3, 3)))
    response = (((0, 0), (1, 1), (4, 4)), ((2, 2), (3, 3)))
    found = coref_scores.coref_scores([clusters], [response])
    assert found["f1"] == pytest.approx(72.94, abs=0.01)
    record = {"sentences": [[word for word, _ in rows]], "clusters": [[list(m) for m in c] for c in clusters]}
    with pytest.warns(IrregularInput, match="twice"):
        (again,) = readers_coref.read_coref(file(json.dumps(record)))
    assert again.clusters == clusters


def test_coreference_of_gap_and_preco(file: File) -> None:
    names = "\t".join(readers_coref.GAP)
    row = "t-1\tAnn met Eve. She left.\tShe\t13\tAnn\t0\tTRUE\tEve\t8\tFALSE\thttp://x"
    (document,) = readers_coref.read_coref(file(f"{names}\n{row}\n"))
    assert document.sentences == (("Ann", "met", "Eve", "."), ("She", "left", "."))
    assert document.clusters == (((0, 0), (4, 4)),)
    preco = {"id": "p", "sentences": [["Ann"], ["She", "ran"]], "mention_clusters": [[[0, 0, 1], [1, 0, 1]]]}
    (other,) = readers_coref.read_coref(file(json.dumps(preco)))
    assert other.clusters == (((0, 0), (1, 1)),)


def test_a_mention_across_sentences_is_kept_and_told_of(file: File) -> None:
    record = {"doc_key": "d", "sentences": [["a", "b"], ["c"]], "clusters": [[[1, 2], [0, 0]]]}
    with pytest.warns(IrregularInput, match="sentences"):
        (document,) = readers_coref.read_coref(file(json.dumps(record)))
    assert document.clusters == (((0, 0), (1, 2)),)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"doc_key": "d", "sentences": [["Ann"], ["ran"]], "clusters": [[[0, 9]]]}),
        json.dumps({"doc_key": "d", "sentences": [["Ann"], ["ran"]], "mention_clusters": [[7]]}),
        "#begin document (d); part 000\nd 0 0 Ann NNP (1\n\nd 0 0 ran VBD -\n#end document\n",
        "\t".join(readers_coref.GAP) + "\nd\tAnn\tShe\t-\tAnn\t-\t\tEve\t-\t\tu\n",
    ],
    ids=["json", "preco", "columns", "gap"],
)
def test_clusters_are_not_read_where_they_are_not_needed(file: File, text: str) -> None:
    path = file(text)
    with refused(path, "line"):
        readers_coref.read_coref(path)
    (document,) = readers_coref.read_coref(path, unlabelled=True)
    assert (document.name, document.sentences[0], document.clusters) == ("d", ("Ann",), None)


# Pairs

HUB = '{"premise": "A cat.", "hypothesis": "It sleeps.", "label": %s}\n'


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (HUB % 0 + HUB % 1 + HUB % 2 + HUB % -1, ["entailment", "neutral", "contradiction"]),
        (HUB % '"contradictory"' + HUB % '"Neutral"', ["contradiction", "neutral"]),
        ('{"context": "A cat.", "hypothesis": "It sleeps.", "label": "e", "uid": "x"}\n', ["entailment"]),
        (
            "gold_label\tsentence1_parse\tsentence1\tsentence2\tlabel1\nneutral\t(A\tA cat.\tIt sleeps.\tneutral\n"
            "-\t(A\tA cat.\tIt sleeps.\n",
            ["neutral"],
        ),
        ('premise,hypothesis,label\n"A cat.",It sleeps.,2\n', ["contradiction"]),
        ("sentence1\tsentence2\nA cat.\tIt sleeps.\n", [None]),
        ("[" + (HUB % 0).strip() + ",\n" + (HUB % 1) + "]", ["entailment", "neutral"]),
    ],
)
def test_pairs_of_snli_and_of_the_hub(file: File, text: str, labels: list[str | None]) -> None:
    pairs = readers_pairs.read_snli(file(text))
    assert [pair.label for pair in pairs] == labels
    assert {(pair.premise, pair.hypothesis) for pair in pairs} == {("A cat.", "It sleeps.")}


def test_irregular_pairs_are_left_out_and_told_of(file: File) -> None:
    text = HUB % 0 + HUB % '"maybe"' + HUB.replace('"It sleeps."', "null") % 1
    with pytest.warns(IrregularInput, match="line 2.*line 3"):
        assert len(readers_pairs.read_snli(file(text))) == 1
    with refused("every line"):
        readers_pairs.read_snli(file(HUB % '"maybe"'))
    assert len(readers_pairs.read_snli(file(HUB % '"maybe"' + HUB % "[0.1]"), unlabelled=True)) == 2


def test_numbers_of_unknown_classes_are_refused(file: File) -> None:
    """GLUE's RTE has two classes under the names of SNLI's columns."""
    path = file('{"sentence1": "a", "sentence2": "b", "label": 1, "idx": 0}\n')
    with refused("class"):
        readers_pairs.read_snli(path)
    assert [pair.label for pair in readers_pairs.read_snli(path, unlabelled=True)] == [None]


# Roles


@pytest.mark.parametrize(
    "text",
    [
        '{"tokens": ["We", "see", "it"], "tags": ["B-A0", "B-V", "B-A1"], "verb_indicator": [0, 1, 0]}',
        '{"words": ["We", "see", "it"], "verbs": [{"verb": "see", "tags": ["B-A0", "B-V", "B-A1"]}]}',
        '{"tokens": ["We", "see", "it"], "tags": ["B-A0", "B-V", "B-A1"]}',
        "1 We see it ||| B-A0 B-V B-A1",
    ],
)
def test_roles_of_allennlp_and_of_bars(file: File, text: str) -> None:
    (sentence,) = readers_roles.read_roles(file(text + "\n"))
    assert sentence.tokens == ("We", "see", "it")
    assert sentence.predicates == (readers_roles.Predicate(1, ("B-A0", "B-V", "B-A1")),)


def test_an_empty_token_of_roles_keeps_its_place(file: File) -> None:
    text = json.dumps({"tokens": ["Ann", "", "ran"], "tags": ["B-ARG0", "O", "B-V"], "verb_indicator": [0, 0, 1]})
    with pytest.warns(IrregularInput, match="empty.*line 1"):
        (sentence,) = readers_roles.read_roles(file(text))
    assert (sentence.tokens, sentence.predicates[0].index) == (("Ann", "\ufffd", "ran"), 2)


def test_columns_without_their_document_are_no_json(file: File) -> None:
    with refused("line 1", "#begin document"):
        readers_roles.read_roles(file("a 0 0 Ann NNP (S* - - - S * (ARG0*) -\n"))


def test_roles_that_break_bio_are_read_and_told_of(file: File) -> None:
    text = '{"tokens": ["We", "see"], "props": [{"pred": 1, "tags": ["I-A0", "B-V"]}]}\n'
    with pytest.warns(IrregularInput, match="line 1"):
        (sentence,) = readers_roles.read_roles(file(text))
    assert sentence.predicates[0].tags == ("B-A0", "B-V")


@pytest.mark.parametrize(
    ("text", "lemma"),
    [
        ('{"tokens": ["We", "see"], "props": [{"pred": 1, "lemma": "see", "tags": ["A0", "V"]}]}\n', "see"),
        ('{"tokens": ["We", "see"], "props": [{"pred": 1, "tags": [3]}]}\n', ""),
        ("1 We see ||| A0 B-V O O\n", ""),
        (GOLD.replace("(ARG0*)", "(ARG0*"), "buy"),
    ],
    ids=["no-bio", "numbers", "bars", "columns"],
)
def test_roles_are_not_read_where_they_are_not_needed(file: File, text: str, lemma: str) -> None:
    path = file(text)
    with refused(path, "line"):
        readers_roles.read_roles(path)
    predicates = [role for sentence in readers_roles.read_roles(path, unlabelled=True) for role in sentence.predicates]
    assert [(role.index, role.tags, role.lemma) for role in predicates] == [(1, None, lemma)]


# SQuAD

CONTEXT = "Mia bought pears. Mia ate pears."


def squad(*questions: dict[str, object]) -> str:
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]})


def question(answer: str, start: int | None, **changes: object) -> dict[str, object]:
    return {"id": 7, "question": "What?", "answers": [{"text": answer, "answer_start": start}]} | changes


@pytest.mark.parametrize(
    ("answer", "start", "token", "told"),
    [
        ("pears", 11, 2, None),
        ("pears", 27, 5, "not at its answer_start"),
        ("pears", 0, 2, "not at its answer_start"),
        ("pears", 9000, 5, "not at its answer_start"),
        ("plums", 11, None, "the passage does not have"),
    ],
)
def test_answers_that_are_elsewhere(file: File, answer: str, start: int, token: int | None, told: str | None) -> None:
    def read() -> readers_squad.Question:
        (found,) = readers_squad.read_squad(file(squad(question(answer, start))), lambda text: text.split())
        return found

    if told is None:
        found = read()
    else:
        with pytest.warns(IrregularInput, match=f"{told}.*question '7'"):
            found = read()
    assert found.id == "7"
    assert [(each.text, each.first) for each in found.answers] == [(answer, token)]


def test_questions_without_an_answer_are_left_out(file: File) -> None:
    empty = question("", 0, id="b", is_impossible=True)
    path = file(squad(question("pears", 11), empty, {"id": "c", "question": "?", "answers": []}))
    with pytest.warns(IrregularInput, match="2 times.*'b'.*'c'"):
        assert [each.id for each in readers_squad.read_squad(path, str.split)] == ["7"]
    assert [each.id for each in readers_squad.read_squad(path, str.split, unlabelled=True)] == ["7", "b", "c"]


@pytest.mark.parametrize("answers", ["pears", [7], {"text": ["pears"]}, [{"text": None}]])
def test_answers_are_not_read_where_they_are_not_needed(file: File, answers: object) -> None:
    path = file(squad({"id": 7, "question": "What?", "answers": answers}))
    with refused(path, "'7'"):
        readers_squad.read_squad(path, str.split)
    (found,) = readers_squad.read_squad(path, str.split, unlabelled=True)
    assert (found.id, found.answers) == ("7", ())


WHAT = {"context": CONTEXT, "question": "What?"}
HUB_ROW = {"id": "7", "title": "t", **WHAT, "answers": {"text": ["pears"], "answer_start": [11]}}
MRQA = {"context": CONTEXT, "qas": [{"qid": "7", "question": "What?", "answers": ["pears"]}]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(HUB_ROW),
        json.dumps([HUB_ROW]),
        '{"header": {"dataset": "x"}}\n' + json.dumps(MRQA),
        json.dumps(json.loads(squad(question("pears", 11))), indent=2),
    ],
)
def test_questions_as_json_lines(file: File, text: str) -> None:
    (found,) = readers_squad.read_squad(file(text), lambda text: text.split())
    assert (found.id, found.text, found.answers) == ("7", "What?", (readers_squad.Answer("pears", 2, 2),))


# Sentiment


def test_sentiment_as_json_lines(file: File) -> None:
    text = '{"text": "Nice film.", "label": 4}\n{"sentence": "Dull.", "label": 0.19, "tokens": "Dull|."}\n'
    found = readers_trees.read_trees(file(text))
    assert [(tree.tokens, tree.nodes[0].label) for tree in found] == [(("Nice", "film", "."), 4), (("Dull", "."), 0)]
    other = file('{"text": "Nice", "label": "pos"}\n')
    with refused("line 1", "'pos'"):
        readers_trees.read_trees(other)
    (tree,) = readers_trees.read_trees(other, unlabelled=True)
    assert (tree.tokens, tree.nodes) == (("Nice",), ())


def test_half_a_surrogate_pair_is_told_of(file: File) -> None:
    text = '{"premise": "a \\ud83d", "hypothesis": "b \\ud83d\\ude00", "label": 0}\n'
    with pytest.warns(IrregularInput, match="surrogate.*line 1"):
        (pair,) = readers_pairs.read_snli(file(text))
    assert (pair.premise, pair.hypothesis) == ("a \ufffd", "b \U0001f600")


# The command line


def test_strict_refuses_what_is_told_of_otherwise(file: File) -> None:
    path = file("1\ta\n2\tb\n2\tc\n", "x.conllu")
    write_tiny(path.with_name("tiny"))
    loose = run("task", "sentences", "ner", file("a\tB-X\nb\tO\n\tO\n", "x.conll"), path.with_name("out"))
    assert (loose.returncode, loose.stderr.count("\n")) == (0, 1), loose.stderr
    assert loose.stderr.startswith("elmo: warning: ")
    for arguments in (
        ("embed", path, path.with_name("v.npz"), "--model", path.with_name("tiny"), "--strict"),
        ("task", "sentences", "ner", path.with_name("x.conll"), path.with_name("out2"), "--strict"),
    ):
        refusal(run(*arguments), "line 3")
    assert not path.with_name("v.npz").exists()
    assert not path.with_name("out2").exists()
