"""Coreference scores in percent, counted like CoNLL's reference scorer (Pradhan et al. 2014, version 8.01).

- MUC (Vilain et al. 1995): links
- B3 (Bagga and Baldwin 1998): mentions
- CEAF with phi4 (Luo 2005): entities, aligned one to one
- the mean of the three F1, the score of CoNLL-2012
"""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from elmo.errors import InputError
from elmo_lab.tasks.scores import Counts

Clusters = Iterable[Iterable[Hashable]]


def coref_scores(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> dict[str, float]:
    """Scores: `f1`, the mean of the three F1; `muc_precision`, `muc_recall`, `muc_f1`; the same of `b3`, `ceaf`.

    Counts are summed over documents. A mention that occurs twice in a document's clusters counts at its first
    occurrence. Singletons are entities for B3 and CEAF; MUC ignores them.
    """
    muc_counts, b3_counts, ceaf_counts = Counts(), Counts(), Counts()
    for key, response in zip(gold, predicted, strict=True):
        clusters = _distinct(key), _distinct(response)
        muc_counts += muc(*clusters)
        b3_counts += b3(*clusters)
        ceaf_counts += ceaf(*clusters)
    parts = {"muc": muc_counts, "b3": b3_counts, "ceaf": ceaf_counts}
    scores = {"f1": sum(counts.f1 for counts in parts.values()) / len(parts)}
    for name, counts in parts.items():
        scores |= counts.named(f"{name}_")
    return scores


def muc(gold: Sequence[set], predicted: Sequence[set]) -> Counts:
    """Links of one side's clusters that the other side has, too."""
    return Counts(
        _links_kept(predicted, gold), sum(map(_links, predicted)), _links_kept(gold, predicted), sum(map(_links, gold))
    )


def b3(gold: Sequence[set], predicted: Sequence[set]) -> Counts:
    """The share of each mention's cluster that is also in its cluster on the other side, summed over mentions."""
    return Counts(
        _mentions_shared(predicted, gold),
        sum(map(len, predicted)),
        _mentions_shared(gold, predicted),
        sum(map(len, gold)),
    )


def ceaf(gold: Sequence[set], predicted: Sequence[set]) -> Counts:
    """The largest sum of similarities (phi4) over one-to-one alignments of clusters."""
    similarity = _best_alignment([[_phi4(key, response) for response in predicted] for key in gold])
    return Counts(similarity, len(predicted), similarity, len(gold))


def _distinct(clusters: Clusters) -> list[set]:
    seen: set[Hashable] = set()
    result = []
    for cluster in clusters:
        mentions = set(cluster) - seen
        seen |= mentions
        if mentions:
            result.append(mentions)
    return result


def _links(cluster: set) -> int:
    return len(cluster) - 1


def _places(clusters: Sequence[set]) -> dict[Hashable, int]:
    """The cluster index of each mention."""
    return {mention: number for number, cluster in enumerate(clusters) for mention in cluster}


def _links_kept(clusters: Sequence[set], others: Sequence[set]) -> int:
    """Size minus number of parts that the others split it into, summed over clusters; an unknown mention is a part."""
    places = _places(others)
    parts = ({places.get(mention, (mention,)) for mention in cluster} for cluster in clusters)
    return sum(len(cluster) - len(part) for cluster, part in zip(clusters, parts, strict=True))


def _mentions_shared(clusters: Sequence[set], others: Sequence[set]) -> float:
    places = _places(others)
    total = 0.0
    for cluster in clusters:
        touched = {places[mention] for mention in cluster if mention in places}
        total += sum(len(cluster & others[place]) ** 2 for place in touched) / len(cluster)
    return total


def _phi4(key: set, response: set) -> float:
    return 2 * len(key & response) / (len(key) + len(response))


def _best_alignment(similarities: Sequence[Sequence[float]]) -> float:
    """The largest sum of entries with no two in the same row or column."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise InputError(f"CEAF (coreference) needs SciPy ({error}): pip install 'elmo-torch[tasks]'") from error
    if not similarities or not similarities[0]:
        return 0.0
    matrix = np.array(similarities)
    return float(matrix[linear_sum_assignment(matrix, maximize=True)].sum())
