"""Reads and writes `index.json`, which records what an index was built from, and how far its build got."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from elmo import config as configs
from elmo.disk.files import write_run_file
from elmo.embedding.embedder import StatePolicy
from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig

VERSION = "2"
RECORD = "index.json"


@dataclass(frozen=True)
class IndexRecord:
    """The content of `index.json`: what an index was built from, and how far the build got."""

    bilm: dict
    """The biLM's card (`elmo.formats.opened.OpenedModel.card`): its name, and the hash of everything it depends on."""
    texts: tuple[str, ...]
    fingerprint: str
    """The fingerprint of the texts; see `elmo.text.corpus.corpus_fingerprint`."""
    layers: tuple[int, ...]
    """The layers in ascending order; 0 is the word without context."""
    tokenizer: TextConfig = field(default_factory=TextConfig)
    dtype: Literal["float16", "float32"] = "float16"
    limit: int | None = None
    """The number of tokens after which indexing stops, at the end of the sentence."""
    state: StatePolicy = "reset"
    """The LSTM state at the start of a sentence."""
    version: str = VERSION
    sentences: int = 0
    tokens: int = 0


def write_record(folder: Path, record: IndexRecord) -> None:
    """Writes the record of an index, or replaces it."""
    write_run_file(folder / RECORD, configs.to_json(record).encode())


def read_record(folder: Path) -> IndexRecord:
    """Reads the record of an index. Raises InputError if there is none, or one of another version, or a damaged one."""
    file = folder / RECORD
    if not file.is_file():
        raise InputError(f"{folder}: not an index (no {RECORD}); build one with elmo index TEXT --output {folder}")
    try:
        values = configs.load_json(file)
        version = values["version"]
        if version != VERSION:
            raise InputError(
                f"{file}: version {version}; this program reads {VERSION}; build the index again, with --overwrite"
            )
        record = configs.from_dict(IndexRecord, values)
        _ = record.bilm["sha256"], record.bilm["model"], record.layers[0]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, InputError) and not isinstance(error, configs.ConfigError):
            raise
        raise InputError(f"{file}: damaged ({error}); build the index again") from error
    return record
