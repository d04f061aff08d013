"""Trained networks that take text: `load`, and the lines of files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo.embedding.job import read_lines
from elmo.errors import InputError
from elmo.text.tokenizer import Tokenizer, split_at_spaces
from elmo_lab.tasks.task import Task
from elmo_lab.tasks.trained import TrainedTask, check_one_task, example_of, predict_jointly


@dataclass(frozen=True)
class Tagger:
    """Networks of one task, and the tokenizer of their text: texts -> JSON objects."""

    members: tuple[TrainedTask, ...]
    tokenizer: Tokenizer

    def __call__(self, texts: Sequence[Any]) -> list[dict[str, Any]]:
        """One object for each text, as `elmo task predict` writes them to `.jsonl`.

        A text is a string, with a tab between its parts if the task has several (premise and hypothesis; question and
        passage; sentence and index of the predicate); a list of tokens; or a list of such lists. A string is one
        sentence, of `coref` a document. Raises InputError for other parts.
        """
        if isinstance(texts, str):
            raise InputError(f"{texts[:40]!r} is a string; a list of texts is expected: [text]")
        task = self.members[0].task
        examples = [self._example(each) for each in texts]
        found = predict_jointly(self.members, examples)
        return [task.record(example, prediction) for example, prediction in zip(examples, found, strict=True)]

    def _example(self, given: Any) -> Any:
        task = self.members[0].task
        if not isinstance(given, str):
            return example_of(task, given)
        parts = given.split("\t")
        whole = replace(self.tokenizer.config, sentences="line") if task.is_of_sentences else None
        (example,) = task.of_text(parts, self.tokenizer if whole is None else Tokenizer(whole), 0)
        return example

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """The task's numbers, in percent, on labelled examples, as its module's `read` gives them."""
        return self.members[0].task.score(examples, predict_jointly(self.members, examples))


def load(*runs: str | Path, model: str | None = None, vectors: str | None = None, device: str = "cpu") -> Tagger:
    """The trained network in a folder, or the ensemble of those in several: folders that `elmo task train` wrote.

    `model` and `vectors` are the biLM and the static vectors, if they have moved since training. Raises InputError if a
    folder has no trained task, or if they have different tasks.
    """
    members = tuple(TrainedTask.load(run, model, device=device, vectors=vectors) for run in runs)
    check_one_task(members)
    return Tagger(members, Tokenizer(members[0].text))


def read_text(task: Task, path: str, tokenizer: Tokenizer | None = None) -> list[Any]:
    """Unlabelled examples of the lines of a text, None for a blank line; "-" is standard input.

    `tokenizer` splits them into sentences and tokens; without one, each line is an example, whose tokens are separated
    by spaces, its sentences by tabs. Raises InputError, which names the line, for a wrong number of sentences.
    """
    examples: list[Any] = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            examples.append(None)
            continue
        parts = line.split("\t")
        try:
            if tokenizer is None:
                examples.append(task.unlabelled([split_at_spaces(part) for part in parts], number))
            else:
                examples += task.of_text(parts, tokenizer, number)
        except InputError as error:
            raise InputError(f"{'standard input' if path == '-' else path}: line {number}: {error}") from error
    return examples


def verbs_of(pipeline: str) -> Callable[[Sequence[str]], list[int]]:
    """A function that finds the verbs of a sentence by a spaCy pipeline, by its name or folder.

    Raises InputError if it cannot be loaded, or tags no parts of speech.
    """
    try:
        import spacy
        from spacy.tokens import Doc

        found = spacy.load(pipeline)
    except (ImportError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"--tagger {pipeline}: spaCy cannot load it ({reason}); install it, such as python -m spacy download"
            " en_core_web_sm, or give the predicates"
        ) from error

    def verbs(tokens: Sequence[str]) -> list[int]:
        document = found(Doc(found.vocab, words=list(tokens)))
        if not any(token.pos for token in document) and len(document):
            raise InputError(f"--tagger {pipeline}: tags no parts of speech; name a pipeline with a tagger")
        return [token.i for token in document if token.pos_ == "VERB"]

    return verbs
