"""Trained networks that take text, which `load` opens; `read_text` reads the lines of files for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo.embedding.job import read_lines
from elmo.errors import InputError, in_one_line
from elmo.text.tokenizer import Tokenizer, split_at_spaces
from elmo_lab.tasks.task import Task
from elmo_lab.tasks.trained import TrainedTask, check_one_task, example_of, predict_jointly


@dataclass(frozen=True)
class Tagger:
    """Networks of one task, with the tokenizer of their text. Calling it turns texts into JSON objects."""

    members: tuple[TrainedTask, ...]
    tokenizer: Tokenizer

    def __call__(self, texts: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns one object for each text, as `elmo task predict` writes them to `.jsonl`.

        A text is a string, with a tab between its parts if the task has several (premise and hypothesis; question and
        passage; sentence and index of the predicate); a list of tokens; or a list of such lists. A string is one
        sentence, or a document for `coref`. Raises InputError for other parts.
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
        found = task.of_text(parts, self.tokenizer if whole is None else Tokenizer(whole), 0)
        if len(found) != 1:
            raise InputError(f"{given[:40]!r} is {len(found)} examples of the task {task.name}; give one in each text")
        return found[0]

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """Returns the task's scores, in percent, on labelled examples, which the `read` of its module gives."""
        return self.members[0].task.score(examples, predict_jointly(self.members, examples))


def load(*runs: str | Path, model: str | None = None, vectors: str | None = None, device: str = "cpu") -> Tagger:
    """Loads the network in a folder that `elmo task train` wrote, or an ensemble from several such folders.

    `model` and `vectors` are the paths of the biLM and of the static vectors, if they have moved since training. Raises
    InputError if a folder has no trained task, if the networks have different tasks, or if there is no folder.
    """
    if not runs:
        raise InputError("no folder is given; name an output folder of elmo task train")
    members = tuple(TrainedTask.load(run, model, device=device, vectors=vectors) for run in runs)
    check_one_task(members)
    return Tagger(members, Tokenizer(members[0].text))


def read_text(task: Task, path: str, tokenizer: Tokenizer | None = None) -> list[Any]:
    """Reads unlabelled examples from the lines of a text, with None for a blank line; "-" is standard input.

    `tokenizer` splits lines into sentences and tokens. Without one, each line is an example, in which spaces separate
    tokens and tabs separate sentences. Raises InputError, which names the line, for a wrong number of sentences.
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
    """Returns a function that finds the verbs of a sentence with a spaCy pipeline, which has a name or a folder.

    Raises InputError if the pipeline cannot be loaded; the function raises it if no parts of speech are tagged.
    """
    try:
        import spacy
        from spacy.tokens import Doc

        found = spacy.load(pipeline)
    except (ImportError, OSError, ValueError) as error:
        reason = in_one_line(error)[:120]
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
