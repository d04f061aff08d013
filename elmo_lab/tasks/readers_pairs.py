"""Reads and writes premises and hypotheses: SNLI's JSON lines and `.txt`, and the Hub's rows."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError, is_number
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo_lab.tasks.readers import json_records

SNLI_LABELS = ("entailment", "contradiction", "neutral")
NO_AGREEMENT = "-"
"""SNLI's label for a pair on which the annotators did not agree."""
BY_NUMBER = ("entailment", "neutral", "contradiction")
"""The classes by the numbers that the Hub gives them in SNLI, MultiNLI, XNLI and ANLI; -1 means no agreement."""
OTHER_NAMES = {"e": "entailment", "n": "neutral", "c": "contradiction", "contradictory": "contradiction"}
UNLABELLED = ("", "hidden")
PREMISE, HYPOTHESIS, LABEL = ("sentence1", "premise", "context"), ("sentence2", "hypothesis"), ("gold_label", "label")
"""The names of columns and keys, in any case."""
EXPECTED = "sentence1, sentence2 and gold_label, or premise, hypothesis and label"
MOST_HEAD = 10_000
"""The most characters of the line of names that are read."""


@dataclass(frozen=True)
class Pair:
    """A premise and a hypothesis (Bowman et al. 2015), which are not tokenised."""

    premise: str
    hypothesis: str
    label: str | None
    """One of SNLI_LABELS; None if the file has no label, or labels are not read."""
    line: int


def read_snli(path: Path, unlabelled: bool = False) -> list[Pair]:
    """Reads the pairs of a file: JSON lines, or columns with a line of their names (SNLI's `.txt`, TSV, CSV).

    The names are those of SNLI (`sentence1`, `sentence2`, `gold_label`) or of the Hub (`premise`, `hypothesis`,
    `label`, whose numbers are those of `BY_NUMBER`).

    Pairs with the label "-" or -1 (no agreement among annotators) are omitted, as in the paper. Pairs with another
    label or without a text are omitted and counted in a warning. With `unlabelled`, labels are neither needed nor read.
    """
    irregular = IrregularPlaces(path)
    pairs, omitted = list[Pair](), 0
    for number, record in _records(path, irregular):
        fields = {key.lower(): value for key, value in record.items()}
        premise, hypothesis = (_text(fields, names, path, number) for names in (PREMISE, HYPOTHESIS))
        label = None if unlabelled else _label(fields, path, number)
        if premise is None or hypothesis is None:
            irregular.note("a pair without a premise or hypothesis, left out", number)
        elif label == NO_AGREEMENT:
            omitted += 1
        elif label is not None and label not in SNLI_LABELS:
            irregular.note(f"a label other than {', '.join(SNLI_LABELS)}, so the pair is left out", number)
        else:
            pairs.append(Pair(premise, hypothesis, label, number))
    if irregular.counts and not pairs and not omitted:
        problem = next(iter(irregular.counts))
        raise InputError(f"{path}: line {irregular.places[problem][0]} has {problem}, and so has every line: fix them")
    irregular.tell()
    return pairs


def as_record(pair: Pair) -> dict[str, Any]:
    """Returns a pair as a JSON object with SNLI's keys."""
    label = {} if pair.label is None else {"gold_label": pair.label}
    return label | {"sentence1": pair.premise, "sentence2": pair.hypothesis}


def _records(path: Path, irregular: IrregularPlaces) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the rows of a file as values by the names of their columns."""
    lines = ((number, line) for number, line in numbered_lines(path) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    if first[1].lstrip()[:1] in ("{", "["):
        yield from json_records(path, irregular)
        return
    by_tabs = "\t" in first[1]
    # The fields of other files, such as one long line, may be longer than the columns' names that csv reads.
    names = first[1].split("\t") if by_tabs else next(csv.reader([first[1][:MOST_HEAD]]))
    names = [name.strip() for name in names]
    known = {name.lower() for name in names}
    if known.isdisjoint(PREMISE) or known.isdisjoint(HYPOTHESIS):
        raise InputError(
            f"{path}: line {first[0]} is {first[1][:60]!r}; JSON lines, or a line with the names of the"
            f" columns is expected: {EXPECTED}"
        )
    if by_tabs:
        for number, line in lines:
            yield number, dict(zip(names, line.split("\t"), strict=False))
    else:
        rows = csv.reader(f"{line}\n" for _, line in lines)
        try:
            for row in rows:
                yield rows.line_num + 1, dict(zip(names, row, strict=False))
        except csv.Error as error:
            raise InputError(f"{path}: line {rows.line_num + 1}: {error}; close the quotes there") from error


def _text(fields: dict[str, Any], names: tuple[str, ...], path: Path, line: int) -> str | None:
    """The text under the first of these names; None if it is null or empty."""
    name = next((name for name in names if name in fields), None)
    if name is None:
        raise InputError(f"{path}: line {line} has no {names[0]!r} or {names[1]!r}; {EXPECTED} are expected")
    value = fields[name]
    if value is not None and not isinstance(value, str):
        raise InputError(f"{path}: line {line}: {name!r} is {str(value)[:40]!r}; a text is expected")
    return value if value and value.strip() else None


def _label(fields: dict[str, Any], path: Path, line: int) -> str | None:
    name = next((name for name in LABEL if name in fields), None)
    value = fields.get(name) if name else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{path}: line {line}: {name!r} is {str(value)[:40]!r}; {', '.join(SNLI_LABELS)} is expected")
    if isinstance(value, str) and value.strip() in UNLABELLED:
        return None
    if isinstance(value, int) or is_number(value.strip().removeprefix("-")):
        if "sentence1" in fields:  # other data sets number their classes otherwise: 1 is not_entailment in GLUE's RTE
            raise InputError(
                f"{path}: line {line}: {name!r} is {value}, but the file does not say which class has this number;"
                f" write {', '.join(SNLI_LABELS)}"
            )
        number = int(value)
        return NO_AGREEMENT if number == -1 else BY_NUMBER[number] if 0 <= number < len(BY_NUMBER) else str(value)
    plain = value.strip().lower()
    return OTHER_NAMES.get(plain, plain)
