"""`elmo text`: a folder of text files as people have them, made into text to train on; and what it refuses."""

import gzip
import json
import os
import warnings
from pathlib import Path

import pytest
from command import printed, run
from hypothesis import given
from hypothesis import strategies as st
from links import link
from refusals import refusal, refused

from elmo.errors import InputError, IrregularInput
from elmo.text.clean import CleanConfig, clean_folder
from elmo.text.clean_languages import Languages
from elmo.text.clean_lines import PAGE, paragraphs_of

LONG = "Arma virumque cano Troiae qui primus ab oris Italiam fato profugus Laviniaque venit litora."
OTHER = "Gallia est omnis divisa in partes tres quarum unam incolunt Belgae aliam Aquitani tertiam Celtae."
ENGLISH = "This is what the editor of the book has to say about all of the texts that he put into it for you."
ALL = CleanConfig(heldout=0)


def folder_of(path: Path, **files: str | bytes) -> Path:
    path.mkdir(parents=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (path / f"{name}.txt").write_bytes(raw)
    return path


def cleaned(text: str, keep_lines: bool = False) -> tuple[list[str], dict[str, list[int]]]:
    noted: dict[str, list[int]] = {}
    found = paragraphs_of(text, keep_lines, lambda what, line: noted.setdefault(what, []).append(line))
    return [paragraph for _, paragraph in found], noted


def trained(folder: Path) -> list[str]:
    return (folder / "train.txt").read_text(encoding="utf-8").split("\n")


BOOK = """\
THE AENEID 1

Arma virumque cano, Troiae qui pri-
mus ab oris Italiam, fato pro-

12

THE AENEID

fugus, Laviniaque venit
litora. Multum ille et terris
iactatus et alto.

* * *

Vi superum saevae memorem
- 13 -
THE AENEID
Iunonis ob iram.
"""


def test_a_book_with_broken_lines_becomes_paragraphs() -> None:
    paragraphs, noted = cleaned(BOOK)
    assert paragraphs == [
        "Arma virumque cano, Troiae qui primus ab oris Italiam, fato profugus, Laviniaque venit litora. Multum ille et"
        " terris iactatus et alto.",
        "Vi superum saevae memorem",
        "Iunonis ob iram.",
    ]
    assert noted["running heads"] == [1, 8, 18]
    assert noted["page numbers and lone numerals"] == [6, 17]
    assert noted["words divided at the end of a line, joined"] == [4, 10]
    assert noted["lines without letters"] == [14]


def test_lines_that_are_paragraphs_stay() -> None:
    text = f"{LONG} {OTHER}\n{OTHER}\n\nvix-\ncredibile\n"
    assert cleaned(text)[0] == [f"{LONG} {OTHER}", OTHER, "vix-", "credibile"]
    verse = "Arma virumque cano\nTroiae qui primus\nab oris\n"
    assert cleaned(verse)[0] == ["Arma virumque cano Troiae qui primus ab oris"]
    assert cleaned(verse, keep_lines=True)[0] == verse.splitlines()
    refrain = "currite fusi\nAlter erit tum Tiphys\n" * 5  # no running head
    assert "running heads" not in cleaned(refrain)[1]


def test_lines_are_numbered_as_editors_count_them() -> None:
    """A program that makes text of a PDF begins a page with a form feed."""
    noted = cleaned(f"{LONG}\n12\n\f13\n{OTHER}\r\n\f* * *\n")[1]
    assert noted == {"page numbers and lone numerals": [2, 3], "lines without letters": [5]}


def test_page_numbers() -> None:
    assert all(map(PAGE.fullmatch, ("12", "- 12 -", "[12]", "XIV", "xiv.", "p. 12", "Page 3", "| 4 |")))
    assert not any(map(PAGE.fullmatch, ("12 men", "Dixi", "vivo", "1789 anno", "Livii")))


@given(st.text(alphabet="ab. \n-1VXé\u00ad*", max_size=200), st.booleans())
def test_paragraphs_are_lines_with_letters(text: str, keep_lines: bool) -> None:
    for paragraph in cleaned(text, keep_lines)[0]:
        assert paragraph == paragraph.strip()
        assert len(paragraph.splitlines()) == 1
        assert any(map(str.isalpha, paragraph))


def test_other_languages_are_told_apart() -> None:
    latin = Languages("la")
    assert latin.foreign(ENGLISH) == "en"
    assert latin.foreign("Dies ist, was der Herausgeber über die Texte zu sagen hat, die er in das Buch tat.") == "de"
    assert latin.foreign("Ἄνδρα μοι ἔννεπε μοῦσα πολύτροπον ὃς μάλα πολλὰ πλάγχθη ἐπεὶ Τροίης ἱερὸν") == "greek"
    assert latin.foreign(LONG) is None
    assert latin.foreign("to be or not to be") is None  # too short to tell
    assert Languages("en").foreign(ENGLISH) is None


def test_a_folder_becomes_a_text_and_a_report(tmp_path: Path) -> None:
    source = folder_of(
        tmp_path / "in",
        a=f"\ufeff{LONG}\r\n12\r\n{ENGLISH}\r\n",
        b=f"{OTHER}\n{LONG.upper()}\nSalve, é.\n".encode("utf-16"),
        c="Œuvre é\n".encode("windows-1252"),
    )
    (source / "d.txt.gz").write_bytes(gzip.compress(b"Compressa.\n"))
    (source / "page.html").write_text("<p>", encoding="utf-8")
    report = clean_folder(source, tmp_path / "out", CleanConfig("la", "windows-1252", 0))
    assert trained(tmp_path / "out") == [LONG, "", OTHER, "Salve, é.", "", "Œuvre é", "", "Compressa.", "", ""]
    encodings = {"a.txt": "utf-8", "b.txt": "utf-16", "c.txt": "windows-1252", "d.txt.gz": "utf-8"}
    assert [(file.name, file.encoding) for file in report.files] == list(encodings.items())
    for what, where in {
        "paragraphs that stand twice": "b.txt, line 2",
        "page numbers and lone numerals": "a.txt, line 2",
        "paragraphs in another language (en)": "a.txt, line 3",
        "files that are no text": "page.html",
    }.items():
        assert report.removed[what] == {"count": 1, "first": [where]}
    written = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert written["words"] == report.words == {"heldout.txt": 0, "train.txt": 34}
    assert not (tmp_path / "out" / "heldout.txt").exists()


def test_whole_files_are_held_out_and_not_trained_on(tmp_path: Path) -> None:
    texts = {f"t{number}": f"Textus numero {number * 'm'} scriptus est hoc loco a nobis.\n" for number in range(20)}
    source = folder_of(tmp_path / "in", **texts)
    (source / "shared.txt").write_text("".join(texts.values()) + LONG, encoding="utf-8")
    config = CleanConfig(heldout=0.1, seed=3)
    report = clean_folder(source, tmp_path / "out", config)
    held = (tmp_path / "out" / "heldout.txt").read_text(encoding="utf-8").split("\n\n")[:-1]
    assert 0 < len(held) < 6
    assert all(f"{text}\n" in texts.values() for text in held)
    assert not set(held) & set(trained(tmp_path / "out"))
    assert LONG in trained(tmp_path / "out")
    again = clean_folder(source, tmp_path / "again", config)
    assert again.files == report.files
    other = clean_folder(source, tmp_path / "other", CleanConfig(heldout=0.1, seed=4))
    assert other.files != report.files


@pytest.mark.parametrize(("raw", "word"), [(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "PDF"), (b"{\\rtf1 Rain.}", "RTF")])
def test_a_document_is_not_cleaned(tmp_path: Path, raw: bytes, word: str) -> None:
    source = folder_of(tmp_path / "in", a=f"{LONG}\n", b=raw)
    with refused("b.txt", word):
        clean_folder(source, tmp_path / "out", ALL)


def test_texts_behind_links_are_read_once(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", a=f"{LONG}\n")
    elsewhere = folder_of(tmp_path / "elsewhere", b=f"{OTHER}\n")
    link(source / "books", elsewhere)
    link(source / "same", elsewhere)
    link(elsewhere / "back", source)
    report = clean_folder(source, tmp_path / "out", ALL)
    assert [file.name for file in report.files] == ["a.txt", "books/b.txt"]


def test_the_output_is_behind_no_link_of_the_input(tmp_path: Path) -> None:
    """It would be read as text the next time, or be replaced."""
    source = folder_of(tmp_path / "in", a=f"{LONG}\n")
    elsewhere = folder_of(tmp_path / "elsewhere", train=f"{OTHER}\n")
    link(source / "books", elsewhere)
    for output in (elsewhere, elsewhere / "out", tmp_path / "in" / "books" / "out"):
        with refused(output, "elsewhere"):
            clean_folder(source, output, ALL, overwrite=True)
    assert [file.name for file in elsewhere.iterdir()] == ["train.txt"]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch) -> None:
    """Its texts would be missing. The superuser reads every folder, so the system's answer is put in."""
    source = folder_of(tmp_path / "in", a=f"{LONG}\n")
    closed = folder_of(source / "closed", b=f"{OTHER}\n")

    def scan(path: str, scandir=os.scandir):
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(PermissionError, match="closed"):
        clean_folder(source, tmp_path / "out", ALL)
    assert not (tmp_path / "out").exists()


def test_a_text_that_stands_twice_is_kept_once_and_named(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", a=f"{LONG}\n", b=f"{LONG}\n", c=f"{OTHER}\n")
    with pytest.warns(IrregularInput, match=r"b\.txt.*a\.txt"):
        report = clean_folder(source, tmp_path / "out", ALL)
    assert trained(tmp_path / "out") == [LONG, "", OTHER, "", ""]
    assert report.files[1].part == "the same as a.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("error", IrregularInput)
        with pytest.raises(InputError, match=r"b\.txt"):
            clean_folder(source, tmp_path / "strict", ALL)
    assert not (tmp_path / "strict").exists()


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path: Path, monkeypatch) -> None:
    source = folder_of(tmp_path / "in", a=LONG, b="caf\xe9 et th\xe9\n".encode("latin-1"))
    folder_of(tmp_path / "pages", a=LONG, b="17\n")
    folder_of(tmp_path / "alone", a=LONG)
    monkeypatch.chdir(tmp_path)
    for arguments, said in {
        "in out": "b.txt: line 1 is not UTF-8; --encoding windows-1252",
        "in out --encoding utf-7x": "'utf-7x' is not known",
        "in out --encoding ascii": "neither UTF-8 nor ascii",
        "in out --language qq": "language 'qq': spaCy",
        "in in/out": "is in the input",
        "in . --overwrite": "is also the input",
        "in/a.txt out": "is no folder",
        "in out --heldout-share 1.5": "heldout is 1.5",
        "in": "missing",
        "pages out": "b.txt; --seed",
        "alone out": "alone; --heldout-share 0",
    }.items():
        refusal(run("text", *arguments.split()), *said.split("; "))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["alone", "in", "pages"]
    assert sorted(entry.name for entry in source.iterdir()) == ["a.txt", "b.txt"]


def test_the_command_says_what_it_removed(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", a=f"{LONG}\n12\n{ENGLISH}\n", b=f"{LONG}\n{OTHER}\n")
    said = printed("text", source, "--output", tmp_path / "out", "--language", "la", "--heldout-share", "0")
    assert "a.txt, line 2" in said
    assert "twice" in said
    assert "heldout.txt" not in said  # nothing is held out
    assert run("text", source, tmp_path / "out", "--heldout-share", "0").returncode == 2
    again = printed("text", source, tmp_path / "out", "--heldout-share", "0", "--overwrite", "--json")
    assert json.loads(again)["words"]["train.txt"] > 0
