"""Reads and writes sentiment trees in the format of the Stanford Sentiment Treebank: `(3 (2 Good) (2 film))`.

The Hub's JSON lines of labelled sentences are read, too.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.records import BLANK
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks import treebank
from elmo_lab.tasks.readers import json_records, text_field, text_output, with_noun

TREE_PART = re.compile(
    r"\([ \t]*(?P<label>\d{1,9})(?=[ \t()])(?:[ \t]+(?P<word>[^ \t()]+)[ \t]*\))?|(?P<close>\))|[^ \t()]+|\("
)


@dataclass(frozen=True)
class Node:
    """A phrase of a sentiment tree: the tokens from `begin` to `end` (exclusive)."""

    begin: int
    end: int
    label: int


@dataclass(frozen=True)
class Tree:
    """A sentence with the sentiment of every phrase (Socher et al. 2013)."""

    tokens: tuple[str, ...]
    nodes: tuple[Node, ...]
    """The phrases of the sentence, itself included, each before its parts."""
    line: int


def read_trees(path: Path, labels: int = 5, unlabelled: bool = False) -> list[Tree]:
    """Reads the trees of a file, one per line, such as `(3 (2 Good) (2 film))`, with labels from 0 to `labels` - 1.

    The Penn Treebank's escapes inside words are undone. In a file of JSON lines, with a `text` or `sentence` and a
    `label`, each sentence is a tree of one node. A label may be a fraction from 0 to 1, which is divided into classes
    of equal width (Socher et al. 2013). With `unlabelled`, a sentence of JSON lines may lack its label, and labels may
    be others; the tree then has no node.
    """
    first = next((line for _, line in numbered_lines(path) if line.strip(BLANK)), "")
    if first.lstrip().startswith(("{", "[")):
        irregular = IrregularPlaces(path)
        found = [_row(record, path, number, labels, unlabelled) for number, record in json_records(path, irregular)]
        irregular.tell()
        return found
    return [_tree(path, number, line, labels, unlabelled) for number, line in numbered_lines(path) if line.strip(BLANK)]


def write_trees(path: Path, trees: Iterable[Tree | None]) -> None:
    """Writes trees, one per line, and an empty line for None; replaces an existing file."""
    with text_output(path, overwrite=True) as file:
        file.writelines("\n" if tree is None else f"{_bracketed(tree)}\n" for tree in trees)


def _row(record: dict[str, Any], path: Path, number: int, labels: int, unlabelled: bool) -> Tree:
    place = f"{path}: line {number}"
    text, label = text_field(record, "text" if "text" in record else "sentence", place), record.get("label")
    tokens = tuple(Tokenizer(TextConfig()).tokens(text))
    if isinstance(label, float) and 0 <= label <= 1:
        label = max(0, math.ceil(label * labels) - 1)
    if type(label) is not int or not 0 <= label < labels:
        if unlabelled:
            return Tree(tokens, (), number)
        raise InputError(f"{place}: 'label' is {str(label)[:40]!r}; a number from 0 to {labels - 1} is expected")
    return Tree(tokens, (Node(0, len(tokens), label),), number)


def _tree(path: Path, number: int, line: str, labels: int, unlabelled: bool) -> Tree:
    tokens: list[str] = []
    nodes: list[Node] = []
    is_open: list[int] = []  # the nodes that are not yet closed
    for part in TREE_PART.finditer(line):
        label, word, close = part["label"], part["word"], part["close"]
        if nodes and not is_open:
            raise _broken_tree(path, number, f"has {part[0]!r} after the end of its tree")
        if label is not None:
            if int(label) >= labels and not unlabelled:
                raise _broken_tree(path, number, f"has the label {label}; the labels are 0 to {labels - 1}")
            is_open.append(len(nodes))
            nodes.append(Node(len(tokens), len(tokens), int(label)))
        elif not close or not is_open:
            raise _broken_tree(path, number, f"has {part[0]!r} at character {part.start() + 1}, not valid in a tree")
        if word is not None:
            tokens.append(treebank.with_brackets(word))
        if word is not None or close:
            phrase = is_open.pop()
            nodes[phrase] = replace(nodes[phrase], end=len(tokens))
            if nodes[phrase].begin == len(tokens):
                raise _broken_tree(path, number, "has a phrase without a word")
    if is_open:
        raise _broken_tree(path, number, f"leaves {with_noun(len(is_open), 'bracket')} open")
    are_known = all(node.label < labels for node in nodes)
    return Tree(tuple(tokens), tuple(nodes) if are_known else (), number)


def _broken_tree(path: Path, number: int, problem: str) -> InputError:
    return InputError(
        f"{path}: line {number} {problem}; write one tree per line, such as (3 (2 Good) (2 film)), brackets in"
        " words as -LRB- and -RRB-"
    )


def _bracketed(tree: Tree) -> str:
    parts: list[str] = []
    ends: list[int] = []
    for node, after in zip_longest(tree.nodes, tree.nodes[1:]):
        while ends and ends[-1] <= node.begin:
            ends.pop()
            parts.append(")")
        parts.append(f" ({node.label}" if ends else f"({node.label}")
        is_leaf = after is None or not (node.begin <= after.begin and after.end <= node.end)
        if is_leaf:
            parts.append(f" {treebank.escaped(' '.join(tree.tokens[node.begin : node.end]))})")
        else:
            ends.append(node.end)
    return "".join(parts) + ")" * len(ends)
