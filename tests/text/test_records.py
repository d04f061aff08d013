"""Records of text, CoNLL-U and FASTA; offsets lead back to the text."""

import json
import re

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from text_files import CONLLU

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


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (["1-200000000\tal", "1\ta", "2\tel"], "line 4; 199,999,998 words"),
        (["1-3\tal", "1\ta", "2-3\tel", "2\te", "3\tl"], "line 3; 2 words; multiword"),
        (["1-2\tal"], "line 2; 2 words"),
        (["5-3\tal", "1\ta"], "line 1; range 5-3"),
        (["1-" + "9" * 5000 + "\tal", "1\ta"], "line 1; '1-9999; a tab"),
        *((["# a", line], f"line 2; {line!r}") for line in ("word", "x\tword", "1-\tword", "1")),
    ],
)
def test_what_is_no_conllu_or_misses_words_of_a_multiword_token_is_named(lines, match):
    with refused("t.conllu", *match.split("; ")):
        list(read_conllu(lines, "t.conllu"))


def test_a_multiword_token_may_have_one_word_and_the_last_empty_line_may_be_missing():
    first, second = read_conllu(["1-1\tal", "1\ta", "2\tel", "", "", "1\tb"])
    assert (first.text, first.tokens, first.offsets) == ("al el", ["a", "el"], [(0, 2), (3, 5)])
    assert second.tokens == ["b"]


def test_fasta_gives_a_token_a_residue():
    one, two, three = read_fasta(FASTA.splitlines())
    assert (one.text, one.tokens) == ("sp|P1|ONE", ["M", "K", "V", "L", "A"])
    assert one.offsets == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert (two.text, two.tokens) == ("two", [])
    assert three.tokens == ["G", "G", "*"]
    with refused("p.fa", "line 1", "'MKV'", ">name"):
        list(read_fasta(["MKV"], "p.fa"))


def test_the_name_says_what_a_file_holds():
    names = {"text": "a.txt - a", "conllu": "a.conllu", "fasta": "a.FASTA a.fa.gz A.FA.GZ a.fas a.fsa a.mpfa a.pep.gz"}
    for kind, each in names.items():
        assert {kind_of(name) for name in each.split()} == {kind}
    for name in ("a.conll", "b.CONLLX.gz", "c.conllup", "d.conll09"):  # columns of an unknown kind
        with refused("--kind conllu", "--kind text"):
            kind_of(name)
    for name in ("page.html", "a.XML.gz", "b.tei"):
        for check in (kind_of, check_text):
            with refused(name, "markup", ".txt"):
                check(name)


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
