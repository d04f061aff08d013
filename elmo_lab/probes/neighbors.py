"""Finds the uses of a word that are nearest to a given one, at each layer (Peters et al. 2018, Table 4).

- A query is a word in a sentence. Candidates are the same word's other occurrences in a text, or all of its tokens.
- Besides the layers, the rows have the nearest words by static vectors, which do not depend on a sentence.
- If a neighbour of the query is published, the rows have its rank.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.config import ConfigError, check_sizes
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats.opened import open_model
from elmo.search.nearest import QueryResult, find_token, mark_token, search, static_neighbors
from elmo.text.corpus_records import CorpusRecords
from elmo.text.records import TextRecord, kind_of
from elmo.text.tokenizer import WHITESPACE, TextConfig, Tokenizer, text_of
from elmo_lab import RECIPES
from elmo_lab.document import Block, Text, table
from elmo_lab.probes import wsd_readers
from elmo_lab.probes.blocks import cell
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.record import RunRecord
from elmo_lab.tasks.files import find_file

STATIC = "static"
DEPTH = 1000
"""The number of nearest uses among which a published neighbour is searched for."""


@dataclass(frozen=True)
class NeighborQuery:
    """A word in its sentence."""

    sentence: str
    """The tokens of the sentence, separated by spaces."""
    word: str
    """One of these tokens, which may contain spaces; if it occurs several times, the first one counts."""
    published: str | None = None
    """The sentence of a published neighbour, tokenised as in the text."""

    def __post_init__(self) -> None:
        if find_token(self.sentence, self.word) is None:
            raise ConfigError(f"{self.word!r} is not a token of the query {self.sentence!r}; spaces separate tokens")

    @property
    def place(self) -> tuple[tuple[str, ...], int]:
        """The tokens, and the index of the word."""
        found = find_token(self.sentence, self.word)
        assert found is not None
        return found


@dataclass(frozen=True)
class NeighborsConfig:
    """The queries, and where to search."""

    text: str
    """The file to search: a text (also .gz, .xz, .bz2), CoNLL-U (`.conllu`), FASTA (`.fasta`), or a `NAME.data.xml`."""
    queries: tuple[NeighborQuery, ...]
    """The queries, as tables of `sentence` (its tokens, separated by spaces) and `word`."""
    k: int = 3
    """The number of neighbours of each query at each layer."""
    any_word: bool = False
    """Whether all tokens are candidates, not only the same word."""
    layers: tuple[int, ...] | None = None
    """The layers to search in. By default, these are all but layer 0, whose vector of a word is always the same."""
    vectors: str | None = None
    """A file of static vectors in GloVe's text format."""
    pretokenized: bool = False
    """Whether a line is a sentence, with tokens separated by white space. Otherwise the model's tokenizer splits it."""
    data: str | None = None
    """The folder to look in for files that are not in the current directory."""
    model: str = "default"
    """The biLM: a path or a name, as for `elmo embed`."""
    state: Literal["reset", "echo"] = "reset"
    """The LSTM state at the start of a sentence."""

    def __post_init__(self) -> None:
        if not self.queries:
            raise ConfigError("queries is empty; give one, such as {sentence='They play chess .', word='play'}")
        if self.layers == ():
            raise ConfigError("layers is empty; name at least one, or omit it")
        check_sizes(self, ("k",))


@dataclass(frozen=True)
class NeighborRow:
    """A neighbour of a query."""

    query: str
    """The sentence, with its word in brackets; for static vectors, only the word."""
    layer: str
    """The number of the layer, or `static`."""
    rank: int
    """The place among the neighbours, from 1 (the nearest)."""
    similarity: float
    """The cosine of the two vectors."""
    neighbor: str
    """The sentence, with its word in brackets; for static vectors, a word."""
    sentence_index: int | None
    """The number of the sentence in the text, from 0; None for a static vector."""
    token_index: int | None
    published: bool
    """Whether the neighbour is the published one."""
    candidates: int | None
    """The number of tokens compared; None for static vectors."""


def find_neighbors(config: NeighborsConfig, context: Context) -> list[NeighborRow]:
    """Finds the `k` nearest uses to every query at every layer, and the published one if it is among `DEPTH`.

    The nearest comes first. Static neighbours, once per word, precede all others. Progress counts sentences. Raises
    InputError if text, vectors or settings cannot be used, or if there is nothing to compare.
    """
    text = find_file(config.text, config.data)
    found = static_rows(config, None if config.vectors is None else find_file(config.vectors, config.data))
    source = context.source or open_model(config.model)
    embedder = Embedder.of(source.model, state=config.state)
    searched = sentences(text, config, embedder.text)
    total = searched.total if isinstance(searched, CorpusRecords) else lambda done: None
    return [*found, *rows(embedder, searched, config, lambda done: context.progress(done, total(done)))]


def static_rows(config: NeighborsConfig, path: Path | None) -> list[NeighborRow]:
    """Finds the `k` nearest words to each word of the queries. Raises InputError if a word has no vector."""
    if path is None:
        return []
    rows: list[NeighborRow] = []
    for word in dict.fromkeys(asked.word for asked in config.queries):
        found = static_neighbors(path, word, config.k)
        if not found:
            raise InputError(f"{path}: no vector for {word!r}; give other vectors, or none")
        rows += [
            NeighborRow(word, STATIC, rank, each.similarity, each.word, None, None, False, None)
            for rank, each in enumerate(found, 1)
        ]
    return rows


def sentences(path: Path, config: NeighborsConfig, text: TextConfig | None) -> Iterator[Sequence[str]] | CorpusRecords:
    """Returns the text's sentences; `text` is how the model reads raw text."""
    if wsd_readers.DATA in path.name:
        return (sentence.tokens for sentence in wsd_readers.read_sentences(path))
    own = WHITESPACE if kind_of(path) != "text" else text_of(text, config.pretokenized)  # other kinds have tokens
    return CorpusRecords([path], Tokenizer(own))


def rows(
    embedder: Embedder,
    text: Iterable[Sequence[str] | TextRecord],
    config: NeighborsConfig,
    progress: Callable[[int], object] | None = None,
) -> list[NeighborRow]:
    """Computes the rows of the layers from the text's sentences."""
    layers = tuple(range(1, embedder.n_layers)) if config.layers is None else config.layers
    places = [asked.place for asked in config.queries]
    found = search(embedder, text, places, layers, max(config.k, DEPTH), not config.any_word, progress)
    for asked, each in zip(config.queries, found[0], strict=True):
        if not each.candidates:
            raise InputError(f"{config.text}: no other occurrence of {asked.word!r}, as spelled; give another text")
    return [
        row
        for number, asked in enumerate(config.queries)
        for layer, of_layer in zip(layers, found, strict=True)
        for row in _rows(asked, str(layer % embedder.n_layers), of_layer[number], config.k)
    ]


def _rows(asked: NeighborQuery, layer: str, found: QueryResult, k: int) -> Iterator[NeighborRow]:
    """Yields the rows of the first k neighbours, and of the published one."""
    for rank, each in enumerate(found.neighbors, 1):
        published = asked.published is not None and " ".join(each.sentence).split() == asked.published.split()
        if rank <= k or published:
            neighbor = mark_token(each.sentence, each.token_index)
            place = each.sentence_index, each.token_index
            yield NeighborRow(
                mark_token(*asked.place), layer, rank, each.similarity, neighbor, *place, published, found.candidates
            )


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows every query, with its neighbours below."""
    for query in dict.fromkeys(row["query"] for row in record.rows):
        mine = [row for row in record.rows if row["query"] == query]
        cells = [
            (row["layer"], cell(row["rank"]), f"{row['similarity']:.3f}", row["neighbor"], cell(row["published"]))
            for row in mine
        ]
        yield Text(f"Nearest to: {query}")
        yield table(("layer", "rank", "cosine", "nearest", "published"), cells, groups=True)
    counts = [f"{count:,}" for count in dict.fromkeys(row["candidates"] for row in record.rows) if count is not None]
    if counts:
        yield Text(f"Of {' and '.join(counts)} candidates for every query; the published neighbour with its rank.")


PROBE = Probe(
    name="neighbors",
    version="2",
    title="Nearest uses of a word, by layer",
    config=NeighborsConfig,
    run=find_neighbors,
    show=_show,
    recipe=RECIPES / "probes" / "neighbors.toml",
)
