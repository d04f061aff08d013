"""`elmo probe wsd` on senses that are planted, against a brute force, and killed in the middle."""

import json
import lzma
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typechecker
from command import Command, printed, run
from refusals import refusal, refused
from tiny import forgetful_embedder, tiny_model, write_tiny
from written_vectors import Written

from elmo.config import ConfigError, from_dict, load_toml
from elmo.disk.files import is_unfinished
from elmo.disk.lock import LOCK, locked
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo_lab import RECIPES, record
from elmo_lab.probes import wsd
from elmo_lab.probes import wsd_readers as readers
from elmo_lab.probes.probe import Context
from elmo_lab.probes.wsd_means import CHECKPOINT, Senses, sense_sums
from elmo_lab.probes.wsd_readers import Instance, LabelledSentence, Sentence
from elmo_lab.probes.wsd_vectors import NOTHING, instance_vectors, sentence_batches

WEIGHTS = np.array([0.5, 0.5])


class Streamed(Written):
    """Vectors from a function; three sentences are read ahead."""

    n_layers: Any = 2
    dim: Any = 2
    state = "reset"
    words: Any = SimpleNamespace(clear=lambda: None)

    def chunks(self, items: Iterator[Any], tokens: Any = None) -> Iterator[list[Any]]:
        while chunk := [item for _, item in zip(range(3), items, strict=False)]:
            yield chunk

    def embed_items(self, items: Iterable[Any], tokens: Any, layers: Any = "all", pool: Any = None) -> Iterator[Any]:
        items = list(items)
        return zip(items, self.embed_stream(list(map(tokens, items)), layers, pool), strict=True)


def labelled(text: str, *instances: tuple[str, str, str], pos: str = "NOUN") -> LabelledSentence:
    """A sentence; of an instance the token, the lemma and the gold keys."""
    tokens = tuple(text.split())
    found = [
        Instance(f"{text}.{token}", lemma, pos, tokens.index(token), tokens.index(token) + 1, 1)
        for token, lemma, _ in instances
    ]
    return LabelledSentence(Sentence(tokens, tuple(found)), tuple(tuple(keys.split()) for _, _, keys in instances))


def counted(corpus: Sequence[LabelledSentence]) -> Senses:
    senses = Senses()
    for each in corpus:
        senses.add(each)
    return senses


def rows_of(
    embedder: Any,
    corpus: list[LabelledSentence],
    tests: dict[str, list[LabelledSentence]],
    inventory: Any,
    **options: Any,
):
    senses = counted(corpus)
    totals = sense_sums(embedder, corpus, senses)
    return wsd.score(embedder, tests, senses, totals, inventory, WEIGHTS, **options)


def muddy(token: str, sentence: Sequence[str]) -> list[float]:
    return [1.0, 0.1] if "muddy" in sentence else [0.1, 1.0]


CORPUS = [
    labelled("the rich bank", ("bank", "bank", "money")),
    labelled("a rich bank", ("bank", "bank", "money")),
    labelled("nothing to see"),
    labelled("the muddy bank", ("bank", "bank", "river")),
    labelled("a muddy bank and reeds", ("bank", "bank", "river slope"), ("reeds", "reed", "plant")),
]
TESTS = {
    "wet": [
        labelled("that muddy bank", ("bank", "bank", "river")),
        labelled("one muddy bank", ("bank", "bank", "shore slope river")),
        labelled("muddy oar", ("oar", "oar", "tool")),
    ],
    "dry": [
        labelled("that rich bank", ("bank", "bank", "money")),
        labelled("one elm", ("elm", "elm", "tree")),
        labelled("one bank", ("bank", "bank", "river")),
    ],
}
INVENTORY = {("oar", "NOUN"): "tool", ("bank", "NOUN"): "slope"}


def test_a_layer_that_sees_the_context_finds_the_sense_and_one_that_does_not_takes_the_usual_one() -> None:
    blind, seeing, mix, usual = rows_of(Streamed(muddy), CORPUS, TESTS, INVENTORY, choose="wet")
    assert [row.layer for row in (blind, seeing, mix, usual)] == ["0", "1", "mix", "mfs"]
    # "money" comes first of the two that come twice; "oar" is backed off; "elm" has no answer
    assert blind.f1 == usual.f1 == {"wet": pytest.approx(100 / 3), "dry": pytest.approx(100 / 3)}
    assert seeing.f1 == mix.f1 == {"wet": 100.0, "dry": pytest.approx(100 / 3)}
    assert seeing.all == pytest.approx(400 / 6)
    assert [row.chosen for row in (blind, seeing, mix, usual)] == [False, True, False, False]
    assert (usual.instances, usual.backed_off, usual.unanswered) == (6, 2, 1)


def test_the_layer_is_chosen_on_the_set_that_is_named_and_is_a_layer() -> None:
    """Layer 1 is right on the larger set, layer 0 on the one that chooses; the mix is right on both."""
    tests = {"few": TESTS["wet"][:1], "many": [TESTS["dry"][0]] * 5}
    river, money = np.array([1.0, 0.1]), np.array([0.1, 1.0])

    class Divided(Streamed):
        """The mix follows the longer vector, which here is that of the right layer."""

        def written(self, sentences: Sequence[Sequence[str]], layers: Any = "all") -> list[np.ndarray]:
            layers_of = {"that muddy bank": (9 * river, money), "that rich bank": (river, 9 * money)}
            for sentence in sentences:
                sense = np.array(muddy("", sentence))
                found = layers_of.get(" ".join(sentence), (sense, sense))
                yield np.array(found, np.float32)[:, None].repeat(len(sentence), axis=1)

    first, second, mix, _ = rows_of(Divided(muddy), CORPUS, tests, INVENTORY, choose="few")
    assert (first.f1, second.f1) == ({"few": 100.0, "many": 0.0}, {"few": 0.0, "many": 100.0})
    assert mix.f1 == {"few": 100.0, "many": 100.0}
    assert [row.chosen for row in (first, second, mix)] == [True, False, False]


def test_the_set_that_chooses_is_left_out_of_the_others_and_of_the_differences() -> None:
    """Drawing sentences, the layer that sees is better on the wet ones alone."""
    blind, seeing, mix, usual = rows_of(Streamed(muddy), CORPUS, TESTS, INVENTORY, choose="dry")
    assert blind.others == pytest.approx(100 / 3)
    assert seeing.others == mix.others == 100.0
    assert seeing.all == pytest.approx(400 / 6)
    value, low, high = seeing.differences["0"]
    assert value == pytest.approx(200 / 3)
    assert 0 <= low < value < high <= 100
    assert seeing.differences["mix"] == (0.0, 0.0, 0.0)
    assert set(blind.differences) == {"1", "mix", "mfs"}
    assert not usual.differences, "which would differ from model to model"
    for row in rows_of(Streamed(muddy), CORPUS, TESTS, INVENTORY):
        assert row.others == row.all


def test_only_senses_of_the_same_lemma_and_part_of_speech_compete() -> None:
    verb = labelled("they rich bank", ("bank", "bank", "trust"), pos="VERB")
    tests = {"t": [labelled("the muddy bank", ("bank", "bank", "trust"), pos="VERB")]}
    *_, mix, usual = rows_of(Streamed(muddy), [*CORPUS, verb], tests, INVENTORY)
    assert mix.all == usual.all == 100.0


def draw_corpus(rng: np.random.Generator, count: int) -> list[LabelledSentence]:
    corpus = []
    for number in range(count):
        tokens = tuple(rng.choice(list("abcdefgh"), size=rng.integers(1, 9)))
        places = [place for place in range(len(tokens)) if rng.random() < 0.5]
        instances = [Instance(f"{number}.{p}", tokens[p], "X", p, min(p + 2, len(tokens)), 1) for p in places]
        keys = [tuple(dict.fromkeys(rng.choice(list("KLMN"), size=rng.integers(1, 3)).tolist())) for _ in places]
        corpus.append(LabelledSentence(Sentence(tokens, tuple(instances)), tuple(keys)))
    return corpus


def brute_force(
    embedder: Embedder, train: list[LabelledSentence], test: list[LabelledSentence], layers: list[Any]
) -> list[float]:
    """All vectors at once, one layer after the other."""

    def instances(corpus: list[LabelledSentence], layer: Any) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
        arrays = embedder.embed([each.sentence.tokens for each in corpus], layer)
        return [
            (instance.lemma, keys, array[instance.begin : instance.end].astype(np.float64).mean(0))
            for each, array in zip(corpus, arrays, strict=True)
            for instance, keys in zip(each.sentence.instances, each.keys, strict=True)
        ]

    scores = []
    for layer in layers:
        known, right, asked = instances(train, layer), 0, instances(test, layer)
        for lemma, gold, vector in asked:
            senses = Counter(key for word, keys, _ in known if word == lemma for key in keys)
            cosine = {}
            for key, _ in senses.most_common():  # of equally near senses the usual one
                mean = np.mean([v for word, keys, v in known if word == lemma and key in keys], axis=0)
                cosine[key] = round(mean @ vector / np.linalg.norm(mean) / np.linalg.norm(vector), 6)
            right += max(cosine, key=cosine.__getitem__) in gold if cosine else "K" in gold
        scores.append(100 * right / len(asked))
    return scores


def test_agrees_with_brute_force() -> None:
    rng = np.random.default_rng(0)
    train, test = draw_corpus(rng, 60), draw_corpus(rng, 40)
    embedder = Embedder(tiny_model().bilm(), batch_tokens=16)
    senses, weights = counted(train), np.array([0.2, 0.5, 0.3])
    totals = sense_sums(embedder, train, senses)
    inventory = {(word, "X"): "K" for word in "abcdefgh"}
    told: list[int] = []
    rows = wsd.score(embedder, {"t": test}, senses, totals, inventory, weights, progress=told.append)
    assert told == sorted(set(told))
    assert told[-1] == sum(bool(labelled.keys) for labelled in test)
    twin = brute_force(embedder, train, test, [0, 1, 2, weights.tolist()])
    assert [row.all for row in rows[:4]] == pytest.approx(twin)
    assert len(set(twin)) > 1


def test_with_carry_every_text_is_read_on_from_nothing_remembered() -> None:
    rng = np.random.default_rng(3)
    texts = [
        [replace(each, sentence=replace(each.sentence, text=number)) for each in draw_corpus(rng, count)]
        for number, count in enumerate((3, 1, 6, 2, 5), 1)
    ]
    corpus = [each for text in texts for each in text]
    alone = Embedder(tiny_model().bilm(), state="carry", batch_size=1)
    expected = {
        id(instance): array[:, instance.begin : instance.end].mean(axis=1)
        for text in texts
        for each, array in zip(text, alone.embed([each.sentence.tokens for each in text]), strict=True)
        for instance in each.sentence.instances
    }
    embedder = Embedder(tiny_model().bilm(), state="carry", batch_size=2)
    read = list(sentence_batches(embedder, corpus))
    whole = [[labelled for labelled in chunk if labelled is not NOTHING] for chunk in read]
    assert [len(chunk) for chunk in whole] == [4, 8, 5]  # two texts at a time
    found = {id(instance): vector for chunk in read for instance, _, vector in instance_vectors(embedder, chunk)}
    assert set(found) == set(expected)
    for name, vector in found.items():
        np.testing.assert_allclose(vector, expected[name], rtol=0, atol=1e-6)
    apart = Embedder(tiny_model().bilm())
    vectors = (each for chunk in sentence_batches(apart, corpus) for each in instance_vectors(apart, chunk))
    assert max(np.abs(vector - expected[id(instance)]).max() for instance, _, vector in vectors) > 1e-4


def test_with_carry_texts_without_an_instance_add_nothing() -> None:
    texts = (labelled("the rich bank", ("bank", "bank", "money")), labelled("nothing to see"))
    corpus = [replace(each, sentence=replace(each.sentence, text=number)) for number, each in enumerate(texts, 1)]
    embedder = Embedder(tiny_model().bilm(), state="carry", batch_size=1)  # so each text is a chunk
    senses = counted(corpus)
    np.testing.assert_array_equal(sense_sums(embedder, corpus, senses), sense_sums(embedder, corpus[:1], senses))


# Files


def write(folder: Path, name: str, body: str, keys: str) -> Path:
    path = folder / f"{name}.data.xml"
    path.write_text(f'<?xml version="1.0" encoding="UTF-8" ?>\n<corpus>\n{body}\n</corpus>\n', encoding="utf-8")
    path.with_name(f"{name}.gold.key.txt").write_text(keys, encoding="utf-8")
    return path


def as_xml(name: str, corpus: Sequence[LabelledSentence]) -> tuple[str, str]:
    """The body of a file and its keys; every instance is one token."""
    lines: list[str] = []
    keys: list[str] = []
    for each in corpus:
        lines.append(f'<sentence id="{name}">')
        marked = {at.begin: (at, gold) for at, gold in zip(each.sentence.instances, each.keys, strict=True)}
        for place, token in enumerate(each.sentence.tokens):
            if place in marked:
                at, gold = marked[place]
                named = f'id="{name}.{len(keys)}" lemma="{at.lemma}" pos="{at.pos}"'
                lines.append(f"<instance {named}>{token}</instance>")
                keys.append(f"{name}.{len(keys)} {' '.join(gold)}\n")
            else:
                lines.append(f'<wf lemma="{token}" pos="X">{token}</wf>')
        lines.append("</sentence>")
    return "\n".join(lines), "".join(keys)


def test_reads_words_entities_and_instances_of_several_tokens(tmp_path: Path) -> None:
    body = """<text id="d0"><sentence id="d0.s0">
    <instance id="i1" lemma="group" pos="NOUN">Fulton County_Grand  Jury</instance>
    <wf lemma="&apos;" pos="VERB">&apos;s</wf><wf lemma="_" pos=".">_</wf>
    <instance id="i2" lemma="be" pos="VERB">been</instance></sentence><sentence/></text>"""
    path = write(tmp_path, "a", body, "i2 be%1\ni1 group%1 group%2 group%1\n")
    first, empty = readers.read_labelled(path)
    assert first.sentence.tokens == ("Fulton", "County", "Grand", "Jury", "'s", "_", "been")
    assert [(i.begin, i.end, i.line) for i in first.sentence.instances] == [(0, 4, 4), (6, 7, 6)]
    assert first.keys == (("group%1", "group%2"), ("be%1",))
    assert empty == LabelledSentence(Sentence((), (), 1), ())
    packed = tmp_path / "b.data.xml.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    (tmp_path / "b.gold.key.txt.xz").write_bytes(lzma.compress((tmp_path / "a.gold.key.txt").read_bytes()))
    assert list(readers.read_labelled(packed)) == [first, empty]
    assert list(readers.read_labelled(packed, limit=1)) == [first]


def test_words_have_the_spelling_of_raw_text(tmp_path: Path) -> None:
    """The escapes of treebanks keep an instance's place: one token stays one token."""
    body = """<sentence><wf>``</wf><wf>-LRB-</wf><instance id="i" lemma="yes" pos="X">and\\/or</instance>
    <wf>-RRB-</wf><wf>''</wf></sentence>"""
    (read,) = readers.read_labelled(write(tmp_path, "a", body, "i yes%1\n"))
    assert read.sentence.tokens == ('"', "(", "and/or", ")", '"')
    assert [(i.begin, i.end) for i in read.sentence.instances] == [(2, 3)]


WORD = '<instance id="i" lemma="l" pos="X">w</instance>'


@pytest.mark.parametrize(
    ("body", "keys", "said"),
    [
        (f"<sentence>{WORD}</sentence>", "", "a.data.xml; line 3; 'i'; a.gold.key.txt"),
        (f"<sentence>{WORD}</sentence>", "i k\n\nj k\n", "a.gold.key.txt; line 3; 'j'"),
        (f"<sentence>{WORD}\n{WORD}</sentence>", "i k\n", "line 4; 'i'"),
        (f"<sentence>{WORD}</sentence>", "i k\ni l\n", "key.txt; line 2; 'i'; line 1"),
        (f"<sentence>{WORD}</sentence>", "i\n", "key.txt; line 1; 1 is 'i'"),
        (WORD, "i k\n", "line 3; <instance>"),
        ('<sentence>\n<instance id="i" pos="X">w</instance></sentence>', "i k\n", "line 4"),
        ("<sentence><wf> </wf></sentence>", "", "line 3; empty; <wf>"),
        ("<sentence><wf>a<b/></wf></sentence>", "", "line 3; <b>; <wf>"),
        ("<sentence><sentence/></sentence>", "", "<sentence>"),
        ("<sentence>stray</sentence>", "", "line 3; text 'stray'"),
        ("<sentence>\n<wf>a</sentence>", "", "line 4; XML"),
        (f"<sentence>{WORD}</sentence><sentence>", "i k\n", "XML"),  # the file was cut
        ("<sentence><wf>&bomb;</wf></sentence>", "", "line 3; XML"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, body: str, keys: str, said: str) -> None:
    with refused(*said.split("; ")):
        list(readers.read_labelled(write(tmp_path, "a", body, keys)))


def test_a_doctype_is_refused_before_its_entities_are_read(tmp_path: Path) -> None:
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    path = tmp_path / "a.data.xml"
    path.write_text(f'<!DOCTYPE c [<!ENTITY a0 "ha">{bomb}]><c><sentence><wf>&a11;</wf></sentence></c>')
    (tmp_path / "a.gold.key.txt").touch()
    with refused("line 1", "DOCTYPE"):
        list(readers.read_labelled(path))


def test_inventory_is_the_first_sense(tmp_path: Path) -> None:
    path = tmp_path / "inventory.tsv"
    path.write_text("bank\tNOUN\tb1 b2\nbank\tVERB\tb3\nbank\tNOUN\tb4\n")
    assert readers.read_inventory(path) == {("bank", "NOUN"): "b1", ("bank", "VERB"): "b3"}
    path.write_text("bank\tNOUN\tb1 b2\nbank VERB b3\n")
    with refused("inventory.tsv", "line 2", "'bank VERB b3'", "lemma"):
        readers.read_inventory(path)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tests": ()}, "empty"),
        ({"tests": ("a.xml",)}, "NAME.data.xml"),
        ({"tests": ("x/a.data.xml", "y/a.data.xml.xz")}, "same; name"),
        ({"tests": ("a.data.xml",), "choose": "b"}, "choose is 'b'"),
        ({"tests": ("a.data.xml",), "limit": 0}, "limit is 0"),
    ],
)
def test_settings_that_cannot_be_used(values: dict[str, Any], said: str) -> None:
    with refused(*said.split("; "), error=(ConfigError, InputError)):
        wsd.WsdConfig("t.data.xml", **values)


def test_recipe_is_a_configuration() -> None:
    recipe = from_dict(wsd.WsdConfig, load_toml(RECIPES / "probes" / "wsd.toml"))
    assert len(recipe.tests) == 5
    assert recipe.choose == "semeval2007"


# The command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and a corpus of many chunks."""
    folder, rng = tmp_path_factory.mktemp("wsd"), np.random.default_rng(1)
    write_tiny(folder / "bilm")
    write(folder, "train", *as_xml("train", draw_corpus(rng, 700)))
    write(folder, "first", *as_xml("first", draw_corpus(rng, 20)))
    write(folder, "second", *as_xml("second", draw_corpus(rng, 10)))
    (folder / "inventory.tsv").write_text("a\tX\tK L\n")
    (folder / "wsd.toml").write_text(
        'train = "train.data.xml"\ntests = ["first.data.xml", "second.data.xml"]\ninventory = "inventory.tsv"\n'
        'choose = "first"\nbatch_tokens = 8\n'
    )
    return folder


def wsd_command(data: Path) -> tuple[object, ...]:
    return ("probe", "wsd", data / "wsd.toml", "--data", data, "--model", data / "bilm", "--quiet")


def test_a_killed_run_goes_on_to_the_rows_of_one_that_was_not(data: Path, tmp_path: Path) -> None:
    arguments = (*wsd_command(data), "checkpoint_minutes=0")
    shown = printed(*arguments, "--output", tmp_path / "plain", "--json")
    assert [json.loads(line)["layer"] for line in shown.splitlines()] == ["0", "1", "2", "mix", "mfs"]
    folder = tmp_path / "run"
    command = Command(*arguments, "--output", folder)
    while not (folder / CHECKPOINT).is_file() and command.process.is_alive():
        time.sleep(0.005)
    command.kill()
    assert [path.name for path in folder.iterdir() if not is_unfinished(path) and path.name != LOCK] == [CHECKPOINT]

    refusal(run(*arguments, "--output", folder), "--resume")
    refusal(run(*arguments, "--output", folder, "--resume", "limit=9"), CHECKPOINT, "limit", "9", "--overwrite")
    shutil.copytree(folder, tmp_path / "anew")
    printed(*arguments, "--output", tmp_path / "anew", "--overwrite", "limit=9")
    printed(*arguments, "--output", folder, "--resume")
    assert record.read(folder).rows == record.read(tmp_path / "plain").rows
    assert [path.name for path in folder.iterdir()] == ["record.json"]
    refusal(run(*arguments, "--output", folder, "--resume"), "finished")


def test_sums_belong_to_what_was_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content of the corpus and of its keys, the model, and the tokens of a batch."""
    kept = []
    monkeypatch.setattr(
        wsd, "sense_sums", lambda *given: kept.append(given[4]) or np.zeros((len(given[2].counts), 3, 8))
    )
    monkeypatch.setattr(wsd, "score", lambda *given: [])
    own = Path(shutil.copytree(data, tmp_path / "own"))
    config = wsd.WsdConfig(str(own / "train.data.xml"), (str(own / "first.data.xml"),), model=str(own / "bilm"))
    wsd.disambiguate(config, Context())
    wsd.disambiguate(replace(config, batch_tokens=9), Context())
    for name, end in (("train.data.xml", "\n\n"), ("train.gold.key.txt", " another\n")):
        file = own / name
        file.write_text(file.read_text(encoding="utf-8").replace("\n", end, 1), encoding="utf-8")
        wsd.disambiguate(config, Context())
    first, *others = kept
    changed = [{key for key in first if first[key] != other[key]} for other in others]
    of_train, of_keys = "train's content", "its keys' content"
    assert changed == [{"batch_tokens"}, {of_train}, {of_train, of_keys}]


class BrokenError(Exception):
    """The machine goes down."""


def test_sums_after_every_break_are_those_of_one_run(tmp_path: Path) -> None:
    """Bit for bit, wherever it is cut and though the table of known words is emptied now and then."""

    def embedder() -> Embedder:
        return forgetful_embedder(6, batch_tokens=8)

    corpus = draw_corpus(np.random.default_rng(2), 120)
    senses, file = counted(corpus), tmp_path / "run" / CHECKPOINT
    whole = sense_sums(embedder(), corpus, senses)

    def until(stop: int) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            assert total == senses.sentences
            if done >= stop:
                raise BrokenError

        return progress

    for stop in (1, 30, 31, 70):
        with pytest.raises(BrokenError):
            sense_sums(embedder(), corpus, senses, file, {"a": [1]}, minutes=0.0, progress=until(stop))
    with refused("[1]", "[2]"):
        sense_sums(embedder(), corpus, senses, file, {"a": (2,)})
    resumed = sense_sums(embedder(), corpus, senses, file, {"a": (1,)})
    assert resumed.tobytes() == whole.tobytes()
    assert sense_sums(embedder(), corpus, senses, file, {"a": (1,)}).tobytes() == whole.tobytes()  # nothing left to do
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match="damaged"):
        sense_sums(embedder(), corpus, senses, file, {"a": (1,)})


def test_command_prints_a_table_and_refuses_what_is_there(data: Path, tmp_path: Path) -> None:
    arguments = (*wsd_command(data), "limit=50")
    shown = printed(*arguments, "--output", tmp_path)
    head, *lines = shown.splitlines()
    assert head.split() == ["layer", "first", "second", "ALL", "ALL1", "chosen"]
    assert sum("*" in line for line in lines) == 1
    (said,) = (line for line in lines if "is the best on first" in line)
    assert " on ALL1;" in said
    assert " to " in said.partition("points against")[2]
    refusal(run(*arguments, "--output", tmp_path), "--overwrite")
    assert run(*arguments, "--output", tmp_path, "--overwrite").returncode == 0
    assert (record.read(tmp_path).bilm or {})["model"] == str(data / "bilm")
    for setting, said in (("mix=[1.0]", "mix has 1 weights"), ("train=no.data.xml", "no.data.xml: no such file")):
        refusal(run(*arguments, setting), said)
    refusal(run(*arguments, "state=carry"), "train.data.xml", "<text>")  # these files have none
    refusal(run(*arguments, "--resume"), "--output")


def test_two_commands_do_not_write_to_one_folder(data: Path, tmp_path: Path) -> None:
    """They would remove each other's sums."""
    (tmp_path / CHECKPOINT).touch()
    with locked(tmp_path / LOCK):
        for option in ("--overwrite", "--resume"):
            refusal(run(*wsd_command(data), "--output", tmp_path, option), "another process", "wait")
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_data_of_ones_own_need_no_inventory_of_the_recipe(data: Path) -> None:
    """Nor is a layer chosen on a test set that is not there; what is given is used."""
    given = ("probe", "wsd", "--data", data, "--model", data / "bilm", "--quiet", "limit=50", "train=train.data.xml")
    own = (*given, 'tests=["second.data.xml"]')
    shown = printed(*own)
    assert "chosen" not in shown.splitlines()[0]
    assert "is the best on" not in shown
    chosen = run(*own, "choose=second", "inventory=inventory.tsv")
    assert "is the best on second;" in chosen.stdout, chosen.stderr
    assert chosen.stdout.splitlines()[0].split() == ["layer", "second", "ALL", "chosen"], "nothing is left for ALL0"
    assert run(*wsd_command(data), "limit=50", "inventory=none", "choose=none").returncode == 0
    # The test sets of the recipe go with its inventory.
    refusal(run(*given, "limit=50"), "senseval2.data.xml.xz")


def test_most_frequent_sense_has_the_published_score(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raganato et al. (2017), Table 2."""
    monkeypatch.setattr(typechecker, "CHECKED", -1)  # a million small calls are not to be checked
    config = from_dict(wsd.WsdConfig, load_toml(RECIPES / "probes" / "wsd.toml") | {"data": str(shared)})
    senses = wsd.count_senses(shared / config.train)
    inventory = readers.read_inventory(shared / (config.inventory or ""))
    together = {"ALL": list(readers.read_labelled(shared / "wsd" / "ALL.data.xml.xz"))}
    row, all_in_one = (wsd.baseline(tests, senses, inventory) for tests in (wsd.read_tests(config), together))
    assert {name: round(f1, 1) for name, f1 in row.f1.items()} == {
        "senseval2": 66.6, "senseval3": 65.4, "semeval2007": 56.3, "semeval2013": 62.9, "semeval2015": 67.3,
    }  # fmt: skip
    assert (round(row.all, 1), row.instances, row.unanswered) == (64.9, 7253, 13)
    assert all_in_one.all == row.all
