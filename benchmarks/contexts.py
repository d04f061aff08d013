"""Measures how well cosines tell a word's sense, by layer: within a sense, between senses, and of unrelated words.

    python benchmarks/contexts.py english-base semcor.data.xml.xz --forms 150

- The words are forms with two senses of at least two uses each, drawn with seed 0. Up to six uses of each of the two
  commonest senses are taken.
- A triple is a use, another use in its sense, and one in the other sense. `nearer` is the share of triples in which the
  same sense is nearer (0.5 is chance). It is the mean over forms, with the interval of 95 % of 2,000 bootstrap samples.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

import elmo
from elmo_lab.probes.wsd_readers import read_labelled

Use = tuple[tuple[str, ...], int, str]
"""The tokens of a sentence, the place of a word in it, and the word's sense."""
EACH = 6
SAME = 1e-6
"""The difference below which cosines are equal: at layer 0, the uses of a form differ by rounding alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("semcor", type=Path)
    parser.add_argument("--forms", type=int, default=150)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    picked = drawn(given.semcor, given.forms, rng)
    uses = [use for groups in picked for group in groups for use in group]
    embedder = elmo.load(given.model, device="cpu")
    read = embedder.embed_stream([tokens for tokens, _, _ in uses])
    vectors = np.stack([array[:, place] for array, (_, place, _) in zip(read, uses, strict=True)]).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)  # its shape: uses, layers, dimensions
    forms = np.repeat(np.arange(len(picked)), [sum(map(len, groups)) for groups in picked])
    senses = np.concatenate([np.repeat([0, 1], list(map(len, groups))) for groups in picked])
    pairs = rng.integers(0, len(uses), (3000, 2))
    words = np.array([tokens[place].lower() for tokens, place, _ in uses])
    pairs = pairs[words[pairs[:, 0]] != words[pairs[:, 1]]]
    print(f"{len(picked)} forms, {len(uses):,} uses\n\n| layer | same sense | other | unrelated | nearer |")
    print("|---|---|---|---|---|")
    for layer in range(vectors.shape[1]):
        rows = np.array([of_form(vectors[forms == form, layer], senses[forms == form]) for form in range(len(picked))])
        unrelated = (vectors[pairs[:, 0], layer] * vectors[pairs[:, 1], layer]).sum(1).mean()
        samples = [rng.choice(rows[:, 2], len(rows)).mean() for _ in range(2000)]
        low, high = np.quantile(samples, [0.025, 0.975])
        same, other, nearer = rows.mean(0)
        print(f"| {layer} | {same:.3f} | {other:.3f} | {unrelated:.3f} | {nearer:.3f} [{low:.3f}, {high:.3f}] |")


def drawn(path: Path, most: int, rng: np.random.Generator) -> list[list[list[Use]]]:
    """Returns the uses of the two commonest senses of each form."""
    uses: dict[tuple[str, str, str], dict[str, list[Use]]] = defaultdict(lambda: defaultdict(list))
    for labelled in read_labelled(path):
        tokens = labelled.sentence.tokens
        for word, keys in zip(labelled.sentence.instances, labelled.keys, strict=True):
            if len(tokens) <= 60 and word.end - word.begin == 1 and len(keys) == 1:
                form = tokens[word.begin].lower(), word.lemma, word.pos
                uses[form][keys[0]].append((tokens, word.begin, keys[0]))
    ranked = [sorted((g for g in uses[form].values() if len(g) >= 2), key=len)[-2:] for form in sorted(uses)]
    ranked = [groups for groups in ranked if len(groups) == 2]
    rng.shuffle(ranked)
    return [[[group[i] for i in rng.permutation(len(group))[:EACH]] for group in groups] for groups in ranked[:most]]


def of_form(vectors: np.ndarray, senses: np.ndarray) -> tuple[float, float, float]:
    """Returns mean cosines within a sense and between both, and the share of triples whose same sense is nearer."""
    cosines = vectors @ vectors.T
    is_same = senses[:, None] == senses
    upper = np.triu(np.ones(is_same.shape, dtype=bool), 1)
    others = is_same & ~np.eye(len(senses), dtype=bool)
    nearer = [
        0.5 if abs(near - far) < SAME else float(near > far)
        for own, same, other in zip(cosines, others, ~is_same, strict=True)
        for near in own[same]
        for far in own[other]
    ]
    return cosines[is_same & upper].mean(), cosines[~is_same & upper].mean(), float(np.mean(nearer))


if __name__ == "__main__":
    main()
