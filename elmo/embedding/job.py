"""`elmo embed`: a text file -> a file of vectors, in a stream. One line is one sentence is one row."""

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers
from elmo.embedding.store import Dtype, write_vectors
from elmo.errors import InputError
from elmo.text import corpus
from elmo.text.tokenizer import TextConfig, Tokenizer


@dataclass(frozen=True)
class Embedded:
    """What was done."""

    path: Path
    rows: int
    tokens: int


def embed_file(
    embedder: Embedder,
    source: str | Path | Iterable[str],
    output: str | Path,
    layers: Layers = "all",
    tokenizer: Tokenizer | None = None,
    dtype: Dtype = "float32",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Embedded:
    """Writes the vectors of every line of `source` to `output` (.hdf5, .npz or .parquet).

    `source` is a file (also .gz and .xz), "-" for standard input, or the lines. `tokenizer` is that of the model's
    training text by default, and white space where that is not known. `progress` is called with the rows written so
    far. An empty line is a row without tokens.

    Raises InputError (invalid UTF-8, no line at all) and OSError (no such file, the output exists, a full disk); then
    nothing is left behind.
    """
    tokenizer = tokenizer or Tokenizer(embedder.text or TextConfig(tokens="whitespace", sentences="line"))
    waiting: deque[tuple[str, list[str]]] = deque()  # what the embedder has read ahead

    def sentences(lines: Iterable[str]) -> Iterator[list[str]]:
        for line in lines:
            waiting.append((line, tokenizer.tokens(line)))
            yield waiting[-1][1]

    rows = tokens_seen = 0
    with write_vectors(Path(output), dtype, overwrite) as writer:
        lines = source if not isinstance(source, str | Path) else read_lines(source)
        for vectors in embedder.embed_stream(sentences(lines), layers):
            line, tokens = waiting.popleft()
            writer.append(line, tokens, vectors)
            rows, tokens_seen = rows + 1, tokens_seen + len(tokens)
            del line, tokens, vectors  # a long line's are freed before the next are made
            if progress is not None:
                progress(rows)
        if not rows:
            raise InputError(f"{source}: has no line; a sentence a line is expected")
    return Embedded(Path(output), rows, tokens_seen)


def read_lines(source: str | Path) -> Iterator[str]:
    """The lines of a text file, or of standard input for "-", without their ends."""
    if str(source) != "-":
        if Path(source).is_dir():
            raise InputError(f"{source}: is a folder; name one text file (.txt, .gz, .xz), a sentence a line")
        yield from corpus.lines(Path(source), max_characters=sys.maxsize)
        return
    for number in itertools.count(1):
        raw = sys.stdin.buffer.readline()
        if not raw:
            return
        try:
            yield raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise InputError(
                f"standard input: line {number} is not UTF-8 ({error.reason}, byte 0x{byte:02x}); convert it, for"
                " example with `iconv -f latin1 -t utf-8`"
            ) from error
