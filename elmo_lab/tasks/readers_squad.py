"""Reads SQuAD's questions, and writes predictions for its official script."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.text.irregular import IrregularPlaces
from elmo.text.records import Span, token_offsets
from elmo_lab.tasks.readers import json_records, text_field, text_output

Tokenize = Callable[[str], list[str]]
MOST_PASSAGES = 1000
"""The most tokenised passages that are kept for the next rows."""


@dataclass(frozen=True)
class Passage:
    """A paragraph and its tokens, shared by all its questions."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    """The place of every token in the text: its first character, and the one after its last."""


@dataclass(frozen=True)
class Answer:
    """An answer, and the first and last token of the shortest span that covers it; None if the passage lacks it."""

    text: str
    first: int | None
    last: int | None


@dataclass(frozen=True)
class Question:
    """A question on a passage."""

    id: str
    text: str
    tokens: tuple[str, ...]
    passage: Passage
    answers: tuple[Answer, ...]
    """The answers in file order, possibly repeated; empty if the file has none."""


def read_squad(path: Path, tokenize: Tokenize, unlabelled: bool = False) -> list[Question]:
    """Reads the questions of a SQuAD file, or of the Hub's JSON lines; `tokenize` may drop only whitespace.

    An id may be a number. An answer that is not at its `answer_start` gets the nearest place where the passage has it.
    An answer that the passage lacks is scored, as in the official script, but not learned. A warning counts both, and
    questions without an answer (SQuAD 2.0), which are left out. With `unlabelled`, all questions are kept, and answers
    are neither needed nor read. Raises InputError if two different questions have the same id.
    """
    irregular = IrregularPlaces(path)
    questions: dict[str, Question] = {}
    passages: dict[str, Passage] = {}
    for number, record in json_records(path, irregular):
        for context, row in _rows(record, path, number):
            if context not in passages:
                place = f"{path}: the passage {context[:40]!r} of line {number}"
                passages = {} if len(passages) > MOST_PASSAGES else passages
                passages[context] = passage_of(context, tokenize, place)
            given = row | {"answers": []} if unlabelled else row
            found = _question(given, passages[context], path, number, tokenize, irregular)
            before = questions.get(found.id)
            if before is None:
                questions[found.id] = found
            elif (before.text, before.passage.text) == (found.text, found.passage.text):
                irregular.note("a question that is there twice, read once", f"question {found.id!r}")
            else:
                raise InputError(f"{path}: two questions have the id {found.id!r}; give each its own")
    listed = list(questions.values())
    # A file without any answer is read for prediction, so it keeps all its questions.
    if any(question.answers for question in listed):
        for question in listed:
            if not question.answers:
                irregular.note("a question without an answer (SQuAD 2.0), left out", f"question {question.id!r}")
        listed = [question for question in listed if question.answers]
    irregular.tell()
    return listed


def write_squad(path: Path, answers: Mapping[str, str]) -> None:
    """Writes the predicted text by question id, for the official script; replaces an existing file."""
    with text_output(path, overwrite=True) as file:
        json.dump(dict(answers), file, ensure_ascii=False, indent=1)
        file.write("\n")


def passage_of(text: str, tokenize: Tokenize, place: str = "the passage") -> Passage:
    """Makes a passage with its tokens and their offsets. Raises InputError if they do not follow the text in order."""
    tokens = tokenize(text)
    spans = token_offsets(text, tokens)
    if spans is None:
        raise InputError(f"{place}: the tokens do not follow the text in order; use a tokenizer that changes nothing")
    return Passage(text, tuple(tokens), tuple(spans))


def covering_tokens(spans: Iterable[Span], begin: int, end: int) -> tuple[int, int] | None:
    """Returns the first and last token with a character from `begin` to `end` (exclusive), or None if there is none."""
    inside = [token for token, (first, after) in enumerate(spans) if first < end and after > begin]
    return (inside[0], inside[-1]) if inside else None


def _rows(record: dict[str, Any], path: Path, line: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the questions of a record, which is a whole file or a row, each with its passage."""
    place = f"{path}: line {line}"
    if "data" in record:
        for article in _items(record, "data", str(path)):
            for paragraph in _items(article, "paragraphs", f"{path}: article {article.get('title', '')!r}"):
                context = text_field(paragraph, "context", f"{path}: a paragraph")
                for row in _items(paragraph, "qas", f"{path}: the paragraph {context[:40]!r}"):
                    yield context, row
    elif "question" in record or "qas" in record:
        context = text_field(record, "context", place)
        for row in _items(record, "qas", place) if "qas" in record else [record]:
            yield context, row
    elif "header" not in record:  # the first line of MRQA's files is a header
        raise InputError(
            f"{place} has {', '.join(map(repr, list(record)[:5]))}; SQuAD 1.1 is expected (data, paragraphs, qas,"
            " answers), or JSON lines of id, context, question and answers"
        )


def _question(
    record: dict[str, Any], passage: Passage, path: Path, line: int, tokenize: Tokenize, irregular: IrregularPlaces
) -> Question:
    name = record.get("id", record.get("qid"))
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InputError(
            f"{path}: a question on {passage.text[:40]!r}: 'id' is {str(name)[:40]!r}; a text or number is expected"
        )
    place = f"{path}: question {str(name)!r}"
    text = text_field(record, "question", place)
    given = record.get("answers") or []
    if isinstance(given, dict):  # the Hub has a list of texts and one of their starts
        texts, starts = given.get("text"), given.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise InputError(f"{place}: 'answers' is {str(given)[:40]!r}; give as many 'text' as 'answer_start'")
        given = [{"text": each, "answer_start": start} for each, start in zip(texts, starts, strict=True)]
    elif isinstance(given, list) and all(isinstance(each, str) for each in given):  # MRQA has only texts
        given = [{"text": each} for each in given]
    answers = [] if record.get("is_impossible") else _items({"answers": given}, "answers", place)
    found = (_answer(answer, passage, place, str(name), irregular) for answer in answers)
    return Question(str(name), text, tuple(tokenize(text)), passage, tuple(each for each in found if each is not None))


def _answer(
    record: dict[str, Any], passage: Passage, place: str, name: str, irregular: IrregularPlaces
) -> Answer | None:
    """Returns the answer with its place, or None if it has no text."""
    text, begin = text_field(record, "text", place), record.get("answer_start")
    question = f"question {name!r}"
    if not text.strip():
        irregular.note("an answer without a text, left out", question)
        return None
    if type(begin) is not int or begin < 0 or passage.text[begin : begin + len(text)] != text:
        nearest = _nearest(passage.text, text, begin if type(begin) is int else 0)
        if nearest is None:
            irregular.note("an answer that the passage does not have: it is scored, never learned", question)
            return Answer(text, None, None)
        if begin is not None:
            irregular.note("an answer that is not at its answer_start, so the nearest place is taken", question)
        begin = nearest
    tokens = covering_tokens(passage.offsets, begin, begin + len(text))
    return Answer(text, None, None) if tokens is None else Answer(text, *tokens)


def _nearest(passage: str, text: str, begin: int) -> int | None:
    """Returns the place of the text in the passage that is nearest to `begin`, or None if there is none."""
    begin = max(0, min(begin, len(passage)))
    places = passage.rfind(text, 0, begin + len(text)), passage.find(text, begin)
    return min((place for place in places if place >= 0), key=lambda place: abs(place - begin), default=None)


def _items(record: Any, key: str, place: str) -> list[dict[str, Any]]:
    items = record.get(key) if isinstance(record, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(f"{place} has no list of objects {key!r}; SQuAD 1.1 has data, paragraphs, qas, answers")
    return items
