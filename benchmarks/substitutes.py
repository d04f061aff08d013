"""Rules that rank substitutes, on held-out text: at which place of the list is the word that stood there?

    python benchmarks/substitutes.py english-base wiki.valid.txt.xz --positions 900

- Both directions' log-probabilities are added, and the log of a prior, times an exponent, is taken off: both directions
  know how frequent a word is, and the product would count that twice.
- `rank`: the prior by the word's place in the vocabulary (`log_uniform`); `bias`: the softmax of the softmax's bias
- `MRR` is the mean of 1 / rank among the known words, also over rare words (after the 10,000th); `bits` the mean of
  -log2 of the probability that the word gets; up to three positions of a sentence of 5 to 60 tokens, drawn by seed 0
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from elmo import formats
from elmo.model.lm_head import log_uniform
from elmo.pretraining.scoring import Scorer
from elmo.text import corpus
from elmo.text.characters import BOS, EOS
from elmo.text.tokenizer import Tokenizer

EXPONENTS = 0.0, 0.5, 0.75, 1.0
SENTENCES, RARE = 6002, 10_000


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--positions", type=int, default=900)
    given = parser.parse_args()
    model = formats.load(given.model)
    scorer = Scorer(model)
    sentences = corpus.sentences([given.text], Tokenizer(model.text or formats.load().text))  # type: ignore[arg-type]
    sentences = [each for each, _ in zip((s for s in sentences if 5 <= len(s) <= 60), range(SENTENCES), strict=False)]
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    targets: list[int] = []
    for each, target in drawn(scorer, sentences):
        for name, scores in rules(scorer, each):
            rank = 1 + int((scores > scores[target]).sum())
            found[name].append((1 / rank, -float(scores[target]) / math.log(2)))
        targets.append(target)
        if len(targets) >= given.positions:
            break
    rare = np.array(targets) > RARE
    print(f"{len(targets)} positions, {rare.sum()} of rare words\n")
    print("| rule | MRR | rare | in ten | bits |\n|---|---|---|---|---|")
    for name, rows in found.items():
        values = np.array(rows)
        mrr, bits = values.mean(0)
        ten = (values[:, 0] >= 0.1).mean()
        print(f"| {name} | {mrr:.3f} | {values[rare, 0].mean():.3f} | {ten:.3f} | {bits:.2f} |")


def drawn(scorer: Scorer, sentences: list[list[str]]) -> Iterator[tuple[torch.Tensor, int]]:
    """Positions of known words: both directions' log-probabilities (2, V), and the word's id."""
    rng = np.random.default_rng(0)
    for number in rng.permutation(len(sentences)):
        sentence = sentences[number]
        known = [place for place, word in enumerate(sentence) if word in scorer.vocabulary]
        if not known:
            continue
        places = rng.choice(known, min(3, len(known)), replace=False).tolist()
        for place, each in zip(places, scorer.distributions(sentence, places), strict=True):
            yield each, scorer.vocabulary.id(sentence[place])


def rules(scorer: Scorer, each: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The log-probabilities (V) of every rule; of other than known words they are -inf."""
    vocabulary = scorer.vocabulary
    special = torch.tensor([*vocabulary.ids([BOS, EOS]), vocabulary.unknown])
    product = torch.log_softmax(each.sum(0), dim=0)
    yield "product, `<UNK>` left out of the list only", product.index_fill(0, special, -torch.inf)
    bias = torch.log_softmax(scorer.lm_head.bias.double(), dim=0)
    priors = {"rank": log_uniform(len(vocabulary)).double().log(), "bias": bias}
    sums = {"forward only": each[0], "backward only": each[1]} | {
        f"product / prior by {name} ^ {exponent}": each.sum(0) - exponent * prior
        for name, prior in priors.items()
        for exponent in EXPONENTS
        if exponent or name == "rank"
    }
    for name, scores in sums.items():
        yield name, torch.log_softmax(scores.index_fill(0, special, -torch.inf), dim=0)


if __name__ == "__main__":
    main()
