"""Scores coreference in percent, and counts like CoNLL's reference scorer (Pradhan et al. 2014, version 8.01).

- MUC (Vilain et al. 1995) counts links.
- B3 (Bagga and Baldwin 1998) counts mentions.
- CEAF with phi4 (Luo 2005) counts entities, aligned one to one.
- The score of CoNLL-2012 is the mean of the three F1.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence

import numpy as np

from elmo.errors import InputError, pip_line
from elmo_lab.tasks.scores import Counts

Clusters = Iterable[Iterable[Hashable]]
Cluster = Collection[Hashable]


def coref_scores(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> dict[str, float]:
    """Returns `f1`, the mean of the three F1, `muc_precision`, `muc_recall`, `muc_f1`, and the same of `b3` and `ceaf`.

    Counts are summed over documents. Singletons are entities for B3 and CEAF; MUC ignores them. A gold mention in
    several clusters counts in each, but a predicted one corefers with the last of them alone; of a predicted mention
    that is gold, only the first occurrence counts. That is what the reference scorer does, not what its papers define.
    """
    muc_counts, b3_counts, ceaf_counts = Counts(), Counts(), Counts()
    for key, response in zip(gold, predicted, strict=True):
        entities = [mentions for cluster in key if (mentions := list(cluster))]
        clusters = [entities, _without_repeated(response, {mention for cluster in entities for mention in cluster})]
        muc_counts += muc(*clusters)
        b3_counts += b3(*clusters)
        ceaf_counts += ceaf(*clusters)
    parts = {"muc": muc_counts, "b3": b3_counts, "ceaf": ceaf_counts}
    scores = {"f1": sum(counts.f1 for counts in parts.values()) / len(parts)}
    for name, counts in parts.items():
        scores |= counts.named(f"{name}_")
    return scores


def muc(gold: Sequence[Cluster], predicted: Sequence[Cluster]) -> Counts:
    """Counts the links of the predicted clusters that the gold ones have, too."""
    places = _places(gold)
    parts = (Counter(places[mention] for mention in cluster if mention in places) for cluster in predicted)
    right = sum(size - 1 for part in parts for size in part.values())
    return Counts(right, sum(map(_links, predicted)), right, sum(map(_links, gold)))


def b3(gold: Sequence[Cluster], predicted: Sequence[Cluster]) -> Counts:
    """Sums, over mentions, the share of a mention's cluster that is also in its cluster on the other side."""
    places = _places(gold)
    right_of_predicted = right_of_gold = 0.0
    for cluster in predicted:
        for place, mentions in Counter(places[mention] for mention in cluster if mention in places).items():
            shared = len(_common(cluster, gold[place]))
            right_of_predicted += mentions * shared / len(cluster)
            right_of_gold += mentions * shared / len(gold[place])
    return Counts(right_of_predicted, sum(map(len, predicted)), right_of_gold, sum(map(len, gold)))


def ceaf(gold: Sequence[Cluster], predicted: Sequence[Cluster]) -> Counts:
    """Finds the largest sum of similarities (phi4) over one-to-one alignments of clusters."""
    similarity = _best_alignment([[_phi4(key, response) for response in predicted] for key in gold])
    return Counts(similarity, len(predicted), similarity, len(gold))


def _without_repeated(clusters: Clusters, known: set[Hashable]) -> list[list[Hashable]]:
    """The clusters, without the later occurrences of mentions that are known."""
    seen: set[Hashable] = set()
    result = []
    for cluster in clusters:
        kept = []
        for mention in cluster:
            if mention not in seen:
                kept.append(mention)
                seen |= {mention} & known
        if kept:
            result.append(kept)
    return result


def _links(cluster: Cluster) -> int:
    return len(cluster) - 1


def _places(clusters: Sequence[Cluster]) -> dict[Hashable, int]:
    """The index of each mention's cluster, which is the last one if the mention is in several."""
    return {mention: number for number, cluster in enumerate(clusters) for mention in cluster}


def _common(cluster: Cluster, other: Cluster) -> list[Hashable]:
    """The mentions of a cluster that are in the other one, too."""
    known = set(other)
    return [mention for mention in cluster if mention in known]


def _phi4(key: Cluster, response: Cluster) -> float:
    return 2 * len(_common(key, response)) / (len(key) + len(response))


def _best_alignment(similarities: Sequence[Sequence[float]]) -> float:
    """The largest sum of entries, no two of which are in the same row or column."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise InputError(f"CEAF (coreference) needs SciPy ({error}): {pip_line('tasks')}") from error
    if not similarities or not similarities[0]:
        return 0.0
    matrix = np.array(similarities)
    return float(matrix[linear_sum_assignment(matrix, maximize=True)].sum())
