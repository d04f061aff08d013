"""Compares rules that rank substitutes, on held-out text, by the place of the original word in the list.

    python benchmarks/substitutes.py english-base wiki.test.txt.xz --learn-on wiki.valid.txt.xz

- Both directions' log-probabilities are added, and the log of a prior, times an exponent, is subtracted, since both
  directions know how frequent a word is and the product would count that twice.
- `rank` is the prior by the word's place in the vocabulary (`log_uniform`); `bias` is the softmax of the bias alone.
- `learned` has the exponents (of the prior alone, or of all three factors) that give the words of another text the
  fewest bits, at as many positions.
- `MRR` is the mean of 1 / rank among the known words, also over rare words (after the 10,000th). `bits` is the mean of
  -log2 of the word's probability. Up to three positions of a sentence of 5 to 60 tokens are drawn with seed 0.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from elmo import formats
from elmo.model.lm_head import log_uniform
from elmo.pretraining.scoring import Scorer
from elmo.text import corpus
from elmo.text.characters import BOS, EOS
from elmo.text.tokenizer import Tokenizer

EXPONENTS = 0.0, 0.5, 0.75, 1.0, 1.25
SENTENCES, RARE = 6002, 10_000


Exponents = tuple[float, float, float]
"""The exponents of the forward probability, of the backward one, and of the prior in the denominator."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--learn-on", type=Path, help="another text, for the learned exponents")
    parser.add_argument("--positions", type=int, default=900)
    given = parser.parse_args()
    model = formats.load(given.model)
    scorer = Scorer(model)
    tokenizer = Tokenizer(model.text or formats.load().text)  # type: ignore[arg-type]
    exponents = {}
    if given.learn_on:
        exponents = learned(scorer, list(islice(drawn(scorer, read(given.learn_on, tokenizer)), given.positions)))
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    targets: list[int] = []
    for each, target in islice(drawn(scorer, read(given.text, tokenizer)), given.positions):
        for name, scores in rules(scorer, each, exponents):
            rank = 1 + int((scores > scores[target]).sum())
            found[name].append((1 / rank, -float(scores[target]) / math.log(2)))
        targets.append(target)
    rare = np.array(targets) > RARE
    print(f"{len(targets)} positions, {rare.sum()} of rare words\n")
    print("| rule | MRR | rare | in ten | bits |\n|---|---|---|---|---|")
    for name, rows in found.items():
        values = np.array(rows)
        mrr, bits = values.mean(0)
        ten = (values[:, 0] >= 0.1).mean()
        print(f"| {name} | {mrr:.3f} | {values[rare, 0].mean():.3f} | {ten:.3f} | {bits:.2f} |")


def read(text: Path, tokenizer: Tokenizer) -> list[list[str]]:
    """Returns the first sentences of a usual length."""
    return list(
        islice((each for each in corpus.corpus_sentences([text], tokenizer) if 5 <= len(each) <= 60), SENTENCES)
    )


def drawn(scorer: Scorer, sentences: list[list[str]]) -> Iterator[tuple[torch.Tensor, int]]:
    """Yields, at positions of known words, both directions' log-probabilities (2, V) and the word's id."""
    rng = np.random.default_rng(0)
    for number in rng.permutation(len(sentences)):
        sentence = sentences[number]
        known = [place for place, word in enumerate(sentence) if word in scorer.vocabulary]
        if not known:
            continue
        places = rng.choice(known, min(3, len(known)), replace=False).tolist()
        for place, each in zip(places, scorer.distributions(sentence, places), strict=True):
            yield each, scorer.vocabulary.id(sentence[place])


def learned(scorer: Scorer, positions: list[tuple[torch.Tensor, int]]) -> dict[str, Exponents]:
    """Returns the exponents with the fewest bits at these positions, of the prior alone and of all factors."""
    both = torch.stack([each.float() for each, _ in positions])  # its shape: N 2 V
    targets = torch.tensor([target for _, target in positions])
    prior, special = log_uniform(len(scorer.vocabulary)).log(), special_words(scorer)

    def fitted(is_free: torch.Tensor) -> Exponents:
        exponents = torch.ones(3, requires_grad=True)
        search = torch.optim.LBFGS([exponents], max_iter=30, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            search.zero_grad()
            ahead, behind, less = exponents * is_free + (1 - is_free)
            scores = ahead * both[:, 0] + behind * both[:, 1] - less * prior
            bits = torch.nn.functional.cross_entropy(scores.index_fill(1, special, -torch.inf), targets)
            bits.backward()
            return bits

        search.step(loss)
        ahead, behind, less = (exponents.detach() * is_free + (1 - is_free)).tolist()
        return ahead, behind, less

    found = [fitted(torch.tensor(free)) for free in ([0.0, 0.0, 1.0], [1.0, 1.0, 1.0])]
    return {f"learned: forward^{a:.2f} backward^{b:.2f} / prior^{c:.2f}": (a, b, c) for a, b, c in found}


def special_words(scorer: Scorer) -> torch.Tensor:
    """Returns the ids that stand for no known word."""
    return torch.tensor([*scorer.vocabulary.ids([BOS, EOS]), scorer.vocabulary.unknown])


def rules(scorer: Scorer, each: torch.Tensor, exponents: dict[str, Exponents]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the log-probabilities (V) of every rule, which are -inf for ids that stand for no known word."""
    special = special_words(scorer)
    product = torch.log_softmax(each.sum(0), dim=0)
    yield "product, `<UNK>` left out of the list only", product.index_fill(0, special, -torch.inf)
    bias = torch.log_softmax(scorer.lm_head.bias.detach().double(), dim=0)
    priors = {"rank": log_uniform(len(scorer.vocabulary)).double().log(), "bias": bias}
    sums = {"forward only": each[0], "backward only": each[1]} | {
        f"product / prior by {name} ^ {exponent}": each.sum(0) - exponent * prior
        for name, prior in priors.items()
        for exponent in EXPONENTS
        if exponent or name == "rank"
    }
    for name, (ahead, behind, less) in exponents.items():
        sums[name] = ahead * each[0] + behind * each[1] - less * priors["rank"]
    for name, scores in sums.items():
        yield name, torch.log_softmax(scores.index_fill(0, special, -torch.inf), dim=0)


if __name__ == "__main__":
    main()
