"""Makes expected.json: random cases, scored by programs that are not ours. Run where those are installed:

    pip install seqeval==1.2.2 scorch==0.2.0 torchmetrics==1.8.2 torch
    python tests/data/scores/make.py SRL_EVAL > tests/data/scores/expected.json

SRL_EVAL is the official script of CoNLL-2005, srl-eval.pl (Perl); allennlp-models 2.10.1 has it in its wheel.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import StatisticsError

from scorch.scores import b_cubed, ceaf_e, muc
from seqeval.metrics import f1_score, precision_score, recall_score
from torchmetrics.functional.text import squad

rng = random.Random(2018)
warnings.simplefilter("ignore")  # of nothing predicted


def tags(length: int) -> list[str]:
    """Many of them broken BIO."""
    return [rng.choice(["O", "O", "B-X", "I-X", "I-X", "B-Y", "I-Y"]) for _ in range(length)]


def span_case() -> dict:
    lengths = [rng.randint(1, 9) for _ in range(4)]
    gold = [tags(length) for length in lengths]
    guess = [tags(length) if rng.random() < 0.5 else sentence for sentence, length in zip(gold, lengths, strict=True)]
    scores = [100 * score(gold, guess) for score in (precision_score, recall_score, f1_score)]
    return {"gold": gold, "predicted": guess, "scores": scores}


def role_tags(length: int) -> list[str]:
    result: list[str] = []
    while len(result) < length:
        kind = rng.choice(["A0", "A1", "C-A0", "C-A1", "C-A2", "V", "C-V", "AM-TMP"])
        size = rng.randint(1, 3)
        result += ["O"] * size if rng.random() < 0.3 else [f"B-{kind}"] + [f"I-{kind}"] * (size - 1)
    return result[:length]


def mended(sentence: list[str]) -> list[str]:
    """I- is made B- where no chunk of its type is open."""
    return [
        f"B{tag[1:]}" if tag[0] == "I" and before[1:] != tag[1:] else tag
        for before, tag in zip(["O", *sentence], sentence, strict=False)
    ]


def props(sentence: list[str]) -> str:
    """The column of arguments of srl-eval.pl, beside the target verb."""
    cells = []
    for place, tag in enumerate(sentence):
        after = sentence[place + 1] if place + 1 < len(sentence) else "O"
        opening = f"({tag[2:]}" if tag[0] == "B" else ""
        cells.append(f"{opening}*{')' if tag != 'O' and after[0] != 'I' else ''}")
    return "".join(f"{'do' if place == 0 else '-'}\t{cell}\n" for place, cell in enumerate(cells)) + "\n"


def role_case(script: str) -> dict:
    length = rng.randint(3, 14)
    gold = role_tags(length)
    guess = mended([*gold[: length // 2], *role_tags(length)[length // 2 :]])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "gold", Path(folder) / "guess"]
        for file, sentence in zip(files, (gold, guess), strict=True):
            file.write_text(props(sentence))
        output = subprocess.run(["perl", script, *files], capture_output=True, text=True, check=True).stdout
    counts = re.search(r"Overall +(\d+) +(\d+) +(\d+)", output)
    assert counts
    return {"gold": gold, "predicted": guess, "correct_excess_missed": [int(count) for count in counts.groups()]}


def clusters() -> list[list[int]]:
    mentions = rng.sample(range(12), rng.randint(2, 10))
    parts: dict[int, list[int]] = {}
    for mention in mentions:
        parts.setdefault(rng.randint(0, 4), []).append(mention)
    return list(parts.values())


def coref_case() -> dict:
    gold, guess = clusters(), clusters()
    sets = [set(cluster) for cluster in gold], [set(cluster) for cluster in guess]
    metrics = {"muc": muc, "b3": b_cubed, "ceaf": ceaf_e}
    try:
        scores = {name: [100 * part for part in metric(*sets)] for name, metric in metrics.items()}
    except StatisticsError:  # scorch has no F1 where nothing is right
        return coref_case()
    return {"gold": gold, "predicted": guess, "recall_precision_f1": scores}


WORDS = [
    "the",
    "The",
    "a",
    "an",
    "Tarn",
    "tarn.",
    "mill-race",
    "3.5",
    "3,500",
    "(m)",
    "né",
    "rose,",
    "U.S.",
    "and",
    "$",
]


def squad_case() -> dict:
    # No answer is empty when normalised: there torchmetrics has SQuAD 2.0's rule, not the one of 1.1.
    answers = [" ".join([*rng.choices(WORDS, k=rng.randint(0, 3)), "mill"]) for _ in range(rng.randint(1, 3))]
    words = rng.choice(answers).split()
    kept = words if rng.random() < 0.3 else rng.sample(words, rng.randint(0, len(words)))
    text = " ".join([*kept, *rng.choices(WORDS, k=rng.randint(0, 2))]) + rng.choice(["", " ", "."])
    target = [{"answers": {"text": answers, "answer_start": [0] * len(answers)}, "id": "q"}]
    scores = squad([{"prediction_text": text, "id": "q"}], target)
    return {"answers": answers, "predicted": text, "scores": [float(scores["exact_match"]), float(scores["f1"])]}


def main() -> None:
    cases = {
        "spans": [span_case() for _ in range(20)],
        "roles": [role_case(sys.argv[1]) for _ in range(40)],
        "coref": [coref_case() for _ in range(20)],
        "squad": [squad_case() for _ in range(40)],
    }
    lines = (f"{json.dumps(kind)}: [\n" + ",\n".join(map(json.dumps, found)) + "\n]" for kind, found in cases.items())
    print("{\n" + ",\n".join(lines) + "\n}")  # noqa: T201


if __name__ == "__main__":
    main()
