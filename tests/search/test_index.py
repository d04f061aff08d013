"""The index of occurrences against brute force, on vectors that are drawn from the words of each sentence."""

import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run
from lancedb.query import LanceVectorQueryBuilder
from refusals import names, refused
from tiny import write_tiny

from elmo.cli import main
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.search import index, index_tables, nearest
from elmo.search.index import Index, IndexRecord, Query
from elmo.text import corpus
from elmo.text.corpus_records import CorpusRecords
from elmo.text.records import Place
from elmo.text.tokenizer import TextConfig, Tokenizer

CARD = {"model": "planted", "sha256": "5e" * 32}
RECORD = IndexRecord(CARD, ("planted.txt",), "0", (0, 1))


class Planted(Embedder):
    """Layer 0 is the word's; layer 1 is near one of many centres, which the first word of the sentence says."""

    n_layers, dim = 2, 16  # type: ignore[assignment]

    def __init__(self, noise: float = 0.5) -> None:
        self.noise = noise
        self.sentences = 0

    def embed_stream(self, sentences: Iterable[Sequence[str]], *options: Any) -> Iterator[np.ndarray]:
        for sentence in sentences:
            self.sentences += 1
            words = np.stack([drawn(token) for token in sentence])
            noise = np.random.default_rng(zlib.crc32(" ".join(sentence).encode())).normal(size=words.shape)
            yield np.stack([words, drawn(f"centre {sentence[0]}") + self.noise * noise]).astype(np.float32)

    def embed(self, sentences: Sequence[Sequence[str]], *options: Any, **more: Any) -> list[np.ndarray]:
        return list(self.embed_stream(sentences))


@cache
def drawn(name: str) -> np.ndarray:
    """The same for the same name."""
    return np.random.default_rng(zlib.crc32(name.encode())).normal(size=Planted.dim)


def text(sentences: int, topics: int = 7, words: int = 5, length: int = 8) -> list[list[str]]:
    """Sentences that begin with their topic; no two are the same."""
    draw = np.random.default_rng(3)
    numbers = draw.integers(words, size=(sentences, length))
    return [[f"t{n % topics}", f"n{n}", *(f"w{word}" for word in row)] for n, row in enumerate(numbers)]


def brute(
    sentences: list[list[str]], query: Query, layer: int, k: int, same_word: bool
) -> dict[tuple[int, int], float]:
    """The places of the nearest tokens, nearest first, and their cosines, by the definition on the numbers as kept."""
    vectors = np.concatenate([array[layer] for array in Planted().embed(sentences)]).astype(np.float16).astype(float)
    places = [(s, t) for s, sentence in enumerate(sentences) for t in range(len(sentence))]
    cosines = vectors @ query.vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query.vector)
    word = query.sentence[query.index]
    allowed = [
        i
        for i, (s, t) in enumerate(places)
        if (not same_word or sentences[s][t] == word) and (tuple(sentences[s]), t) != (query.sentence, query.index)
    ]
    return {places[i]: cosines[i] for i in sorted(allowed, key=lambda i: -cosines[i])[:k]}


def places(found: Iterable[nearest.Neighbor]) -> list[tuple[int, int]]:
    return [(neighbor.sentence_index, neighbor.token_index) for neighbor in found]


def query_of(sentence: Sequence[str], place: int, layer: int = 1) -> Query:
    return Query(tuple(sentence), place, Planted().embed([sentence])[0][layer, place])


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "index"
    index.build_index(Planted(), text(60), folder, RECORD)
    return folder


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    """One to be damaged."""
    return Path(shutil.copytree(small, tmp_path / "copy"))


@pytest.mark.parametrize("same_word", [True, False])
def test_small_index_gives_what_brute_force_gives(small, same_word):
    opened, sentences = Index(small), text(60)
    for sentence, place in ((sentences[3], 4), (sentences[59], 0), (["t1", "w2", "new"], 1)):
        query = query_of(sentence, place)
        found, best = opened.nearest(query, 1, 10, same_word), brute(sentences, query, 1, 10, same_word)
        assert places(found) == list(best)
        assert [neighbor.similarity for neighbor in found] == pytest.approx(list(best.values()), abs=1e-6)
        assert [list(neighbor.sentence) for neighbor in found] == [sentences[n.sentence_index] for n in found]


def test_graph_finds_nine_of_ten(tmp_path, monkeypatch):
    monkeypatch.setattr(index_tables, "EXACT_MOST", 1000)
    monkeypatch.setattr(index_tables, "PARTITION", 3000)
    sentences = text(1000, topics=40, words=4)
    index.build_index(Planted(), sentences, tmp_path / "index", replace(RECORD, layers=(1,)))
    opened = Index(tmp_path / "index")
    made = list((tmp_path / "index" / "occurrences.lance" / "_indices").iterdir())
    assert len(made) == 2, "a graph takes long: it is made once"
    shares = []
    for number in range(0, 1000, 50):
        query, same_word = query_of(sentences[number], 4), number % 100 == 0
        best = brute(sentences, query, 1, 10, same_word)
        assert places(opened.nearest(query, 1, 10, same_word, exact=True)) == list(best)
        shares.append(len(best.keys() & set(places(opened.nearest(query, 1, 10, same_word)))) / 10)
    assert np.mean(shares) >= 0.9


def test_where_the_graph_gives_up_every_candidate_is_compared(tmp_path, monkeypatch):
    """As it does among many copies of a sentence, whose tokens all have the same vector."""
    sentences = [["t1", "w2"]] * 300 + text(20)
    index.build_index(Planted(), sentences, tmp_path / "index", RECORD)
    opened, limit = Index(tmp_path / "index"), LanceVectorQueryBuilder.limit
    approximate = set()

    def refine(query: LanceVectorQueryBuilder, _: int) -> LanceVectorQueryBuilder:
        approximate.add(query)
        return query.bypass_vector_index()

    monkeypatch.setattr(index_tables, "EXACT_MOST", 10)
    monkeypatch.setattr(LanceVectorQueryBuilder, "refine_factor", refine)
    monkeypatch.setattr(
        LanceVectorQueryBuilder, "limit", lambda query, most: limit(query, 3 if query in approximate else most)
    )
    query = query_of(sentences[0], 1)
    found = opened.nearest(query, 1, 5)
    assert len(found) == 5
    assert approximate
    assert found == opened.nearest(query, 1, 5, exact=True)


def test_equal_vectors_come_in_the_order_of_the_text(tmp_path):
    index.build_index(Planted(), [[f"n{n}", "bank"] for n in range(40)], str(tmp_path / "index"), RECORD)
    found = Index(tmp_path / "index").nearest(query_of(["new", "bank"], 1, 0), 0, 40)
    assert places(found) == [(n, 1) for n in range(40)]


def test_occurrences_come_in_the_order_of_the_text(small):
    sentences = text(60)
    found, count = Index(small).occurrences("w2", 1, 5)
    expected = nearest.find_occurrences(sentences, "w2")
    assert count == len(expected)
    assert Index(small).uses("w2", 1000) == ([(tuple(sentences[s]), t, Place()) for s, t in expected], count)
    expected = [expected[number * count // 5] for number in range(5)]  # evenly over the text
    assert Index(small).uses("w2", 5) == ([(tuple(sentences[s]), t, Place()) for s, t in expected], count)
    assert [(list(query.sentence), query.index) for query in found] == [(sentences[s], t) for s, t in expected]
    kept = [Planted().embed([sentences[s]])[0][1, t].astype(np.float16) for s, t in expected]
    np.testing.assert_array_equal(np.stack([query.vector for query in found]), np.stack(kept).astype(np.float32))
    assert Index(small).occurrences("missing", 1) == ([], 0)


RAW = [
    "\ufeff  The  bank   by the river. A bank lent money.  It was old.",
    "",
    "\u201cThe bank!\u201d she said\t\u2014 the bank, the BANK and bank\u2019s bank.",
    "\U0001f986 bank \u00e9\u0301 bank",
]
"""Lines with a mark, spaces, quotes and characters of several bytes."""


@pytest.mark.parametrize("config", [TextConfig(), TextConfig("whitespace", "line"), TextConfig(sentences="line")])
@pytest.mark.parametrize("most", [65_536, 24])
def test_hits_map_back_to_files_lines_and_characters(tmp_path, config, most, monkeypatch):
    """Every token of two files, in the order of the text, by its place alone; also in lines that are read in parts."""
    monkeypatch.setattr(corpus.placed_lines, "__defaults__", (most, False))
    files = [tmp_path / "a.txt", tmp_path / "caf\u00e9.txt"]
    files[0].write_text("\n".join(RAW), encoding="utf-8")
    files[1].write_bytes("\r\n".join(RAW[2:]).encode())
    record = replace(RECORD, layers=(1,))
    records = CorpusRecords(files, Tokenizer(config))
    made = index.build_index(Planted(), records, tmp_path / "index", record)
    assert records.total(made.tokens) == made.tokens, "all is read"
    lines = {str(file): file.read_text(encoding="utf-8-sig").split("\n") for file in files}
    opened = Index(tmp_path / "index")
    query = Query(("a", "query"), 0, np.ones(Planted.dim))
    found = sorted(
        opened.nearest(query, 1, 200, same_word=False), key=lambda each: (each.sentence_index, each.token_index)
    )
    assert len(found) == made.tokens > 40
    for each in found:
        line = lines[each.place.file][each.place.line - 1]
        assert line[each.place.start : each.place.end] == each.sentence[each.token_index]
    order = [(str(each.place.file), each.place.line, each.place.start) for each in found]
    assert order == sorted(set(order))
    left = {(name, number): list(line) for name, each in lines.items() for number, line in enumerate(each, 1)}
    for each in found:
        start, end = each.place.start, each.place.end
        left[each.place.file, each.place.line][start:end] = " " * (end - start)
    assert not "".join(map("".join, left.values())).strip(), "only spaces are in no token"
    uses, count = opened.uses("bank", 100)
    places = {place for _, _, place in uses}
    assert len(places) == count == len([each for each in found if each.sentence[each.token_index] == "bank"])
    assert places == {query.place for query in opened.occurrences("bank", 1)[0]}
    ((exact,),) = nearest.search(
        Planted(), CorpusRecords(files, Tokenizer(config)), [(("a", "query"), 0)], [1], 200, False
    )
    assert {each.place for each in exact.neighbors} == {each.place for each in found}


@pytest.mark.skipif(sys.platform != "linux", reason="only here a name may be any bytes")
def test_a_file_may_have_any_name(tmp_path):
    file = tmp_path / "caf\udce9.txt"
    file.write_text("a bank\n", encoding="utf-8")
    records = CorpusRecords([file], Tokenizer(TextConfig("whitespace", "line")))
    index.build_index(Planted(), records, tmp_path / "index", RECORD)
    ((_, _, place),), _ = Index(tmp_path / "index").uses("bank", 1)
    assert place == Place(str(file), 1, 2, 6)


def test_words_may_hold_any_character(tmp_path):
    words = ["'", "''", '"', "a'b", "\\", "don\\'t", "\\''", "\\' OR true) --", "%", "_", "--", "ä", "🦆", "`x`", "\t"]
    index.build_index(Planted(), [["t", word] for word in words], tmp_path / "index", RECORD)
    opened = Index(tmp_path / "index")
    for number, word in enumerate(words):
        found, count = opened.occurrences(word, 0)
        assert (count, found[0].sentence) == (1, ("t", word))
        assert places(opened.nearest(query_of(["s", word], 1), 1, 3)) == [(number, 1)]
    vector = np.ones(Planted.dim)
    assert opened.occurrences("\ud800", 0) == ([], 0)  # a lone surrogate, which no file of text has
    assert opened.nearest(Query(("\ud800",), 0, vector), 1) == []
    assert len(opened.nearest(Query(("\ud800",), 0, vector), 1, 3, same_word=False)) == 3


@pytest.mark.parametrize("same_word", [True, False])
def test_query_is_left_out_however_often_it_stands_in_the_text(tmp_path, monkeypatch, same_word):
    """Its copies are not read, which would take memory for each."""
    sentences = [["t", "bank"]] * 300 + [["u", "bank"], ["v", "bank"]]
    index.build_index(Planted(), sentences, tmp_path / "index", RECORD)
    opened, to_arrow, read = Index(tmp_path / "index"), LanceVectorQueryBuilder.to_arrow, []
    monkeypatch.setattr(
        LanceVectorQueryBuilder, "to_arrow", lambda *given: (read.append(to_arrow(*given)), read[-1])[1]
    )
    query = query_of(["t", "bank"], 1)
    assert places(opened.nearest(query, 1, 2, same_word)) == list(brute(sentences, query, 1, 2, same_word))
    assert sum(map(len, read)) < 50


def test_limit_ends_with_a_whole_sentence(tmp_path):
    record = index.build_index(Planted(), [["a", "b"], [], ["c", "d"], ["e"]], tmp_path / "i", replace(RECORD, limit=3))
    assert (record.sentences, record.tokens) == (2, 4)
    assert Index(tmp_path / "i").record == record


@pytest.mark.parametrize("during", ["record", "tables", "training", "moving"])
def test_broken_build_goes_on(tmp_path, monkeypatch, during):
    """It ends before a chunk is in the record, between the two tables, or when all is written, graphs and all."""
    monkeypatch.setattr(index, "CHUNK_TOKENS", 100)
    sentences, output = text(60), tmp_path / "index"
    home, breaking = {
        "record": (index, "write_record"),
        "tables": (index_tables, "rows_of"),
        "training": (index_tables, "train"),
        "moving": (index, "place_output"),
    }[during]
    working = getattr(home, breaking)
    calls = []

    def broken(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == (1 if during in ("training", "moving") else 3):
            if during == "tables":
                return working(*arguments)[0], "no table"
            if during == "training":
                working(*arguments)
            raise KeyboardInterrupt
        return working(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(home, breaking, broken)
        with pytest.raises((KeyboardInterrupt, InputError)):
            index.build_index(Planted(), sentences, output, RECORD)
    assert not output.exists()
    with refused("add --resume"):
        index.build_index(Planted(), sentences, output, RECORD)
    with refused("dtype", "'float16'", "'float32'"):
        index.build_index(Planted(), sentences, output, replace(RECORD, dtype="float32"), resume=True)
    shutil.copytree(tmp_path / "index.part", tmp_path / "anew.part")
    index.build_index(Planted(), text(5), tmp_path / "anew", RECORD, overwrite=True)
    assert Index(tmp_path / "anew").record.sentences == 5
    embedder = Planted()
    record = index.build_index(embedder, sentences, output, RECORD, resume=True)
    assert embedder.sentences == {"record": 50, "tables": 40, "training": 0, "moving": 0}[during]
    assert (record.sentences, record.tokens) == (60, 600)
    assert {path.name for path in tmp_path.iterdir()} == {"index", "anew"}
    query = query_of(sentences[3], 4)
    assert places(Index(output).nearest(query, 1, 50, False)) == list(brute(sentences, query, 1, 50, False))


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_two_builds_of_one_index_do_not_mix(tmp_path, monkeypatch, options):
    monkeypatch.setattr(index, "CHUNK_TOKENS", 100)
    sentences, output = text(60), tmp_path / "index"

    def begin_another(tokens: int) -> None:
        with refused("building", "wait"):
            index.build_index(Planted(), sentences, output, RECORD, **options)

    index.build_index(Planted(), sentences, output, RECORD, progress=begin_another)
    assert Index(output).record.tokens == 600
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_build_that_could_not_write_at_all_begins_anew(tmp_path):
    (tmp_path / "index.part").mkdir()
    (tmp_path / "index.part" / f".{index.RECORD}.0.partial").touch()  # as a kill leaves it
    assert index.build_index(Planted(), text(5), tmp_path / "index", RECORD, resume=True).sentences == 5


def test_overwriting_spares_what_is_no_index(tmp_path):
    mine = tmp_path / "index.part" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    with refused("thesis.txt", error=FileExistsError):
        index.build_index(Planted(), text(5), tmp_path / "index", RECORD, overwrite=True)
    assert mine.read_text() == "mine"


def test_existing_output_is_kept_or_replaced(copy):
    before = (copy / index.RECORD).read_bytes()
    with pytest.raises(FileExistsError):
        index.build_index(Planted(), text(5), copy, RECORD)
    assert (copy / index.RECORD).read_bytes() == before
    index.build_index(Planted(), text(5), copy, RECORD, overwrite=True)
    assert Index(copy).record.sentences == 5


@pytest.mark.skipif(sys.platform != "linux", reason="only here a name may be any bytes")
def test_a_name_that_lancedb_cannot_have_is_refused_at_once(copy, monkeypatch):
    name = copy.with_name("caf\udce9")
    with refused("UTF-8", "output"):
        index.build_index(Planted(), text(5), name, RECORD)
    for other in ("a\nb", "a\tb", "a\x7fb"):
        with refused("control character", "another output"):
            index.build_index(Planted(), text(5), copy.with_name(other), RECORD)
    assert list(copy.parent.iterdir()) == [copy]
    with refused("UTF-8", "rename"):
        Index(copy.rename(name))
    monkeypatch.chdir(copy.parent)
    assert Index(name.rename("a:b")).occurrences("w0", 1)[1] > 1  # no address, where it is relative


def test_text_that_is_refused_before_a_chunk_is_whole_leaves_nothing(tmp_path):
    """Else the next text would be refused as another than the one that was begun with."""
    with refused("planted.txt", "sentences"):
        index.build_index(Planted(), [[]], tmp_path / "index", RECORD)

    def damaged() -> Iterator[list[str]]:
        yield ["oak"]
        raise InputError("t.txt: line 2 is not UTF-8")

    with refused("UTF-8"):
        index.build_index(Planted(), damaged(), tmp_path / "index", RECORD)
    assert not list(tmp_path.iterdir())
    with refused("--dtype float32"):
        index.build_index(Planted(noise=1e6), text(5), tmp_path / "index", RECORD)


def cut(folder: Path, pattern: str) -> None:
    for file in folder.glob(pattern):
        os.truncate(file, file.stat().st_size // 2)


def remove(folder: Path, pattern: str) -> None:
    for path in list(folder.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def say(folder: Path, **values: Any) -> None:
    file = folder / index.RECORD
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: remove(folder, "*"), "index"),
        (lambda folder: cut(folder, "index.json"), "damaged"),
        (lambda folder: say(folder, layers="all"), "damaged"),
        (lambda folder: say(folder, bilm={}), "damaged"),
        (lambda folder: say(folder, version="1"), "version 1; 2; build the index again"),
        (lambda folder: say(folder, tokens=7), "600 tokens; index.json; 7"),
        (lambda folder: remove(folder, "occurrences.lance"), "damaged"),
        (lambda folder: remove(folder, "sentences.lance/data"), "damaged"),
        (lambda folder: cut(folder, "*/_versions/*.manifest"), "damaged"),
        (lambda folder: cut(folder, "*/data/*.lance"), "damaged"),
    ],
)
def test_damaged_index_is_one_line(copy, damage, said):
    damage(copy)
    with refused(copy, *said.split("; ")):
        Index(copy).nearest(query_of(["t1", "w2"], 1), 1, 3)


def test_what_is_not_there_is_refused(small):
    opened = Index(small)
    assert (opened.layer(), opened.layer(-1), opened.layer(0)) == (1, 1, 0)
    with refused("layer is 2", "0, 1"):
        opened.layer(2)
    with refused("k is 0"):
        opened.nearest(query_of(["t1", "w2"], 1), 1, 0)
    opened.check_model({"model": "the same", "sha256": CARD["sha256"]})
    with refused("5e5e5e5e5e5e", "ffff"):
        opened.check_model({"model": "other", "sha256": "ff" * 32})
    assert index.layers_of(Planted(), [-1, 0, 1]) == (0, 1)
    with refused("layer is 2", "0 to 1"):
        index.layers_of(Planted(), [2])


def test_without_the_extra_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with refused("pip install", "[index]"):
        index.build_index(Planted(), text(2), tmp_path / "index", RECORD)
    assert not list(tmp_path.iterdir())


TEXT = "He sat by the bank .\nThe bank lent money .\nA muddy bank .\nRivers run .\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """What the command made of a text with a model of a few numbers, and both."""
    folder = tmp_path_factory.mktemp("made")
    write_tiny(folder / "model")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    flags = ("--model", folder / "model", "--pretokenized", "--dtype", "float32", "--layer", 0, -1)
    for name, more in (("index", ()), ("echo", ("--state", "echo"))):
        done = run("index", folder / "text.txt", "--output", folder / name, *flags, *more)
        assert (done.returncode, done.stderr) == (0, "")
        assert "18 tokens of 4 sentences, layers 0, 2, float32" in done.stdout
    return folder


@pytest.fixture
def here(capsys) -> Callable[..., tuple[object, list[str]]]:
    """Runs a command in this process, which is faster; its exit code, and the lines of its output or else its error."""

    def run_here(*arguments: object) -> tuple[object, list[str]]:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        out, err = capsys.readouterr()
        return ended.value.code, (out or err).splitlines()

    return run_here


@pytest.mark.parametrize("name", ["index", "echo"])
def test_command_answers_as_without_an_index(made, name, here):
    """A word, whose vectors are in the index; and a sentence, for which the index names the model."""

    def asked(*arguments: object) -> list[dict[str, Any]]:
        code, lines = here("neighbors", *arguments, "--json")
        assert code == 0
        return [json.loads(line) for line in lines]

    where = ["--text", made / "text.txt", "--pretokenized", "--model", made / "model"]
    where += ["--state", "echo"] if name == "echo" else []
    for question in (("bank", "--layer", 0), ("the muddy bank", "--word", "bank", "--any-word")):
        exact, found = asked(*question, *where), asked(*question, "--index", made / name)
        assert exact
        assert {line["layer"] for line in exact} == {0 if "--layer" in question else 2}
        assert [{**line, "similarity": 0} for line in found] == [{**line, "similarity": 0} for line in exact]
        assert [line["similarity"] for line in found] == pytest.approx([line["similarity"] for line in exact], abs=1e-5)


def test_a_model_that_is_not_found_from_here_is_to_be_named(made, tmp_path, here, monkeypatch):
    """The index names its model by a relative path, and the command runs in another folder."""
    monkeypatch.chdir(made)
    texts = ("text.txt", "--pretokenized", "--output", tmp_path / "index", "--model", "model", "--quiet")
    assert here("index", *texts)[0] == 0
    monkeypatch.chdir(tmp_path)
    code, said = here("neighbors", "the muddy bank", "--word", "bank", "--index", "index")
    assert code == 2
    for word in ("index", "model", "--model"):
        assert word in said[-1]


def test_commands_read_sentences_by_their_kind(made, tmp_path, here):
    """The numbers, comments and tags of CoNLL-U are no words."""
    file, index = tmp_path / "text.conllu", tmp_path / "index"
    file.write_text("# text = bank note\n1\tbank\t_\n2\tnote\t_\n\n1\tbank\t_\n2\ta lot\t_\n", encoding="utf-8")
    (tmp_path / "text.conll").touch()
    model = ("--model", made / "model", "--quiet")
    code, said = here("index", file, made / "text.txt", "--pretokenized", "--output", index, *model)
    assert (code, said) == (0, [f"{index}: 22 tokens of 6 sentences, layers 2, float16"])
    flags = ("bank", "--any-word", "-k", 1)
    for where in (("--index", index), ("--text", file, *model)):
        assert f"[bank] note  ({file})" in here("neighbors", *flags, *where)[1]
        for spaced in (("a lot", "-k", 1), ("He has a lot", "--word", "a lot", "-k", 1)):
            code, said = here("neighbors", *spaced, *where)
            assert (code, said[0]) == (0, "a lot, by layer 2:")
            assert said[1] == ("He has [a lot]" if "--word" in spaced else f"bank [a lot]  ({file})")
    no, conll = ("--output", tmp_path / "no"), tmp_path / "text.conll"
    for command, word in (
        (("index", conll, *no), ".conll files have different formats"),
        (("neighbors", *flags, "--text", conll), ".conll files have different formats"),
        (("index", made / "text.txt", *no, "--max-words", 0), "--max-words is 0; at least 1"),
    ):
        code, said = here(*command, *model)
        assert code == 2
        names("\n".join(said), *word.split("; "))


def test_command_shows_static_vectors_beside(made, here):
    vectors = made / "vectors.txt"
    vectors.write_text("bank 1 0\nshore 3 1\nloan 1 -0.1\ncat 0 1\n", encoding="utf-8")
    _, lines = here("neighbors", "bank", "--index", made / "index", "-k", 2, "--queries", 1, "--vectors", vectors)
    assert lines[:2] == ["bank, by static vectors:", "    loan 0.995, shore 0.949"]
    assert lines[2:4] == ["bank, by layer 2:", f"He sat by the [bank] .  ({made / 'text.txt'}:1:15)"]
    assert lines[-1] == "2 more occurrences of 'bank' are not shown (--queries)"
    assert len(lines) == 7


def test_command_says_where_a_word_has_no_other_occurrence(made, here):
    place = f"({made / 'text.txt'}:1:1)"
    shown = ["He, by layer 0:", f"[He] sat by the bank .  {place}", "    (no other occurrence)"]
    text = ("--text", made / "text.txt", "--pretokenized", "--model", made / "model", "--quiet")
    for where in (("--index", made / "index"), text):
        assert here("neighbors", "He", *where, "--layer", 0) == (0, shown)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("bank", "--index", "nowhere"), "no index"),
        (("bank", "--index", "index", "--text", "text.txt"), "give one of them"),
        (("shore", "--index", "index"), "'shore' does not occur"),
        (("bank", "--index", "index", "--layer", "1"), "layer is 1; the index has layers 0, 2"),
        (("a bank", "--word", "bank", "--index", "index", "--model", "default"), "was made with a biLM of sha256"),
        (("bank", "--index", "index", "-k", "0"), "-k is 0"),
        (("bank", "--index", "index", "--state", "echo"), "the index has state reset, not echo"),
        (("bank", "--index", "index", "--queries", "0"), "--queries is 0; a whole number"),
        (("bank", "--text", "text.txt", "--queries", "-1"), "--queries is -1; a whole number"),
        (("the bank", "--text", "text.txt"), "'the bank' is a sentence, no token of"),
        (("the bank", "--index", "index"), "add --word WORD"),
    ],
)
def test_command_refuses_in_one_line(made, flags, said, here):
    paths = {name: str(made / name) for name in ("index", "text.txt", "nowhere")}
    code, lines = here("neighbors", *(paths.get(flag, flag) for flag in flags))
    assert code == 2
    names("\n".join(lines), said)


def test_static_neighbors_are_those_of_brute_force(tmp_path, monkeypatch):
    monkeypatch.setattr(nearest, "STATIC_CHUNK", 7)
    vectors = np.random.default_rng(5).normal(size=(50, 6)).round(4)
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"w{n} {' '.join(map(str, row))}\n" for n, row in enumerate(vectors)), encoding="utf-8")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    best = [n for n in np.argsort(-unit @ unit[11]) if n != 11][:5]
    for word in ("w11", "W11"):  # the file is in lower case
        found = nearest.static_neighbors(path, word, 5)
        assert [neighbor.word for neighbor in found] == [f"w{n}" for n in best]
        assert [neighbor.similarity for neighbor in found] == pytest.approx(list(unit[best] @ unit[11]), abs=1e-6)
    assert nearest.static_neighbors(path, "w50") == []
