"""Reader of SQuAD 1.1, and writer of predictions for its official script."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.text.lines import numbered_lines
from elmo.text.records import Span, offsets
from elmo_lab.tasks.readers import parsed_json, text_field, writing

Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True)
class Passage:
    """A paragraph and its tokens, shared by all its questions."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    """The first character of every token, and the one after its last."""


@dataclass(frozen=True)
class Answer:
    """A text of the passage, and the shortest span of tokens that covers it, both ends included."""

    text: str
    first: int
    last: int


@dataclass(frozen=True)
class Question:
    """A question on a passage."""

    id: str
    text: str
    tokens: tuple[str, ...]
    passage: Passage
    answers: tuple[Answer, ...]
    """In file order, possibly repeated; none if the file has none."""


def read_squad(path: Path, tokenize: Tokenize) -> list[Question]:
    """The questions of a SQuAD 1.1 file; `tokenize` may drop only whitespace.

    Raises InputError, which names the question, if the passage does not have an answer at its `answer_start`, or if two
    questions have the same id.
    """
    text = "\n".join(line for _, line in numbered_lines(path))
    record = parsed_json(text, str(path))
    articles = _items(record, "data", str(path))
    questions = [
        question
        for article in articles
        for paragraph in _items(article, "paragraphs", f"{path}: article {article.get('title', '')!r}")
        for question in _questions(paragraph, path, tokenize)
    ]
    seen = set[str]()
    for question in questions:  # predictions and scores are by id
        if question.id in seen:
            raise InputError(f"{path}: two questions have the id {question.id!r}; give each its own")
        seen.add(question.id)
    return questions


def write_squad(path: Path, answers: Mapping[str, str], overwrite: bool = False) -> None:
    """Writes the predicted text by question id, for the official script."""
    with writing(path, overwrite) as file:
        json.dump(dict(answers), file, ensure_ascii=False, indent=1)
        file.write("\n")


def passage_of(text: str, tokenize: Tokenize, place: str = "the passage") -> Passage:
    """A passage with its tokens and their offsets."""
    tokens = tokenize(text)
    spans = offsets(text, tokens)
    if spans is None:
        raise InputError(
            f"{place}: the tokens do not follow the text in order; use a tokenizer that changes no characters"
        )
    return Passage(text, tuple(tokens), tuple(spans))


def covering(spans: Iterable[Span], begin: int, end: int) -> tuple[int, int] | None:
    """The first and last token with a character from `begin` to `end` (exclusive); None if there is none."""
    inside = [token for token, (first, after) in enumerate(spans) if first < end and after > begin]
    return (inside[0], inside[-1]) if inside else None


def _questions(paragraph: dict[str, Any], path: Path, tokenize: Tokenize) -> list[Question]:
    context = text_field(paragraph, "context", f"{path}: a paragraph")
    place = f"{path}: the paragraph {context[:40]!r}"
    passage = passage_of(context, tokenize, place)
    return [_question(record, passage, path, tokenize) for record in _items(paragraph, "qas", place)]


def _question(record: dict[str, Any], passage: Passage, path: Path, tokenize: Tokenize) -> Question:
    name = text_field(record, "id", f"{path}: a question on {passage.text[:40]!r}")
    place = f"{path}: question {name!r}"
    text = text_field(record, "question", place)
    if record.get("is_impossible"):
        raise InputError(f"{place} has no answer (SQuAD 2.0); SQuAD 1.1 is expected: remove such questions")
    answers = _items(record, "answers", place) if "answers" in record else []
    return Question(
        name, text, tuple(tokenize(text)), passage, tuple(_answer(answer, passage, place) for answer in answers)
    )


def _answer(record: dict[str, Any], passage: Passage, place: str) -> Answer:
    text, begin = text_field(record, "text", place), record.get("answer_start")
    if type(begin) is not int or begin < 0 or passage.text[begin : begin + len(text)] != text or not text.strip():
        found = passage.text[begin : begin + len(text)] if type(begin) is int and begin >= 0 else ""
        raise InputError(
            f"{place} has the answer {text[:60]!r} at answer_start {begin!r}, where the passage has {found[:60]!r};"
            " fix answer_start (characters of the context, from 0) or remove the answer"
        )
    tokens = covering(passage.offsets, begin, begin + len(text))
    if tokens is None:
        raise InputError(f"{place} has the answer {text[:60]!r}, which has no tokens; remove the answer")
    return Answer(text, *tokens)


def _items(record: Any, key: str, place: str) -> list[dict[str, Any]]:
    items = record.get(key) if isinstance(record, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(
            f"{place} has no list of objects {key!r}; SQuAD 1.1 is expected: data, paragraphs, qas, answers"
        )
    return items
