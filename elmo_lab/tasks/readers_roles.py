"""Reads and writes semantic roles: JSON lines of this program and of AllenNLP, `|||` lines, CoNLL-2012."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError, is_number
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.tokenizer import split_at_spaces
from elmo_lab.tasks import readers_conll2012 as conll2012
from elmo_lab.tasks.readers import json_records, strings_field, tokens_field, with_noun
from elmo_lab.tasks.readers_conll2012 import Predicate
from elmo_lab.tasks.tagging import is_tag, to_bio

BAR = "|||"
VERB = "B-V"


@dataclass(frozen=True)
class Roles:
    """A sentence with its predicates, if any."""

    tokens: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    line: int
    id: str = ""


def read_roles(path: Path, unlabelled: bool = False) -> list[Roles]:
    """Reads the sentences of a file in one of these layouts:

    - JSON lines of `tokens` and `props`, a list of `pred` (the predicate's token, from 0), `tags` (BIO, one per token;
      optional), `lemma` and `roleset`
    - AllenNLP's JSON lines: examples of one predicate with `tokens`, `tags` and `verb_indicator`, or predictions with
      `words` and `verbs`
    - lines of the index of a predicate, tokens and tags (He et al. 2017): `2 My cats love hats . ||| O B-A0 B-V B-A1 O`
    - the columns of CoNLL-2012

    Tags that break BIO are read as conlleval does, and counted in a warning. With `unlabelled`, tags only show where a
    predicate is, if nothing else does.
    """
    irregular = IrregularPlaces(path)
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    if conll2012.is_begin(first):
        found = [
            Roles(tuple(tokens), tuple(predicates), line, name)
            for line, name, tokens, predicates in conll2012.read_predicates(path, irregular, unlabelled)
        ]
    elif first and not first.lstrip().startswith(("{", "[")) and BAR not in first:
        raise InputError(
            f"{path}: line 1 is {first[:40]!r}; JSON lines, `2 My cats love hats . ||| O B-A0 B-V B-A1 O`, or"
            " CoNLL-2012 after '#begin document (name); part 000' are expected"
        )
    elif BAR in first:
        lines = ((number, line) for number, line in numbered_lines(path) if line.strip())
        found = [_of_line(path, number, line, irregular, unlabelled) for number, line in lines]
    else:
        found = [
            _roles(record, number, f"{path}: line {number}", irregular, unlabelled)
            for number, record in json_records(path, irregular)
        ]
    irregular.tell()
    return found


def as_record(sentence: Roles) -> dict[str, Any]:
    """Returns a sentence as a JSON object."""
    name = {"id": sentence.id} if sentence.id else {}
    props = [
        {"pred": each.index, "lemma": each.lemma, "roleset": each.roleset}
        | ({} if each.tags is None else {"tags": each.tags})
        for each in sentence.predicates
    ]
    return name | {"tokens": sentence.tokens, "props": props}


def _of_line(path: Path, number: int, line: str, irregular: IrregularPlaces, unlabelled: bool) -> Roles:
    text, _, after = line.partition(BAR)
    index, *tokens = split_at_spaces(text) or [""]
    if not is_number(index) or not tokens:
        raise InputError(
            f"{path}: line {number} is {line[:40]!r}; the index of the predicate, the tokens, ||| and the tags are"
            " expected"
        )
    prop: dict[str, Any] = {"pred": int(index), "tags": None if unlabelled else split_at_spaces(after) or None}
    return Roles(tuple(tokens), (_predicate(prop, len(tokens), f"{path}: line {number}", number, irregular),), number)


def _roles(record: dict[str, Any], number: int, place: str, irregular: IrregularPlaces, unlabelled: bool) -> Roles:
    name = "words" if "words" in record and "tokens" not in record else "tokens"
    tokens = tokens_field(record, name, place, number, irregular)
    props = record.get("props")
    if props is None:
        props = _props_of_allennlp(record, tokens, place)
    if not isinstance(props, list) or not all(isinstance(prop, dict) for prop in props):
        raise InputError(f"{place}: 'props' is not a list of objects with 'pred' and 'tags'; write one per predicate")
    if unlabelled:
        props = [prop | {"tags": None} for prop in props]
    identity = record.get("id")
    predicates = tuple(_predicate(prop, len(tokens), place, number, irregular) for prop in props)
    return Roles(tokens, predicates, number, "" if identity is None else str(identity))


def _props_of_allennlp(record: dict[str, Any], tokens: tuple[str, ...], place: str) -> list[dict[str, Any]]:
    """The predicates in `verbs`, or the one that `verb_indicator` and `tags` describe."""
    if isinstance(verbs := record.get("verbs"), list):
        tagged = [each.get("tags") for each in verbs if isinstance(each, dict)]
        return [{"pred": tags.index(VERB), "tags": tags} for tags in tagged if isinstance(tags, list) and VERB in tags]
    marks, tags = record.get("verb_indicator"), record.get("tags")
    if marks is None and isinstance(tags, list):
        marks = [int(tag == VERB) for tag in tags]
    if marks is None:
        return []
    if not isinstance(marks, list) or len(marks) != len(tokens):
        raise InputError(f"{place}: 'verb_indicator' is {str(marks)[:40]!r}; 0 or 1 for each of the tokens is expected")
    return [{"pred": marks.index(1), "tags": tags}] if 1 in marks else []


def _predicate(prop: dict[str, Any], length: int, place: str, line: int, irregular: IrregularPlaces) -> Predicate:
    index = prop.get("pred")
    if type(index) is not int or not 0 <= index < length:
        raise InputError(
            f"{place} has 'pred': {index!r} in a sentence of {with_noun(length, 'token')}; the index of one"
            " of them is expected, counted from 0"
        )
    lemma, roleset = (str(prop.get(key) or "") for key in ("lemma", "roleset"))
    if prop.get("tags") is None:
        return Predicate(index, None, lemma, roleset)
    tags = strings_field(prop, "tags", place)
    if len(tags) != length:
        raise InputError(
            f"{place}: the predicate of token {index} has {with_noun(len(tags), 'tag')} for"
            f" {with_noun(length, 'token')}; give one per token"
        )
    for token, tag in enumerate(tags):
        if not is_tag(tag):
            raise InputError(f"{place}: predicate {index}, token {token}: the tag is {tag!r}; give O, B-ROLE or I-ROLE")
    read = to_bio([tags], "BIO")
    for _, _, problem in read.broken:
        irregular.note(problem.replace("entity", "argument"), line)
    return Predicate(index, read.sentences[0], lemma, roleset)
