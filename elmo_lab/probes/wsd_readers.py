"""Reads data for word sense disambiguation: sentences with labelled words, their gold senses, and an inventory.

The files are those of the framework of Raganato et al. (2017), plain, `.gz` or `.xz`:

- `NAME.data.xml`: `<text>` contains `<sentence>`, which contains `<wf>` and `<instance id lemma pos>` for each word
- `NAME.gold.key.txt`: a line has the id of an instance and its sense keys, any of which is correct
- an inventory: a line has a lemma, its part of speech and its sense keys, the most common first, separated by tabs

A word that is written as several ("Fulton County Grand Jury") is split into tokens at white space and underscores.
XML is read as a stream by expat. A DOCTYPE is refused where it begins, so there are no entities to expand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from elmo.errors import InputError
from elmo.text.lines import numbered_lines
from elmo_lab.tasks.treebank import unescaped

DATA, KEYS = ".data.xml", ".gold.key.txt"
COMPRESSED = ("", ".xz", ".gz")
BETWEEN_TOKENS = re.compile(r"[\s_]+")


@dataclass(frozen=True)
class Instance:
    """A word, or several words, with a sense to predict."""

    id: str
    lemma: str
    pos: str
    begin: int
    """The index of the first token."""
    end: int
    """The index after the last token."""
    line: int


@dataclass(frozen=True)
class Sentence:
    """A sentence and its words that have a sense."""

    tokens: tuple[str, ...]
    instances: tuple[Instance, ...]
    text: int = 0
    """The number of the sentence's text: how many `<text>` have begun."""


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with the gold sense keys of every instance."""

    sentence: Sentence
    keys: tuple[tuple[str, ...], ...]


def name_of(path: str | Path) -> str:
    """Returns the name of a data set, which is its file's name before `.data.xml`."""
    name, found, _ = Path(path).name.partition(DATA)
    if not found or not name:
        raise InputError(f"{path}: the name is not of the form NAME{DATA} (.xz, .gz); name such a file")
    return name


def keys_of(path: Path) -> Path:
    """Returns the file of gold keys beside a file of sentences."""
    names = [f"{name_of(path)}{KEYS}{suffix}" for suffix in COMPRESSED]
    for name in names:
        if path.with_name(name).is_file():
            return path.with_name(name)
    raise InputError(f"{path.with_name(names[0])}: no such file, nor {', '.join(names[1:])}; put the gold keys there")


def read_labelled(path: Path, limit: int | None = None) -> Iterator[LabelledSentence]:
    """Yields the sentences of `NAME.data.xml` with the keys beside it, at most `limit` of them.

    Raises InputError with file and line if an instance has no key or occurs twice, if a key has no instance, or if the
    files are invalid. With `limit`, keys may have no instance.
    """
    file = keys_of(path)
    waiting = read_keys(file)
    seen: set[str] = set()
    for number, sentence in enumerate(read_sentences(path)):
        if limit is not None and number >= limit:
            return
        for instance in sentence.instances:
            if instance.id in seen:
                raise InputError(f"{path}: line {instance.line}: duplicate id {instance.id!r}; make the ids unique")
            if instance.id not in waiting:
                raise InputError(f"{path}: line {instance.line}: {instance.id!r} has no line in {file}; add its keys")
            seen.add(instance.id)
        yield LabelledSentence(sentence, tuple(waiting.pop(instance.id)[1] for instance in sentence.instances))
    for name, (line, _) in waiting.items():
        raise InputError(f"{file}: line {line}: instance {name!r} is not in {path}; remove the line")


def read_keys(path: Path) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Returns the line in the file and the sense keys of every instance, by its id."""
    keys: dict[str, tuple[int, tuple[str, ...]]] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        name, *senses = line.split()
        if not senses:
            raise InputError(f"{path}: line {number} is {line[:60]!r}; an id and at least one sense key are expected")
        if name in keys:
            raise InputError(f"{path}: line {number}: {name!r} already has keys in line {keys[name][0]}; keep one line")
        keys[name] = number, tuple(dict.fromkeys(senses))
    return keys


def read_inventory(path: Path) -> dict[tuple[str, str], str]:
    """Reads the first sense of every (lemma, part of speech)."""
    first: dict[tuple[str, str], str] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 3 or not all(column.strip() for column in columns):
            raise InputError(
                f"{path}: line {number} is {line[:60]!r}; a lemma, its part of speech and its sense keys,"
                " separated by tabs, are expected"
            )
        first.setdefault((columns[0], columns[1]), columns[2].split()[0])
    return first


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Yields the sentences of an XML file."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    reader = _Reader(path, parser)
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        for _, line in numbered_lines(path):
            parser.Parse(line + "\n", False)
            yield from reader.take()
        parser.Parse("", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"{path}: line {error.lineno} is not valid XML ({reason}); fix or fetch it again") from error
    yield from reader.take()


@dataclass
class _Reader:
    """The callbacks of the parser, and the state of reading."""

    path: Path
    parser: expat.XMLParserType
    done: list[Sentence] = field(default_factory=list)
    tokens: list[str] | None = None
    """The tokens of the sentence that is being read; None outside a sentence."""
    instances: list[Instance] = field(default_factory=list)
    """The instances of that sentence."""
    word: tuple[str, dict[str, str]] | None = None
    """The name and the attributes of the word that is being read; None outside a word."""
    written: list[str] = field(default_factory=list)
    """The text of that word, in parts."""
    texts: int = 0
    """The number of texts that have begun."""

    def take(self) -> list[Sentence]:
        """Returns the sentences that have ended since the last call."""
        taken, self.done = self.done, []
        return taken

    def doctype(self, *_: object) -> None:
        self._refuse("has a DOCTYPE, which could define entities", "remove it")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self.word is not None:
            self._refuse(f"has <{name}> inside of <{self.word[0]}>", "a word has text alone")
        self.texts += name == "text"
        if name == "sentence":
            if self.tokens is not None:
                self._refuse("has a <sentence> inside of a sentence", "end the first one")
            self.tokens = []
        elif name in ("wf", "instance"):
            if self.tokens is None:
                self._refuse(f"has <{name}> outside of a sentence", "put it into one")
            missing = [key for key in ("id", "lemma", "pos") if name == "instance" and not attributes.get(key)]
            if missing:
                self._refuse(f"has an instance without {' and '.join(missing)}", "an instance has id, lemma and pos")
            self.word = name, attributes

    def text(self, text: str) -> None:
        if self.word is not None:
            self.written.append(text)
        elif self.tokens is not None and text.strip():
            self._refuse(f"has the text {text.strip()[:40]!r} outside a word", "put it into <wf>")

    def end(self, name: str) -> None:
        if name == "sentence":
            self.done.append(Sentence(tuple(self.tokens or ()), tuple(self.instances), self.texts))
            self.tokens, self.instances = None, []
        elif self.word is not None:
            (_, attributes), self.word = self.word, None
            text, self.written = "".join(self.written).strip(), []
            assert self.tokens is not None
            if not text:
                self._refuse(f"has an empty <{name}>", "write the word, or remove it")
            begin = len(self.tokens)
            parts = [part for part in BETWEEN_TOKENS.split(text) if part] or [text]  # a word may be all underscores
            self.tokens += map(unescaped, parts)
            if name == "instance":
                id, lemma, pos = (attributes[key] for key in ("id", "lemma", "pos"))
                self.instances.append(Instance(id, lemma, pos, begin, len(self.tokens), self.parser.CurrentLineNumber))

    def _refuse(self, what: str, remedy: str) -> None:
        raise InputError(f"{self.path}: line {self.parser.CurrentLineNumber} {what}; {remedy}")
