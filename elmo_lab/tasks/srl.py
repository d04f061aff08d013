"""Semantic role labelling: who did what to whom, for a given predicate (He et al. 2017; the paper's supplement A.5).

- The input is the token's vectors, and an embedding that marks the predicate.
- The encoder has interleaved LSTMs with highways and variational dropout. Its matrices, and that of the output, are
  initialised orthonormal.
- The output is a softmax over BIO tags at every token. Viterbi decoding applies the rules of BIO, and no others.
- The score is span F1 as in CoNLL-2005; the predicate itself is not scored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, partialmethod
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo.config import MOST_LAYERS, check_range, check_sizes
from elmo.errors import InputError, is_number
from elmo.text.lines import numbered_lines
from elmo.text.records import read_conllu_columns, suffix_of
from elmo.text.tokenizer import Tokenizer
from elmo_lab.tasks import readers, scores
from elmo_lab.tasks import readers_roles as roles
from elmo_lab.tasks.crf import best_tags, bio_transitions
from elmo_lab.tasks.ensemble import mean_of_spans
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.interleaved import InterleavedLstm
from elmo_lab.tasks.tagging import TagLabels, TagPrediction, labels_of
from elmo_lab.tasks.task import Task

Verbs = Callable[[Sequence[str]], list[int]]
"""A function that finds the tokens of a sentence that are predicates."""
IGNORED = -100
"""The number of the tag at padding, which the loss ignores."""


@dataclass(frozen=True)
class SrlConfig:
    """The network's settings; the defaults are the paper's (A.5)."""

    n_layers: int = 8
    hidden_size: int = 300
    predicate_dim: int = 100
    """The size of the embedding that marks the predicate."""
    dropout: float = 0.1
    """The variational dropout on the states of every layer, on their way to the next token and to the next layer; the
    network has no other."""

    def __post_init__(self) -> None:
        check_sizes(self, ("hidden_size", "predicate_dim"), "model.")
        check_sizes(self, ("n_layers",), "model.", most=MOST_LAYERS)
        check_range(self, ("dropout",), 0, 1, "model.")


@dataclass(frozen=True)
class SrlExample:
    """A sentence and one of its predicates."""

    tokens: tuple[str, ...]
    predicate: int | None
    """The index of the predicate's token; None for a sentence without a predicate."""
    tags: tuple[str, ...] | None = None
    """The BIO tags, with V for the predicate itself; None if they are unknown."""
    id: str = ""
    lemma: str = ""
    roleset: str = ""
    line: int = 0
    """The number of the sentence's line, from 1. Examples of one sentence share it, and are written as one line."""


def read(path: Path, unlabelled: bool = False) -> list[SrlExample]:
    """Reads the predicates of a file; sentences without a predicate give no example.

    With `unlabelled`, such sentences are kept, and tags are neither needed nor read. In CoNLL-U, the verbs are the
    predicates.
    """
    if suffix_of(path) == ".conllu":
        found = _of_conllu(path)
    else:
        found = [example for sentence in roles.read_roles(path, unlabelled) for example in _examples(sentence)]
    return [example for example in found if unlabelled or example.predicate is not None]


def _of_conllu(path: Path) -> list[SrlExample]:
    """Makes an example of every token with the part of speech VERB, or one of a sentence that has none."""
    lines = (line for _, line in numbered_lines(path))
    found: list[SrlExample | None] = []
    for number, words in enumerate(read_conllu_columns(lines, (1, 3), path), 1):
        verbs = [place for place, (_, kind) in enumerate(words) if kind == "VERB"]
        sentence = SrlExample(tuple(form for form, _ in words), None, line=number)
        found += with_predicates([sentence], lambda tokens, verbs=verbs: verbs)
    return [example for example in found if example is not None]


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[SrlExample]:
    """Makes examples of a line: sentences without predicates, or a sentence, a tab and the index of its predicate."""
    if len(parts) == 2:
        return [unlabelled([tokenizer.tokens(parts[0]), parts[1].split()])]
    return [SrlExample(tuple(tokens), None) for part in parts for tokens in tokenizer.sentences(part)]


def with_predicates(examples: Sequence[SrlExample | None], verbs: Verbs) -> list[SrlExample | None]:
    """Replaces each example without a predicate by one for each token that `verbs` finds, if it finds any."""
    found: list[SrlExample | None] = []
    for example in examples:
        places = [] if example is None or example.predicate is not None else verbs(example.tokens)
        found += [example] if example is None or not places else [replace(example, predicate=place) for place in places]
    return found


def _examples(sentence: roles.Roles) -> list[SrlExample]:
    if not sentence.predicates:
        return [SrlExample(sentence.tokens, None, id=sentence.id, line=sentence.line)]
    return [
        SrlExample(sentence.tokens, role.index, role.tags, sentence.id, role.lemma, role.roleset, sentence.line)
        for role in sentence.predicates
    ]


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> SrlExample:
    """Makes an example of a sentence and a second one, which is the index of its predicate's token, from 0.

    The example has no line, so that consecutive predicates of one sentence are written together.
    """
    tokens, *rest = map(tuple, sentences) if sentences else ((),)
    if len(rest) != 1 or len(rest[0]) != 1 or not is_number(rest[0][0]):
        raise InputError("a sentence, a tab and the index of the predicate's token (from 0) are expected")
    if int(rest[0][0]) >= len(tokens):
        raise InputError(f"the predicate is token {rest[0][0]}; the sentence has {len(tokens)} tokens, counted from 0")
    return SrlExample(tokens, int(rest[0][0]))


def check(examples: Sequence[SrlExample], labels: TagLabels, path: Path) -> None:
    """Warns of roles that are not in the training data. Raises InputError if a predicate has no tags.

    A new reference to a known role, or a new continuation of it (R-, C-), is allowed, though it cannot be predicted:
    the official test sets have a few.
    """
    for example in examples:
        if example.tags is None:
            raise InputError(
                f"{path}: line {example.line}: the predicate of token {example.predicate} has no 'tags'; give one per"
                " token, or remove the predicate"
            )
    begun = ((each.line, _plain(tag)) for each in examples for tag in each.tags or () if tag[0] == "B")
    readers.tell_unknown(begun, {_plain(tag) for tag in labels.tags if tag != "O"}, path, "role")


def _plain(tag: str) -> str:
    return tag[2:].removeprefix("C-").removeprefix("R-")


class SrlModel(nn.Module):
    """The network, which scores the tags of each word of a sentence whose predicate is marked."""

    def __init__(self, config: SrlConfig, inputs: Inputs, labels: TagLabels) -> None:
        super().__init__()
        self.inputs = inputs
        self.labels = labels
        self.is_predicate = nn.Embedding(2, config.predicate_dim)
        size = inputs.dim + config.predicate_dim
        self.encoder = InterleavedLstm(size, config.hidden_size, config.n_layers, config.dropout)
        self.output = nn.Linear(config.hidden_size + inputs.output_dim, len(labels.tags))
        nn.init.orthogonal_(self.output.weight)
        self._rows = {tag: row for row, tag in enumerate(labels.tags)}
        self._rules = bio_transitions(labels.tags)

    def forward(self, tokens: Tokens, examples: Sequence[SrlExample]) -> Float[Tensor, "B T K"]:
        """Returns the scores of all tags (logits)."""
        vectors, elmo = self.inputs(tokens)
        marks = self.is_predicate(predicate_marks(tokens, examples))
        states = self.encoder(torch.cat([vectors, marks], dim=-1), tokens.lengths)
        return self.output(states if elmo is None else torch.cat([states, elmo], dim=-1))

    def loss(self, tokens: Tokens, examples: Sequence[SrlExample]) -> Float[Tensor, ""]:
        """Returns the negative log-likelihood of a sentence's tags, averaged over the examples."""
        logits = self(tokens, examples)
        gold = torch.full(logits.shape[:2], IGNORED)
        for row, example in enumerate(examples):
            assert example.tags is not None, "an example without tags cannot be learned from"
            gold[row, : len(example.tags)] = torch.tensor([self._rows[tag] for tag in example.tags], dtype=torch.long)
        total = nn.functional.cross_entropy(
            logits.flatten(0, 1), gold.flatten().to(logits.device), ignore_index=IGNORED, reduction="sum"
        )
        return total / max(1, len(examples))

    def decode(self, tokens: Tokens, examples: Sequence[SrlExample], probable: bool = False) -> list[TagPrediction]:
        """Predicts the best tags that BIO allows; if asked for, with every chunk's probability among such tags."""
        return best_tags(self(tokens, examples), tokens.mask, self._rules, self.labels.tags, probable)

    decode_probable = partialmethod(decode, probable=True)


def predicate_marks(tokens: Tokens, examples: Sequence[SrlExample]) -> Int[Tensor, "B T"]:
    """Returns 1 at the predicate of each sentence, and 0 at all other tokens."""
    marks = torch.zeros_like(tokens.word_ids)
    for row, example in enumerate(examples):
        if example.predicate is not None:
            marks[row, example.predicate] = 1
    return marks


def score(examples: Sequence[SrlExample], predictions: Sequence[TagPrediction]) -> dict[str, float]:
    """Returns precision, recall and F1 of arguments, in percent; the predicates (V) are not scored."""
    gold = [example.tags or () for example in examples]
    return scores.role_scores(gold, [prediction.tags for prediction in predictions])


def by_label(examples: Sequence[SrlExample], predictions: Sequence[TagPrediction]) -> scores.LabelScores:
    """Returns precision, recall, F1 and support of each role."""
    pairs = ([each.tags or () for each in examples], [each.tags for each in predictions])
    sides = ([[(pieces, role) for role, pieces in scores.scored_arguments(tags)] for tags in side] for side in pairs)
    return scores.label_scores(*sides)


def combine(members: Sequence[Sequence[TagPrediction]]) -> list[TagPrediction]:
    """Chooses the tags of most members, among sequences that BIO allows; ties go to the first member."""
    found = []
    for votes in zip(*members, strict=True):
        names = sorted({tag for vote in votes for tag in vote.tags})
        rows = {name: row for row, name in enumerate(names)}
        counts = torch.zeros(1, len(votes[0].tags), len(names))
        for number, vote in enumerate(votes):
            for place, tag in enumerate(vote.tags):
                counts[0, place, rows[tag]] += 1.0 if number else 1.0 + 0.5 / len(vote.tags)
        mask = torch.ones(counts.shape[:2], dtype=torch.bool)
        tags = best_tags(counts, mask, bio_transitions(names), names)[0].tags
        found.append(TagPrediction(tags, mean_of_spans(tags, votes)))
    return found


def write(path: Path, examples: Sequence[SrlExample | None], predictions: Sequence[Any]) -> None:
    """Writes JSON lines, one per sentence, with the predicted tags and the probabilities of their chunks.

    An example that is None becomes an empty line.
    """
    each = zip(examples, predictions, strict=True)
    groups = groupby(each, key=lambda pair: None if pair[0] is None else (pair[0].line, pair[0].id, pair[0].tokens))
    readers.write_json_lines(path, (_record(key, list(pairs)) for key, pairs in groups))


def record(example: SrlExample, prediction: TagPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object: the sentence and its predicate, with the arguments."""
    found = _record((example.line, example.id, example.tokens), [(example, prediction)])
    assert found is not None
    return found


def _record(key: Any, pairs: Sequence[tuple[Any, TagPrediction]]) -> dict[str, Any] | None:
    """Returns the JSON object of a sentence with these predicates, or None for an empty line."""
    if key is None:
        return None
    line, name, tokens = key
    known = [(example, prediction) for example, prediction in pairs if example.predicate is not None]
    predicates = tuple(roles.Predicate(each.predicate, found.tags, each.lemma, each.roleset) for each, found in known)
    found = roles.as_record(roles.Roles(tokens, predicates, line, name))
    for prop, (_, prediction) in zip(found["props"], known, strict=True):
        if prediction.probabilities:
            prop["arguments"] = readers.spans_record(tokens, prediction.tags, prediction.probabilities, "role")
    return found


TASK = Task(
    name="srl",
    version="1",
    title="Semantic roles: who did what to whom",
    metric="f1",
    columns=("precision", "recall", "f1"),
    config=SrlConfig,
    labels=TagLabels,
    network=SrlModel,
    read=read,
    sentences=lambda example: [list(example.tokens)],
    labels_of=labels_of,
    score=score,
    by_label=by_label,
    combine=combine,
    write=write,
    record=record,
    unlabelled=unlabelled,
    of_text=of_text,
    read_all=partial(read, unlabelled=True),
    check=check,
    with_predicates=with_predicates,
    is_of_sentences=True,
)
