"""Makes a text to train on and a held-out text from a folder of text files, and reports what it removed.

- Every file is decoded or refused: UTF-8, UTF-16 and UTF-32 are known by their bytes, other encodings must be named.
- Page numbers, running heads and lines without letters are removed, and broken lines are joined (`clean_lines`).
- Paragraphs in another language are removed (`clean_languages`).
- A paragraph that occurs twice is kept once. The held-out text is read first, so that it is not trained on.
- Whole files are held out, by a hash of the seed and the file's name.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from elmo.config import SEEDS, check_range, without_nonfinite
from elmo.disk.files import atomic_path, check_output, real_path
from elmo.errors import InputError, IrregularInput
from elmo.text.clean_languages import Languages
from elmo.text.clean_lines import paragraphs_of
from elmo.text.corpus import size_of
from elmo.text.irregular import IrregularPlaces
from elmo.text.opening import COMPRESSED, MARK, decode_text, naming_damage, open_bytes

TRAIN, HELDOUT, REPORT = "train.txt", "heldout.txt", "report.json"
TEXTS = (".txt", ".text")
LONG = 40
"""The fewest letters of a paragraph that is not repeated by chance."""


@dataclass(frozen=True)
class CleanConfig:
    """How the files of a folder are cleaned."""

    language: str | None = None
    """The texts' language, a code of spaCy; paragraphs in another are removed. None keeps all."""
    encoding: str | None = None
    """The encoding of files that are not Unicode, such as "windows-1252". None refuses them."""
    heldout: float = 0.02
    """The share of the text that is held out, at most, in whole files."""
    seed: int = 1
    keep_lines: bool = False
    """Whether every line is a paragraph, as in verse."""

    def __post_init__(self) -> None:
        check_range(self, ("heldout",), 0, 1)
        check_range(self, ("seed",), 0, SEEDS)


@dataclass(frozen=True)
class CleanedFile:
    """A file as it was read, and the part that it went to."""

    name: str
    encoding: str
    part: str
    """`train.txt`, `heldout.txt`, or the reason why the file is in neither."""
    characters: int
    kept: int
    """The number of characters that were kept."""


@dataclass(frozen=True)
class CleanReport:
    """The files of a folder, and what was removed."""

    source: str
    config: CleanConfig
    files: tuple[CleanedFile, ...]
    removed: dict[str, dict[str, int | list[str]]]
    """The number (`count`) of removed places of each kind, and the first of them (`first`)."""
    words: dict[str, int]
    """The number of words of each part, as white space separates them."""


def clean_folder(
    source: str | Path,
    output: str | Path,
    config: CleanConfig = CleanConfig(),
    overwrite: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> CleanReport:
    """Writes the folder `output` from the text files (.txt, .gz, .xz, .bz2) below the folder `source`.

    It has `train.txt` and `heldout.txt`, with one paragraph per line and a blank line between files, and `report.json`.
    Files of other kinds and hidden files, such as those of killed programs, are left out. The folder is written whole
    or not at all, and not within its input. `progress` is called with the files done and the total.

    Warns of texts that occur twice, of which one is kept. Raises InputError for a file in an unknown encoding, for a
    language that spaCy does not know, and if nothing is left of either part; raises OSError as `check_output` does.
    """
    source, output = Path(source), Path(output)
    if not source.is_dir():
        raise InputError(f"{source}: is no folder; name the folder with the text files")
    paths, others = _files_below(source, output)
    check_output(output, overwrite, (TRAIN, HELDOUT, REPORT), [source])
    languages = None if config.language is None else Languages(config.language)
    noted = IrregularPlaces(source)
    for path in others:
        noted.note("files that are no text", str(path.relative_to(source)))
    held = set(held_out(paths, source, config))
    cleaner = _Cleaner(source, config, languages, noted)
    words = dict[str, int]()
    with atomic_path(output, overwrite, (TRAIN, HELDOUT, REPORT)) as folder:
        folder.mkdir()
        for part in (HELDOUT, TRAIN):  # what is held out is not trained on
            words[part] = 0
            with (folder / part).open("w", encoding="utf-8", newline="\n") as file:
                for path in (path for path in paths if (path in held) == (part == HELDOUT)):
                    kept = list(cleaner.paragraphs(path, part))
                    file.write("".join(f"{paragraph}\n" for paragraph in kept) + "\n" * bool(kept))
                    words[part] += sum(len(paragraph.split()) for paragraph in kept)
                    if progress is not None:
                        progress(len(cleaner.files), len(paths))
        if not words[TRAIN]:
            raise InputError(f"{source}: nothing is left to train on of {len(paths)} text files; see what they have")
        if held and not words[HELDOUT]:
            names = ", ".join(sorted(path.relative_to(source).as_posix() for path in held)[:3])
            raise InputError(f"{source}: nothing is left of the files held out ({names}); hold out others: --seed 2")
        if not held:
            (folder / HELDOUT).unlink()
        removed = {what: {"count": count, "first": noted.places[what]} for what, count in noted.counts.items()}
        files = tuple(sorted(cleaner.files, key=lambda file: file.name))
        report = CleanReport(str(source), config, files, removed, words)  # type: ignore[arg-type]
        text = json.dumps(without_nonfinite(asdict(report)), indent=2, ensure_ascii=False)
        (folder / REPORT).write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace", newline="\n")
    return report


def held_out(paths: Sequence[Path], source: Path, config: CleanConfig) -> list[Path]:
    """Returns the files to hold out: in the order of a hash of seed and name, those that still fit into the share.

    If none fits, it is the smallest file. Raises InputError if nothing would be left to train on.
    """
    if not config.heldout:
        return []
    if len(paths) < 2:
        raise InputError(
            f"{source}: has one text file, which cannot be held out; split it, or hold out nothing: --heldout-share 0"
        )

    def place(path: Path) -> str:
        named = f"{config.seed} {path.relative_to(source).as_posix()}"
        return hashlib.sha256(named.encode(errors="surrogateescape")).hexdigest()

    most, found = config.heldout * sum(map(size_of, paths)), list[Path]()
    for path in sorted(paths, key=place):
        if size_of(path) <= most:
            most -= size_of(path)
            found.append(path)
    return found or [min(paths, key=lambda path: (size_of(path), place(path)))]


def _files_below(source: Path, output: Path) -> tuple[list[Path], list[Path]]:
    """The text files below a folder, also behind links, and the other files, in order, without hidden ones.

    Raises InputError if `output` is in one of the folders. Raises OSError for a folder that cannot be read, whose texts
    would be missing.
    """
    found, seen, place = list[Path](), set[str](), real_path(output)
    for folder, inside, names in os.walk(source, onerror=_raise, followlinks=True):
        is_known = (real := os.path.realpath(folder)) in seen  # two links, or one that leads back
        if place.is_relative_to(real):
            raise InputError(f"{output}: is in the input ({folder}) and would be read as text; name a folder elsewhere")
        seen.add(real)
        inside[:] = [] if is_known else sorted(name for name in inside if not name.startswith("."))
        found += [] if is_known else [Path(folder, name) for name in names if not name.startswith(".")]
    texts, others = list[Path](), list[Path]()
    for path in sorted(filter(Path.is_file, found), key=lambda path: path.relative_to(source).parts):
        name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
        (texts if name.suffix.lower() in TEXTS else others).append(path)
    if not texts:
        raise InputError(f"{source}: has no text file (.txt, .txt.gz, .txt.xz) among {len(others)} files")
    return texts, others


def _raise(error: OSError) -> NoReturn:
    raise error


class _Cleaner:
    """Cleans one file after another, and remembers what it has read."""

    def __init__(self, source: Path, config: CleanConfig, languages: Languages | None, noted: IrregularPlaces) -> None:
        self._source, self._config, self._languages, self._noted = source, config, languages, noted
        self._texts: dict[bytes, str] = {}
        self._paragraphs: set[bytes] = set()
        self.files: list[CleanedFile] = []

    def paragraphs(self, path: Path, part: str) -> Iterator[str]:
        """Yields the paragraphs of a file that are kept."""
        name = path.relative_to(self._source).as_posix()
        text, encoding = read_text(path, self._config.encoding)
        found = paragraphs_of(
            text, self._config.keep_lines, lambda what, line: self._noted.note(what, f"{name}, line {line}")
        )
        key = _key("\n".join(paragraph for _, paragraph in found))
        same = self._texts.setdefault(key, name)
        kept = 0
        if found and same != name:
            self._noted.note("texts that stand twice", f"{name} is {same}")
            warnings.warn(IrregularInput(f"{path}: is the same text as {same}, which is kept alone"), stacklevel=2)
            part = f"the same as {same}"
        else:
            for line, paragraph in found:
                if self._is_kept(paragraph, f"{name}, line {line}"):
                    kept += len(paragraph)
                    yield paragraph
        self.files.append(CleanedFile(name, encoding, part, len(text), kept))

    def _is_kept(self, paragraph: str, place: str) -> bool:
        other = None if self._languages is None else self._languages.foreign(paragraph)
        if other is not None:
            self._noted.note(f"paragraphs in another language ({other})", place)
            return False
        letters = "".join(filter(str.isalpha, paragraph.casefold()))
        if len(letters) < LONG:
            return True
        key = _key(letters)
        if key in self._paragraphs:
            self._noted.note("paragraphs that stand twice", place)
            return False
        self._paragraphs.add(key)
        return True


def read_text(path: Path, encoding: str | None) -> tuple[str, str]:
    """Returns a file's text and encoding: Unicode if its bytes show that, else `encoding`."""
    with naming_damage(path), open_bytes(path) as file:
        raw = file.read()
    text, found = decode_text(raw, path, encoding)
    return text.removeprefix(MARK), found


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
