"""`elmo neighbors`, which finds similar uses of a word, and `elmo index`, which stores the vectors of a text."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elmo.cli.arguments import (
    DEMO_TEXT,
    MODEL_HELP,
    add_options,
    add_output,
    add_verb,
    check_splitting,
    print_json,
    take_output,
    tokenizer_of,
)
from elmo.errors import InputError, check_whole, did_you_mean
from elmo.terminal import Counter, print_line

GROUP = "similar uses"


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    about = "find similar uses of a word, at a layer"
    neighbors = add_verb(verbs, "neighbors", neighbors_verb, about, "elmo neighbors play --text text.txt")
    neighbors.add_argument("word", help="a word, or a sentence that contains --word")
    neighbors.add_argument("--word", dest="query", metavar="WORD", help="the word of the sentence to look up")
    add_options(
        neighbors,
        ("--text TEXT", "text to search, or .conllu, .fasta (default: the demo's)"),
        ("--index FOLDER", "search this output of elmo index instead"),
        ("--model MODEL", MODEL_HELP.replace(")", ", or the index's)")),
        ("--layer LAYER", "0 is the word without context, -1 the top layer (default), or the index's highest", -1),
        ("-k N", "neighbours per query (default: 3)", 3),
        ("--any-word", "search all words, not only the same word"),
        ("--queries N", "most occurrences to use, evenly over the text (default: 20)", 20),
        ("--exact", "compare with every candidate in the index"),
        ("--vectors FILE", "static vectors in GloVe's text format: also show their nearest words"),
        ("--state reset|echo", "echo reads every sentence twice (default: reset, or the index's)"),
        ("--figure FILE", "draw the queries in the plane of their vectors: .svg, .png or .pdf"),
        ("--overwrite", "replace the figure if it exists"),
        "--strict",
        "--lines|--pretokenized",
        ("--json", "print JSON lines"),
        "--quiet",
    )

    about = "store the vectors of a text on disk, for elmo neighbors --index"
    index = add_verb(verbs, "index", index_verb, about, "elmo index 'corpus/*.txt' --output index/")
    texts = "texts, .conllu or .fasta (also .gz, .xz, .bz2), or patterns such as 'corpus/*.txt'; last, the output"
    index.add_argument("input", nargs="+", metavar="FILE", help=texts)
    add_output(index, "folder of the index")
    add_options(index, "--model")
    layers = "layers to store (default: the top)"
    index.add_argument("--layer", type=int, nargs="+", default=[-1], metavar="N", help=layers)
    add_options(
        index,
        ("--dtype float16|float32", "type of the stored numbers", "float16"),
        ("--state reset|echo", "echo reads every sentence twice", "reset"),
        ("--max-words N", "words to read, at most; the last sentence is finished"),
        "--strict",
        "--lines|--pretokenized",
        ("--resume", "continue an interrupted build"),
        "--overwrite",
        "--quiet",
    )


def index_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.disk.files import check_output
    from elmo.search import index
    from elmo.text import corpus
    from elmo.text.corpus_records import CorpusRecords
    from elmo.text.records import kind_of
    from elmo.text.tokenizer import WHITESPACE

    take_output(arguments)
    if arguments.max_words is not None:
        check_whole("--max-words", arguments.max_words)
    paths, output = corpus.expand_patterns(arguments.input), Path(arguments.output)
    check_output(output, arguments.overwrite, index.FILES, (*paths, *formats.files_of(arguments.model)))
    kinds = set(map(kind_of, paths))
    check_splitting(arguments, kinds)
    card, embedder = _opened(arguments.model, arguments.state)
    unknown = None if "text" in kinds else WHITESPACE  # only text gets a warning about it
    tokenizer = tokenizer_of(embedder.text or unknown, arguments)
    record = index.IndexRecord(
        card,
        tuple(map(str, paths)),
        corpus.corpus_fingerprint(paths),
        index.layers_of(embedder, arguments.layer),
        tokenizer.config,
        arguments.dtype,
        arguments.max_words,
        arguments.state,
    )
    records = CorpusRecords(paths, tokenizer)
    with Counter("tokens", arguments.quiet) as counter:

        def follow(done: int) -> None:
            total = records.total(done)
            if total is None:  # nothing is read yet
                counter.begin(done)
            else:
                most = arguments.max_words
                counter.update(done, total if most is None else max(done, min(total, most)))

        done = index.build_index(
            embedder, records, output, record, arguments.resume, arguments.overwrite, follow, counter.waiting
        )
    layers = ", ".join(map(str, done.layers))
    print(f"{output}: {done.tokens:,} tokens of {done.sentences:,} sentences, layers {layers}, {done.dtype}")


def neighbors_verb(arguments: argparse.Namespace) -> None:
    from elmo.search import nearest
    from elmo.text.records import kind_of

    check_whole("-k", arguments.k)
    check_whole("--queries", arguments.queries)
    if arguments.index is not None and arguments.text is not None:
        raise InputError("--text and --index both say where to search; give one of them")
    if arguments.query is None:  # the flags also split a sentence that is given with --word
        check_splitting(arguments, ["an index"] if arguments.index else [kind_of(arguments.text or DEMO_TEXT)])
    if arguments.figure is not None:
        _check_figure(arguments)
    uses, found, count, layer, vectors = (_in_text if arguments.index is None else _in_index)(arguments)
    queries = [(sentence, index) for sentence, index, _ in uses]
    if arguments.figure is not None:
        _draw(arguments, queries, vectors(), layer)
    word = arguments.query or arguments.word
    static = []
    if arguments.vectors is not None:
        static = nearest.static_neighbors(Path(arguments.vectors), word, arguments.k)
        if not static:
            print_line(f"{arguments.vectors}: no vector for {word!r}")
    if arguments.json:
        _print_json(word, static, uses, found, layer)
        return
    if static:
        print(f"{word}, by static vectors:")
        print("    " + ", ".join(f"{neighbor.word} {neighbor.similarity:.3f}" for neighbor in static))
    print(f"{word}, by layer {layer}:")
    print_neighbors(queries, found, "token" if arguments.any_word else "occurrence", [place for _, _, place in uses])
    if len(queries) < count:
        print(f"{count - len(queries)} more occurrences of {word!r} are not shown (--queries)")


def _given(arguments: argparse.Namespace, text: Any) -> tuple[tuple[str, ...], int] | None:
    """Returns the tokens of the sentence and the index of --word in it; None if no sentence is given.

    `text` has the settings that split it.
    """
    from elmo.search import nearest
    from elmo.text.tokenizer import WHITESPACE

    if arguments.query is None:
        return None
    return nearest.find_in_text(arguments.word, arguments.query, tokenizer_of(text or WHITESPACE, arguments))


def _check_figure(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.disk.figure import check_path
    from elmo.disk.files import check_output
    from elmo.search.picture import SUFFIXES

    check_path(Path(arguments.figure), SUFFIXES)
    if arguments.query is not None:
        raise InputError(f"--figure draws the uses of a word, and a sentence is one: elmo neighbors {arguments.query}")
    model = () if arguments.model is None else formats.files_of(arguments.model)
    inputs = (arguments.text, arguments.index, arguments.vectors, *model)
    check_output(Path(arguments.figure), arguments.overwrite, inputs=inputs)


def _draw(arguments: argparse.Namespace, queries: Sequence[Any], vectors: Any, layer: int) -> None:
    from elmo.disk.figure import save_figure
    from elmo.search import picture

    if len(queries) < 2:
        raise InputError(f"a figure needs two uses of the word; {len(queries)} is found")
    title = f"{len(queries)} uses of {arguments.query or arguments.word}"
    panels = picture.of_uses(queries, vectors[None], [layer])
    save_figure(picture.draw(panels, title), Path(arguments.figure), picture.SUFFIXES, arguments.overwrite)


def _in_text(arguments: argparse.Namespace) -> tuple[list[Any], list[Any], int, int, Callable[[], Any]]:
    """Embeds a text and finds neighbours in it.

    Returns the queries (sentence, index and place of the token), their neighbours, the number of possible queries, the
    layer, and a function that returns the queries' vectors.
    """
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import FileLines
    from elmo.search import nearest
    from elmo.text.records import Place, kind_of, of_file, read_records

    embedder = Embedder.load(arguments.model, state=arguments.state or "reset")
    given = _given(arguments, embedder.text)
    text = arguments.text or str(DEMO_TEXT)
    kind = kind_of(text)
    tokenizer = tokenizer_of(embedder.text, arguments, pretokenized=arguments.text is None or kind != "text")
    lines, records = FileLines(text), []
    read = read_records(lines, kind, tokenizer, text)
    with Counter("sentences", arguments.quiet, "reading") as counter:
        for record in read if arguments.text is None else of_file(read, text):
            records += [record] if record.tokens else []
            counter.update(len(records), lines.total(len(records)))
    if given is not None:
        queries: list[tuple[Sequence[str], int, Place]] = [(*given, Place())]
    else:
        occurrences = nearest.find_occurrences(records, arguments.word)
        queries = [(records[s].tokens, t, records[s].place(t)) for s, t in occurrences]
    if not queries:
        which = "" if arguments.text else " (the demo's text; name yours with --text or --index)"
        found = {token for record in records for token in record.tokens}
        raise _absent(arguments.word, text, which, did_you_mean(arguments.word, found))
    shown = [queries[number] for number in nearest.even_places(len(queries), arguments.queries)]
    tokens = [(sentence, index) for sentence, index, _ in shown]
    asked = ([arguments.layer], arguments.k, not arguments.any_word)
    with Counter("sentences", arguments.quiet, "searching") as counter:
        counter.update(0, len(records))
        (found,) = nearest.search(embedder, records, tokens, *asked, progress=counter.update)
    neighbors, layer = [each.neighbors for each in found], arguments.layer % embedder.n_layers
    return shown, neighbors, len(queries), layer, lambda: nearest.query_vectors(embedder, tokens, [layer])[0]


def _absent(word: str, where: str, which: str = "", meant: str = "") -> InputError:
    """Returns the error for a word that a text or an index lacks; a word with spaces was meant as a sentence."""
    if len(word.split()) > 1:
        return InputError(f"{word!r} is a sentence, no token of {where}; add --word WORD, the word to look up")
    return InputError(f"{where}: {word!r} does not occur in it{which}; words are matched exactly as spelled{meant}")


def _in_index(arguments: argparse.Namespace) -> tuple[list[Any], list[Any], int, int, Callable[[], Any]]:
    """Returns what `_in_text` returns, from an index; opens a model only for a sentence, or if one is named."""
    import numpy as np

    from elmo.embedding.pooling import unit_vectors
    from elmo.search import nearest
    from elmo.search.index import Index, Query

    index = Index(Path(arguments.index))
    layer, state = index.layer(arguments.layer), index.record.state
    if arguments.state not in (None, state):
        raise InputError(
            f"{arguments.index}: the index has state {state}, not {arguments.state}; omit --state, or build another"
        )
    given, opened = _given(arguments, index.record.tokenizer), None
    if given is not None or arguments.model is not None:
        name = arguments.model or index.record.bilm["model"]
        try:
            card, opened = _opened(name, state)
        except FileNotFoundError as error:
            if arguments.model is not None:
                raise
            raise InputError(f"{arguments.index}: its model, {name}, is not found here; name it as --model") from error
        index.check_model(card)
    if given is not None and opened is not None:
        vector = nearest.query_vectors(opened, [given], [layer])[0, 0]
        queries, count = [Query(*given, vector)], 1
    else:
        queries, count = index.occurrences(arguments.word, layer, arguments.queries)
    if not queries:
        raise _absent(arguments.word, arguments.index)
    same_word = not arguments.any_word
    found = []
    with Counter("queries", arguments.quiet) as counter:
        for number, query in enumerate(queries):
            counter.update(number, len(queries))
            found.append(index.nearest(query, layer, arguments.k, same_word, arguments.exact))
    uses = [(query.sentence, query.index, query.place) for query in queries]
    return uses, found, count, layer, lambda: unit_vectors(np.stack([query.vector for query in queries]))


def _opened(name: str, state: Any) -> tuple[dict[str, Any], Any]:
    """Opens a model; returns its card, with its hash, and its embedder for this state policy."""
    from elmo.embedding.embedder import Embedder
    from elmo.formats.opened import open_model

    source = open_model(name)
    return source.card(), Embedder.of(source.model, state=state, release=True)


def _print_json(word: str, static: Sequence[Any], uses: Sequence[Any], found: Sequence[Any], layer: int) -> None:
    """Prints one line per neighbour: first those by `static` vectors, then those of each query."""
    for neighbor in static:
        print_json({"of": "static", "query": word, **vars(neighbor)})
    for (sentence, index, place), neighbors in zip(uses, found, strict=True):
        asked = {"of": "token", "layer": layer, "query": list(sentence), "query_index": index}
        asked |= {f"query_{name}": value for name, value in vars(place).items()}
        for neighbor in neighbors:
            print_json(asked | neighbor.values())


def print_neighbors(
    queries: Sequence[tuple[Sequence[str], int]],
    found: Sequence[Sequence[Any]],
    what: str = "occurrence",
    places: Sequence[Any] | None = None,
) -> None:
    """Prints each query in its context and, below it, its neighbours, or a line that there is no other `what`.

    Behind each is the place of its token, if it is known; `places` are those of the queries.
    """
    for (sentence, index), neighbors, place in zip(queries, found, places or [""] * len(queries), strict=True):
        print(_placed(sentence, index, place))
        for neighbor in neighbors:
            print(f"    {neighbor.similarity:.3f}  {_placed(neighbor.sentence, neighbor.token_index, neighbor.place)}")
        if not neighbors:
            print(f"    (no other {what})")


def _placed(sentence: Sequence[str], index: int, place: Any) -> str:
    """Returns a token in its context, with its file, line and column."""
    from elmo.search.nearest import in_context

    return in_context(sentence, index) + (f"  ({place})" if str(place) else "")
