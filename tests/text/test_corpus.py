"""Paragraphs of files: memory, and files that cannot be read."""

import gzip
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from bilm_files import write_zip
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from text_files import many, write

from elmo.errors import IrregularInput
from elmo.text import corpus
from elmo.text.tokenizer import TextConfig, Tokenizer

LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12)
DOCUMENTS = st.lists(st.lists(LINE.map(str.strip).filter(bool), min_size=1, max_size=4), max_size=6)


@given(DOCUMENTS, st.sampled_from(["text.txt", "text.txt.gz", "text.xz", "TEXT.TXT.GZ", "TEXT.XZ", "text.bz2"]))
def test_documents_are_those_of_the_file(tmp_path_factory, documents, name):
    path = write(tmp_path_factory.mktemp("corpus"), documents, name)
    found: list[list[str]] = []
    for line, starts_document in corpus.file_paragraphs(path):
        if starts_document:
            found.append([])
        found[-1].append(line)
    assert found == documents


def test_byte_order_mark_line_ends_and_blank_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeff\r\n  \r\nOne. \r\nTwo.\r\n \t\r\n\r\nThree.".encode())
    assert list(corpus.file_paragraphs(path)) == [("One.", True), ("Two.", False), ("Three.", True)]
    path.write_bytes("\ufeff".encode())
    assert list(corpus.file_paragraphs(path)) == []


PACKED = {".txt": bytes, ".gz": partial(gzip.compress, compresslevel=1), ".xz": partial(lzma.compress, preset=0)}


@pytest.mark.parametrize("suffix", PACKED)
def test_only_a_line_feed_ends_a_line(tmp_path, suffix):
    """As on standard input: a row of vectors is a line that `wc -l` counts."""
    path, text = tmp_path / f"text{suffix}", b"a\rb\r\nc\r\r\nd\x0c\xe2\x80\xa8e\n"
    path.write_bytes(PACKED[suffix](text))
    with pytest.warns(IrregularInput, match="carriage return.*line 1"):
        assert list(corpus.file_lines(path)) == ["a\rb", "c", "d\x0c\u2028e"]


@given(st.lists(st.integers(1, 25), min_size=1, max_size=30), st.integers(4, 40))
def test_a_long_line_is_cut_at_white_space(tmp_path_factory, sizes, limit):
    words = ["w" * size for size in sizes]
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_text(" ".join(words) + "\nend\n")
    *pieces, last = (line for line in corpus.file_lines(path, limit) if line.strip())
    assert last == "end"
    assert all(len(piece) <= 2 * limit for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(words)
    if max(sizes) < limit // 2:
        assert " ".join(pieces).split() == words


def test_a_huge_line_and_a_huge_file_take_little_memory(tmp_path):
    line, spaceless, many_lines = tmp_path / "line.txt.xz", tmp_path / "spaceless.txt", tmp_path / "many.txt.gz"
    line.write_bytes(lzma.compress(b"word " * 600_000, preset=0))
    spaceless.write_bytes(b"x" * 3_000_000)
    many_lines.write_bytes(gzip.compress(b"some words in a line\n" * 50_000, 1))
    tracemalloc.start()
    count = sum(text.count("word ") + 1 for text, _ in corpus.file_paragraphs(line))
    size = sum(len(text) for text, _ in corpus.file_paragraphs(spaceless))
    lines = sum(1 for _ in corpus.file_paragraphs(many_lines))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, size, lines) == (600_000, 3_000_000, 50_000)
    assert peak < 1_000_000, f"{peak:,} bytes"


def test_expand_names_files_once_and_sorted(tmp_path):
    many(tmp_path)
    (tmp_path / "odd[1].txt").write_text("x")
    (tmp_path / "folder.txt").mkdir()
    found = corpus.expand_patterns([f"{tmp_path}/*.txt", tmp_path / "1.txt", f"{tmp_path}/odd[1].txt"])
    assert [path.name for path in found] == ["0.txt", "1.txt", "2.txt", "odd[1].txt"]


@pytest.mark.parametrize(("name", "message"), [("none-*.txt", "matches; file"), (".", "folder")])
def test_expand_says_what_is_missing(tmp_path, name, message):
    with refused("-", "standard input"):
        corpus.expand_patterns(["-"])
    with refused(*message.split("; ")):
        corpus.expand_patterns([f"{tmp_path}/{name}"])
    with refused("text files"):
        corpus.expand_patterns([])


@pytest.mark.parametrize("suffix", [*PACKED, ".GZ"])
@pytest.mark.parametrize("line", [1, 2, 70_000])
def test_invalid_utf8_is_named_with_its_line(tmp_path, suffix, line):
    raw = "früh genug\n".encode() * (line - 1) + b"zu sp\xe4t\n" + b"more\n" * 3
    path = tmp_path / f"latin{suffix}"
    path.write_bytes(PACKED[suffix.lower()](raw))
    with refused(path, f"line {line}", "0xe4", "iconv"):
        list(corpus.file_paragraphs(path))


def test_a_file_that_ends_within_a_character_is_named(tmp_path):
    path = tmp_path / "cut.txt"
    path.write_bytes("one\ncafé".encode()[:-1])
    with refused("line 2", "UTF-8"):
        list(corpus.file_paragraphs(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_a_damaged_file_is_named(tmp_path, suffix):
    whole = write(tmp_path, [[str(i) * 50] for i in range(2000)], f"whole{suffix}").read_bytes()
    cut, text = tmp_path / f"cut{suffix}", tmp_path / f"text{suffix}"
    cut.write_bytes(whole[: len(whole) // 2])
    text.write_bytes(b"not compressed at all\n")
    for path in (cut, text):
        with refused(path, "damaged or incomplete"):
            list(corpus.file_paragraphs(path))


def test_sentences_and_fingerprint(tmp_path):
    path = write(tmp_path, [["a b", "c"], ["d"]])
    tokenizer = Tokenizer(TextConfig("whitespace", "line"))
    assert list(corpus.corpus_sentences([path], tokenizer)) == [["a", "b"], ["c"], ["d"]]
    before = corpus.corpus_fingerprint([path])
    assert corpus.corpus_fingerprint([path]) == before
    renamed = path.rename(tmp_path / "other.txt")
    assert corpus.corpus_fingerprint([renamed]) != before
    renamed.write_text("a b\n")
    assert corpus.corpus_fingerprint([renamed.rename(path)]) != before


def test_fingerprint_sees_another_text_of_the_same_size(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Rain FELL .\n" * 20_000)
    before = corpus.corpus_fingerprint([path])
    for text in ("rain fell .\n" * 20_000, "Rain FELL .\n" * 19_999 + "Rain fell .\n"):
        path.write_text(text)
        assert corpus.corpus_fingerprint([path])[: corpus.HASH] == before[: corpus.HASH]
        assert not corpus.is_fingerprint(before, corpus.corpus_fingerprint([path]))
        assert corpus.is_fingerprint(before[: corpus.HASH], corpus.corpus_fingerprint([path]))  # as without a sample
    many = [path] * corpus.ALL_BLOCKS  # a block of each
    assert corpus.sample_hash(many) != corpus.sample_hash([*many[:-1], write(tmp_path, [["a"]], "other.txt")])


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device of this name")
def test_a_device_is_no_text():
    with refused("/dev/zero", "device"):
        corpus.expand_patterns(["/dev/zero"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be", "utf-32le", "utf-32be"])
@pytest.mark.parametrize("text", ["Leaves fall.\n", "Он ушёл\nдомой\n", "山上一家\n", "上一年中国人口"])
def test_wide_characters_are_recognized_with_and_without_a_mark(tmp_path, encoding, text):
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    with refused(f"iconv -f {encoding} -t utf-8"):
        list(corpus.file_lines(path))


@pytest.mark.parametrize("line", [b"a\0b\n", b"one\0two\n", b"1\0002\n", b"\0a\nb", b"ab\0c\n", b"a\0\0b\n"])
def test_nuls_between_letters_are_not_taken_for_another_encoding(tmp_path, line):
    path = tmp_path / "text.txt"
    path.write_bytes(line * 20)
    with pytest.warns(IrregularInput, match="NUL"):
        assert list(corpus.file_lines(path)) == (line * 20).decode().rstrip("\n").split("\n")


@pytest.mark.skipif(sys.platform == "win32", reason="the command is for the shell of Unix")
@pytest.mark.parametrize("name", ["my text.txt", "dad's.txt"])
def test_a_remedy_is_a_command_that_works(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes("süß, aber schon kalt\n".encode("latin1"))
    with refused("iconv -f windows-1252 -t utf-8") as caught:
        list(corpus.file_lines(Path(name)))
    command = str(caught.value).split("`")[1].replace("NEW", "new.txt")
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    assert list(corpus.file_lines(Path("new.txt"))) == ["süß, aber schon kalt"]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are of Unix")
@pytest.mark.parametrize(
    ("raw", "word"), [(b"caf\xe9\n", "UTF-8"), (gzip.compress(b"a\n", mtime=0), "compressed (.gz)")]
)
def test_a_pipe_is_read_once(tmp_path, raw, word):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert corpus.corpus_fingerprint([pipe])  # reads nothing
    writer = threading.Thread(target=pipe.write_bytes, args=[raw])
    writer.start()
    with refused(pipe, word):
        list(corpus.file_lines(pipe))
    writer.join()


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "PDF"),
        (b"{\\rtf1\\ansi Rain.}", "RTF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "Office"),
        ({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w>Rain.</w>"}, "document"),
        (b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0", "another kind of file"),
    ],
)
def test_what_is_no_text_is_not_to_be_converted(tmp_path, raw, word):
    path = tmp_path / "text"
    if isinstance(raw, bytes):
        path.write_bytes(raw)
    else:
        write_zip(path, raw)
    with refused(path, word, "text") as caught:
        list(corpus.file_lines(path))
    assert "iconv" not in str(caught.value)


@pytest.mark.parametrize("name", ["corpus.txt.zst", "corpus.txt.LZ4"])
def test_other_compression_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"Rain .")
    with refused(name, path.suffix.lower(), ".gz", ".xz", ".bz2"):
        next(corpus.file_lines(path))
