"""Records of text, CoNLL-U and FASTA; offsets lead back to the text."""

import json
import re

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from text_files import CONLLU

from elmo.errors import InputError
from elmo.text.records import check_text, kind_of, read_conllu, read_fasta, read_records, token_offsets
from elmo.text.tokenizer import TextConfig, Tokenizer

FASTA = """;a comment
>sp|P1|ONE first protein
mkv
L A

>two
>three
GG*
"""


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_offsets_of_spacy_and_of_white_space_cut_out_the_tokens(text):
    for tokens in ("spacy", "whitespace"):
        (record,) = read_records([text], "text", Tokenizer(TextConfig(tokens, "line")))
        assert record.offsets is not None
        assert [text[begin:end] for begin, end in record.offsets] == record.tokens
        assert record.offsets == sorted(record.offsets)


def test_offsets_of_equal_tokens_are_in_order():
    assert token_offsets("a  aa a", ["a", "a", "a", "a"]) == [(0, 1), (3, 4), (4, 5), (6, 7)]
    assert token_offsets("abc", ["b", "a"]) is None


def test_conllu_gives_words_and_where_they_stand():
    first, second = read_conllu(CONLLU.splitlines())
    assert first.tokens == ["Vamos", "nos", "a", "el", "mar", "."]
    assert first.text == "Vámonos al mar."
    assert [first.text[begin:end] for begin, end in first.offsets] == ["Vámonos", "Vámonos", "al", "al", "mar", "."]
    assert second.tokens == ["viết văn", "x"]
    assert second.text == "viết văn x"
    assert [second.text[begin:end] for begin, end in second.offsets] == ["viết văn", "x"]


@pytest.mark.parametrize("name", ["a.conll", "b.CONLLX.gz", "c.conllup", "d.conll09"])
def test_columns_of_an_unknown_kind_are_not_read_as_prose(name):
    with refused("--kind conllu", "--kind text"):
        kind_of(name)


@pytest.mark.parametrize("name", ["page.html", "a.XML.gz", "b.tei"])
def test_markup_is_not_read_as_words(name):
    for check in (kind_of, check_text):
        with refused(name, "markup", ".txt"):
            check(name)


def test_conllu_without_the_last_empty_line_is_whole():
    assert [record.tokens for record in read_conllu(["1\ta", "", "", "1\tb"])] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (["1-200000000\tal", "1\ta", "2\tel"], "line 4 comes before 199,999,998 words of the multiword token above it"),
        (["1-3\tal", "1\ta", "2-3\tel", "2\te", "3\tl"], "line 3 comes before 2 words of the multiword token above it"),
        (["1-2\tal"], "line 2 comes before 2 words"),
        (["5-3\tal", "1\ta"], "line 1 has the range 5-3; its first number comes first"),
        (["1-" + "9" * 5000 + "\tal", "1\ta"], "line 1 is '1-9+'; a number, a tab and a word are expected"),
    ],
)
def test_multiword_tokens_have_their_words(lines, match):
    with pytest.raises(InputError, match=rf"t\.conllu: {match}"):
        list(read_conllu(lines, "t.conllu"))


def test_a_multiword_token_may_have_one_word():
    (record,) = read_conllu(["1-1\tal", "1\ta", "2\tel"])
    assert (record.text, record.tokens, record.offsets) == ("al el", ["a", "el"], [(0, 2), (3, 5)])


@pytest.mark.parametrize("line", ["word", "x\tword", "1-\tword", "1"])
def test_what_is_no_conllu_is_named(line):
    with refused("t.conllu", "line 2", repr(line)):
        list(read_conllu(["# a", line], "t.conllu"))


def test_fasta_gives_a_token_a_residue():
    one, two, three = read_fasta(FASTA.splitlines())
    assert (one.text, one.tokens) == ("sp|P1|ONE", ["M", "K", "V", "L", "A"])
    assert one.offsets == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert (two.text, two.tokens) == ("two", [])
    assert three.tokens == ["G", "G", "*"]


def test_a_sequence_without_a_header_is_named():
    with refused("p.fa", "line 1", "'MKV'", ">name"):
        list(read_fasta(["MKV"], "p.fa"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text"),
        ("a.conllu", "conllu"),
        ("a.FASTA", "fasta"),
        ("a.fa.gz", "fasta"),
        ("A.FA.GZ", "fasta"),
        ("a.fas", "fasta"),
        ("a.fsa", "fasta"),
        ("a.mpfa", "fasta"),
        ("a.pep.gz", "fasta"),
        ("-", "text"),
        ("a", "text"),
    ],
)
def test_the_name_says_what_a_file_holds(name, kind):
    assert kind_of(name) == kind


TEXTS = ['Plants grow, "here".', "It's\tan oak, a tree."]
TABLES: dict[str, str] = {
    "a.csv": 'id,text\n1,"Plants grow, ""here""."\n2,"It\'s\tan oak, a tree."\n',
    "dad's.tsv": 'id\ttext\n1\t"Plants grow, ""here""."\n2\t"It\'s\tan oak, a tree."\n',
    "a.json": json.dumps([{"id": number, "text": text} for number, text in enumerate(TEXTS)]),
    "a b.jsonl": "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(TEXTS)),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_remedy_for_a_table_reads_its_texts(tmp_path, name):
    path = tmp_path / name
    path.write_text(TABLES[name], encoding="utf-8")
    with refused(path, "table", ".txt") as caught:
        kind_of(path)
    remedy = re.search(r"elmo\.load\(\)\.embed\((pandas\..*?\['text'\])\)", str(caught.value))
    assert remedy
    assert list(eval(remedy[1], {"pandas": pandas})) == TEXTS
