"""Where a word is used as it is used here: `elmo neighbors`, and `elmo index`, which keeps the vectors of a text."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo.cli.arguments import DEMO_TEXT, add_model, add_verb, tokenizer_of
from elmo.errors import InputError
from elmo.terminal import Counter


def add_verbs(verbs: Any) -> None:
    """Those of this file."""
    neighbors = add_verb(verbs, "neighbors", neighbors_verb, "occurrences of a word that are used alike, at a layer")
    neighbors.add_argument("word", help="a word, or a sentence (tokens between spaces) that holds --word")
    neighbors.add_argument("--word", dest="query", metavar="WORD", help="the word of the sentence that is meant")
    neighbors.add_argument("--text", help="where to look: a text, one sentence a line (default: the demo's)")
    neighbors.add_argument("--index", metavar="FOLDER", help="where to look instead: what elmo index made")
    neighbors.add_argument("--model", help="a model's folder, file or name (default: the packaged one; the index's)")
    neighbors.add_argument(
        "--layer", type=int, default=-1, help="0 is the word without context, -1 the top (the index's highest)"
    )
    neighbors.add_argument("-k", type=int, default=3, metavar="N", help="how many")
    neighbors.add_argument("--any-word", action="store_true", help="look among all words, not the same word alone")
    neighbors.add_argument("--queries", type=int, default=20, metavar="N", help="occurrences to begin from, at most")
    neighbors.add_argument("--exact", action="store_true", help="compare with every candidate of the index")
    neighbors.add_argument(
        "--vectors", metavar="FILE", help="static vectors (GloVe's text format): show their nearest words as well"
    )
    neighbors.add_argument(
        "--state", choices=["reset", "echo"], help="echo: read every sentence twice (default: reset; the index's)"
    )
    neighbors.add_argument("--pretokenized", action="store_true", help="tokens are separated by white space")
    neighbors.add_argument("--json", action="store_true", help="print JSON lines")

    index = add_verb(verbs, "index", index_verb, "keep the vectors of a text on disk, for elmo neighbors --index")
    index.add_argument("text", nargs="+", help="texts (also .gz, .xz) or patterns of them")
    index.add_argument("--output", required=True, metavar="FOLDER", help="where the index goes")
    add_model(index)
    index.add_argument("--layer", type=int, nargs="+", default=[-1], metavar="N", help="layers (default: the top)")
    index.add_argument(
        "--dtype", choices=["float16", "float32"], default="float16", help="of the numbers that are kept"
    )
    index.add_argument("--state", choices=["reset", "echo"], default="reset", help="echo: read every sentence twice")
    index.add_argument("--limit", type=int, metavar="N", help="tokens, at most (the last sentence is whole)")
    index.add_argument("--pretokenized", action="store_true", help="a sentence a line, tokens between white space")
    index.add_argument("--resume", action="store_true", help="go on with a build that was broken")
    index.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    for parser in (neighbors, index):
        parser.add_argument("--quiet", action="store_true", help="show no progress")


def index_verb(arguments: argparse.Namespace) -> None:
    from elmo.probes import index
    from elmo.text import corpus

    if arguments.limit is not None and arguments.limit < 1:
        raise InputError(f"--limit is {arguments.limit}; at least 1 is expected")
    card, embedder = _opened(arguments.model, arguments.state)
    tokenizer = tokenizer_of(embedder.text, arguments.pretokenized)
    paths = corpus.expand(arguments.text)
    record = index.Record(
        card,
        tuple(map(str, paths)),
        corpus.fingerprint(paths),
        index.layers_of(embedder, arguments.layer),
        tokenizer.config,
        arguments.dtype,
        arguments.limit,
        arguments.state,
    )
    sentences, output = corpus.sentences(paths, tokenizer), Path(arguments.output)
    with Counter("tokens", arguments.quiet) as counter:
        done = index.build(
            embedder, sentences, output, record, arguments.resume, arguments.overwrite, progress=counter.update
        )
    layers = ", ".join(map(str, done.layers))
    print(f"{output}: {done.tokens:,} tokens of {done.sentences:,} sentences, layers {layers}, {done.dtype}")


def neighbors_verb(arguments: argparse.Namespace) -> None:
    from elmo.probes import nearest

    for flag, value in (("-k", arguments.k), ("--queries", arguments.queries)):
        if value < 1:
            raise InputError(f"{flag} is {value}; at least 1 is expected")
    if arguments.index is not None and arguments.text is not None:
        raise InputError("--text and --index say where to look; give one of them")
    given = arguments.word.split()
    if arguments.query is not None and arguments.query not in given:
        raise InputError(f"--word {arguments.query!r} is not a token of {arguments.word!r}")
    if arguments.query is None and len(given) > 1:
        raise InputError(f"{arguments.word!r} is a sentence; add --word WORD, the word of it that is meant")
    queries, found, count, layer = (_in_text if arguments.index is None else _in_index)(arguments, given)
    word = arguments.query or arguments.word
    static = []
    if arguments.vectors is not None:
        static = nearest.static_neighbors(Path(arguments.vectors), word, arguments.k)
        if not static:
            print(f"{arguments.vectors}: {word!r} has no vector in it", file=sys.stderr)
    if arguments.json:
        _print_json(word, static, queries, found, layer)
        return
    if static:
        print(f"{word}, by static vectors:")
        print("    " + ", ".join(f"{neighbor.word} {neighbor.similarity:.3f}" for neighbor in static))
    print(f"{word}, by layer {layer}:")
    print_neighbors(queries, found, "token" if arguments.any_word else "occurrence")
    if len(queries) < count:
        print(f"{count - len(queries)} more occurrences of {word!r} are not shown (--queries)")


def _in_text(arguments: argparse.Namespace, given: Sequence[str]) -> tuple[list[Any], list[Any], int, int]:
    """Queries, their neighbours, how many queries there could be, and the layer: the text is compared anew."""
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import read_lines
    from elmo.probes import nearest

    embedder = Embedder.load(arguments.model, state=arguments.state or "reset")
    tokenizer = tokenizer_of(embedder.text, arguments.pretokenized or arguments.text is None)
    text = arguments.text or str(DEMO_TEXT)
    sentences = [tokens for line in read_lines(text) if (tokens := tokenizer.tokens(line))]
    if arguments.query is not None:
        queries: list[tuple[Sequence[str], int]] = [(given, given.index(arguments.query))]
    else:
        queries = [(sentences[s], t) for s, t in nearest.occurrences(sentences, arguments.word)]
    if not queries:
        which = "" if arguments.text else " (the demo's text; --text or --index names yours)"
        raise InputError(
            f"{text}: {arguments.word!r} does not occur in it{which}; words are looked up as they are spelled"
        )
    shown = queries[: arguments.queries]
    asked = ([arguments.layer], arguments.k, not arguments.any_word)
    with Counter("sentences", arguments.quiet) as counter:
        (found,) = nearest.search(embedder, sentences, shown, *asked, progress=counter.update)
    return shown, [each.neighbors for each in found], len(queries), arguments.layer % embedder.n_layers


def _in_index(arguments: argparse.Namespace, given: Sequence[str]) -> tuple[list[Any], list[Any], int, int]:
    """The same from an index; a model is opened only where a sentence is given, or its name."""
    from elmo.probes import nearest
    from elmo.probes.index import Index, Query

    index = Index(Path(arguments.index))
    layer, state = index.layer(arguments.layer), index.record.state
    if arguments.state not in (None, state):
        raise InputError(
            f"{arguments.index}: was made with the state {state}, and {arguments.state} is asked for; leave it out, or"
            " build another index"
        )
    opened = None
    if arguments.query is not None or arguments.model is not None:
        card, opened = _opened(arguments.model or index.record.bilm["model"], state)
        index.check_model(card)
    if arguments.query is not None and opened is not None:
        place = given.index(arguments.query)
        vector = nearest.targets(opened, [(given, place)], [layer])[0, 0]
        queries, count = [Query(tuple(given), place, vector)], 1
    else:
        queries, count = index.occurrences(arguments.word, layer, arguments.queries)
    if not queries:
        raise InputError(
            f"{arguments.index}: {arguments.word!r} does not occur in it; a word is looked up as it is spelled"
        )
    same_word = not arguments.any_word
    found = [index.nearest(query, layer, arguments.k, same_word, arguments.exact) for query in queries]
    return [(query.sentence, query.index) for query in queries], found, count, layer


def _opened(name: str, state: Any) -> tuple[dict[str, Any], Any]:
    """The card of a model, with the hash that it is known by, and its embedder, of this policy of state."""
    from elmo.embedding.embedder import Embedder
    from elmo.tasks.source import open_model

    source = open_model(name)
    card, model = source.card(), source.model
    bilm, text, vocabulary = model.bilm(), model.text, model.inputs
    del source, model  # or they would hold the weights that are released
    return card, Embedder(bilm, text=text, vocabulary=vocabulary, state=state, release=True)


def _print_json(word: str, static: Sequence[Any], queries: Sequence[Any], found: Sequence[Any], layer: int) -> None:
    """A line a neighbour, with what it is one of: `static` vectors of a word, or a `token` in its sentence."""
    for neighbor in static:
        print(json.dumps({"of": "static", "query": word, **vars(neighbor)}, ensure_ascii=False))
    for (sentence, index), neighbors in zip(queries, found, strict=True):
        for neighbor in neighbors:
            asked = {"of": "token", "layer": layer, "query": list(sentence), "query_index": index}
            print(json.dumps(asked | vars(neighbor), ensure_ascii=False))


def print_neighbors(
    queries: Sequence[tuple[Sequence[str], int]], found: Sequence[Sequence[Any]], what: str = "occurrence"
) -> None:
    """Every query, its token between brackets, and below it its neighbours, or that there is no other of `what`."""
    from elmo.probes.nearest import marked

    for (sentence, index), neighbors in zip(queries, found, strict=True):
        print(marked(sentence, index))
        for neighbor in neighbors:
            print(f"    {neighbor.similarity:.3f}  {marked(neighbor.sentence, neighbor.token_index)}")
        if not neighbors:
            print(f"    (no other {what})")
