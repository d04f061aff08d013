"""Counts what each decision on spelling changes in a text, before a model is trained: tokens, words, unknown words.

    python benchmarks/spelling.py --train latin.train.txt.xz --heldout latin.valid.txt.xz --heldout latin.test.txt.xz

Decisions that respell a token are steps of `text.normalize`, by default those of Latin; `--step NAME=STEP,STEP` names
others for another language. Decisions that would change what a token is (enclitics, Greek, verse) are counted, too.
Unknown words are counted in the held-out text, with a vocabulary of the training text in the same spelling.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from elmo.pretraining.ids import Ids, keep_ids, kept_ids, make_ids
from elmo.terminal import print_table
from elmo.text import corpus
from elmo.text.normalization import check_steps, respell_function
from elmo.text.tokenizer import TERMINATORS, TextConfig

U, J = ("v>u", "V>U"), ("j>i", "J>I")
LIGATURES = ("æ>ae", "œ>oe", "Æ>Ae", "Œ>Oe")
BRACKETS = ("[>", "]>", "<>", ">>", "{>", "}>", "†>")
DECISIONS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "u for v": U,
    "i for j": J,
    "no macrons": ("nfc", "no-macrons"),
    "ligatures as two letters": LIGATURES,
    "no editors' brackets within words": BRACKETS,
    "lower case": ("lower",),
    "u, i, macrons, ligatures": ("nfc", "no-macrons", *U, *J, *LIGATURES),
    "the same, without brackets": ("nfc", "no-macrons", *U, *J, *LIGATURES, *BRACKETS),
    "the same, in lower case": ("nfc", "no-macrons", "v>u", "j>i", "æ>ae", "œ>oe", *BRACKETS, "lower"),
}
SIZES = (30_000, 50_000, 75_000, 100_000, 150_000)
GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
BRACKETED = re.compile(r"\w[\[\]<>{}†]+\w|[\[<{†]\w|\w[\]>}†]")
QUE = frozenset(
    [
        "atque",
        "neque",
        "quoque",
        "usque",
        "namque",
        "denique",
        "itaque",
        "utique",
        "uterque",
        "quisque",
        "undique",
        "absque",
        "cumque",
    ]
)
"""The words whose -que is not an enclitic, with compounds of -cumque, -quisque and -usque."""
VERSE = 60
"""The length in characters below which a line that ends no sentence counts as verse."""


def read(paths: list[Path], text: TextConfig, kept: Path) -> Ids:
    """Returns the text as ids, which are kept in a folder for the next call."""
    found = kept_ids(kept, paths, text)
    if found is None:
        found = make_ids(paths, text)
        kept.mkdir(parents=True, exist_ok=True)
        keep_ids(kept, found, paths, text)
    return found


def counts_of(ids: Ids) -> Counter[str]:
    return Counter(dict(ids.ranked()))


def respelled(words: Counter[str], steps: tuple[str, ...]) -> tuple[Counter[str], float]:
    """Returns the words in another spelling, and the share of tokens that it changes."""
    respell, found, changed = respell_function(steps), Counter[str](), 0
    for word, count in words.items():
        read = respell(word)
        found[read] += count
        changed += count * (read != word)
    return found, changed / words.total()


def unknown(words: Counter[str], known: Iterable[str]) -> float:
    """Returns the share of tokens that are not among the known words."""
    return 1 - sum(words[word] for word in set(known)) / words.total()


def ranked(words: Counter[str], size: int) -> list[str]:
    """Returns the vocabulary of a training text: the most frequent words that occur at least twice."""
    best = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:size]
    return [word for word, count in best if count > 1]


def spelling_rows(train: Counter[str], heldout: Counter[str], decisions: dict[str, tuple[str, ...]], size: int) -> list:
    rows = []
    for name, steps in decisions.items():
        words, changed = respelled(train, steps)
        held, changed_held = respelled(heldout, steps)
        share = unknown(held, ranked(words, size))
        rows.append([name, f"{changed:.2%}", f"{changed_held:.2%}", f"{len(words):,}", f"{share:.2%}"])
    return rows


def other_counts(words: Counter[str], paths: list[Path]) -> list[list[str]]:
    """Counts lines of verse, and the tokens that would change with decisions on what a token is."""
    lower = Counter[str]()
    for word, count in words.items():
        lower[word.lower().replace("v", "u")] += count
    total, rows = words.total(), []
    ends = {word for word in lower if word.endswith("que") and word not in QUE}
    ends -= {word for word in ends if word.endswith(("cumque", "quisque", "uterque", "usque"))}
    split = [word for word in ends if lower[word[:-3]] > 1]
    rows.append(["enclitic -que, its word known without it", f"{sum(lower[word] for word in split) / total:.2%}"])
    for name, kind in (("with Greek letters", GREEK), ("with editors' brackets", BRACKETED)):
        rows.append([name, f"{sum(count for word, count in words.items() if kind.search(word)) / total:.2%}"])
    capitals = sum(count for word, count in words.items() if len(word) > 1 and word.isupper())
    rows.append(["in capitals", f"{capitals / total:.2%}"])
    lines = [line for path in paths for line in corpus.file_lines(path) if line.strip()]
    verse = sum(len(line) < VERSE and line.rstrip("\"'”) ")[-1:] not in TERMINATORS for line in lines)
    rows.append([f"lines below {VERSE} characters that end no sentence", f"{verse / len(lines):.2%} of lines"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--train", action="append", required=True, metavar="TEXT")
    parser.add_argument("--heldout", action="append", required=True, metavar="TEXT")
    parser.add_argument("--language", default="la")
    parser.add_argument("--size", type=int, default=50_000, help="words of the vocabulary (default: 50000)")
    parser.add_argument("--step", action="append", default=[], metavar="NAME=STEP,STEP", help="instead of Latin's")
    parser.add_argument("--ids", type=Path, default=Path("spelling-ids"), help="keeps the texts as ids here")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    text = TextConfig(language=arguments.language)
    decisions = DECISIONS
    if arguments.step:
        named = dict(step.split("=", 1) for step in arguments.step)
        decisions = {"as it is": ()} | {name: tuple(steps.split(",")) for name, steps in named.items()}
    for steps in decisions.values():
        check_steps(steps)
    train_paths, heldout_paths = corpus.expand_patterns(arguments.train), corpus.expand_patterns(arguments.heldout)
    train = counts_of(read(train_paths, text, arguments.ids / "train"))
    heldout = counts_of(read(heldout_paths, text, arguments.ids / "heldout"))
    rows = spelling_rows(train, heldout, decisions, arguments.size)
    others = other_counts(train, train_paths)
    steps = list(decisions.values())[-1] if arguments.step else DECISIONS["u, i, macrons, ligatures"]
    own, held = respelled(train, steps)[0], respelled(heldout, steps)[0]
    sizes = [[f"{size:,}", f"{unknown(held, ranked(own, size)):.2%}"] for size in SIZES]
    if arguments.json:
        print(json.dumps({"spelling": rows, "tokens": others, "vocabulary": sizes}, ensure_ascii=False))
        return
    print(
        f"{train.total():,} tokens to train on, {heldout.total():,} held out; a vocabulary of {arguments.size:,} words"
    )
    head = ["spelling", "changes, train", "held out", "distinct words", "unknown, held out"]
    print_table(head, rows)
    print_table(["tokens of the training text", "share"], others)
    print_table(["vocabulary, u, i, macrons, ligatures", "unknown, held out"], sizes)


if __name__ == "__main__":
    main()
