"""Coreference: spans, pruning and likelihood by brute force, a document learned by heart, and what must not matter."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refusals import refused
from toy_inputs import toy_inputs

from elmo_lab.tasks import coref
from elmo_lab.tasks import coref_spans as spans
from elmo_lab.tasks.coref import CorefConfig, CorefModel, CorefPrediction, Example
from elmo_lab.tasks.coref_spans import Span
from elmo_lab.tasks.inputs import Tokens

TEXT = (
    ("The", "miller", "met", "a", "fox", "."),
    ("It", "bit", "him", ",", "and", "he", "cursed", "the", "fox", "'s", "teeth", "."),
    ("Nobody", "came", "."),
    ("Old", "miller", "went", "home", "without", "it", "."),
)
CLUSTERS = (((0, 1), (8, 8), (11, 11), (21, 22)), ((3, 4), (6, 6), (13, 14), (26, 26)))
SPEAKERS = tuple(tuple("-" if number % 2 else "narrator" for _ in tokens) for number, tokens in enumerate(TEXT))
FABLE = Example("fable", TEXT, CLUSTERS, SPEAKERS, "story")
NEWS_TEXT = (("Rain", "stopped", "the", "fair", "."), ("It", "will", "reopen", "."))
NEWS = Example("news", NEWS_TEXT, (((2, 3), (5, 5)),), tuple(("",) * len(tokens) for tokens in NEWS_TEXT), "news")
SMALL = CorefConfig(hidden_size=20, feed_forward=(30,), feature_dim=4, max_width=2, spans_per_token=2.0, dropout=0.0)
WORDS = [token for sentence in (*TEXT, *NEWS_TEXT) for token in sentence]


def toy(
    elmo: str = "none", config: CorefConfig = SMALL, tuned: bool = False
) -> tuple[CorefModel, Callable[[list[Example]], Tokens]]:
    collate, inputs = toy_inputs(WORDS, elmo, tuned)
    model = CorefModel(config, inputs, coref.labels_of([FABLE, NEWS]))
    return model, lambda examples: collate([tokens for example in examples for tokens in coref.TASK.sentences(example)])


def whole(example: Example) -> coref.DocumentPart:
    return coref.DocumentPart(example, 0, len(example.sentences))


# Spans


def test_candidates() -> None:
    assert spans.candidates([3, 0, 2], 2).pairs() == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (3, 3), (3, 4), (4, 4)]
    assert spans.candidates([], 5).pairs() == []
    assert len(spans.candidates([5], 10).pairs()) == 15


def cross(one: Span, other: Span) -> bool:
    return one[0] < other[0] <= one[1] < other[1] or other[0] < one[0] <= other[1] < one[1]


@pytest.mark.parametrize("limit", [0, 1, 4, 9, 100])
def test_prune_takes_the_best_that_cross_none_before(limit: int) -> None:
    for _ in range(20):
        found = spans.candidates([6, 1, 5], 5)
        scores = torch.randn(len(found.first))
        expected: list[Span] = []
        for _, span in sorted(zip((-scores).tolist(), found.pairs(), strict=True)):
            if len(expected) < limit and not any(cross(span, other) for other in expected):
                expected.append(span)
        assert found.at(spans.prune(found, scores, limit)).pairs() == sorted(expected)


def test_distance_bins() -> None:
    distances = torch.tensor([1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 1000])
    assert spans.distance_bins(distances).tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]


def test_antecedents_are_those_right_before() -> None:
    rows, mask = spans.antecedents(4, 2)
    assert [some[there].tolist() for some, there in zip(rows, mask, strict=True)] == [[], [0], [1, 0], [2, 1]]
    for n_spans in (0, 1):
        rows, mask = spans.antecedents(n_spans, 2)
        assert rows.shape == mask.shape == (n_spans, 0)


def test_marginal_likelihood_by_enumeration() -> None:
    """The probability of all ways to choose antecedents in which every choice is a gold one."""
    clusters = [0, -1, 0, 1, 0, 1]
    n_spans, limit = len(clusters), 3
    scores = torch.randn(n_spans, limit, dtype=torch.double)
    rows, mask = spans.antecedents(n_spans, limit)
    gold = spans.same_cluster(torch.tensor(clusters), rows, mask)
    value = {(i, int(rows[i, k])): float(scores[i, k]) for i in range(n_spans) for k in range(limit) if mask[i, k]}
    choices = [[None, *(j for i_, j in value if i_ == i)] for i in range(n_spans)]

    def is_gold(i: int, j: int | None) -> bool:
        right = [k for k in choices[i] if k is not None and clusters[i] >= 0 and clusters[k] == clusters[i]]
        return j in right if right else j is None

    weights = [
        (math.exp(sum(value.get((i, j), 0.0) for i, j in enumerate(way) if j is not None)), way)
        for way in itertools.product(*choices)
    ]
    good = sum(weight for weight, way in weights if all(is_gold(i, j) for i, j in enumerate(way)))
    found = spans.marginal_log_likelihood(scores, mask, gold).sum()
    assert float(found) == pytest.approx(math.log(good / sum(weight for weight, _ in weights)))


def options_of(ranking: coref.Ranking) -> dict[Span, dict[Span | None, float]]:
    """The antecedents of every span, each with the exponential of its score; the dummy has a score of 0."""
    pairs, found = ranking.spans.pairs(), {}
    for span, *parts in zip(pairs, ranking.scores, ranking.rows, ranking.mask, strict=True):
        listed = zip(*(part.tolist() for part in parts), strict=True)
        found[span] = {None: 1.0} | {pairs[row]: math.exp(score) for score, row, there in listed if there}
    return found


@torch.no_grad()
def test_the_loss_is_minus_the_likelihood_of_the_gold_antecedents() -> None:
    """By hand from the network's own scores: the dummy is right where no antecedent is."""
    model, collate = toy()
    model.eval()
    gold, expected = NEWS.clusters[0], 0.0
    for span, options in options_of(next(model.rankings(collate([NEWS]), [whole(NEWS)]))).items():
        right = [other for other in options if other in gold] if span in gold else []
        good = sum(options[other] for other in right or [None])
        expected -= math.log(good / sum(options.values()))
    assert float(model.loss(collate([NEWS]), [NEWS])) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("share", "antecedents"), [(0.4, 3), (1.0, 2)])
def test_spans_and_antecedents_are_limited(share: float, antecedents: int) -> None:
    config = replace(SMALL, spans_per_token=share, max_antecedents=antecedents)
    model, collate = toy(config=config)
    ranking = next(iter(model.eval().rankings(collate([FABLE]), [whole(FABLE)])))
    assert len(ranking.spans.pairs()) == int(share * sum(map(len, TEXT)))
    assert ranking.scores.shape[1] == antecedents


def test_clusters_of_links() -> None:
    a, b, c, d, e, f = ((place, place) for place in range(6))
    links = {a: None, b: a, c: None, d: b, e: c, f: None}
    assert spans.clusters_of(links) == ((a, b, d), (c, e))
    assert spans.clusters_of({c: a, d: b, e: c} | {d: c}) == ((a, c, d, e),)
    assert spans.clusters_of({c: a, d: b, (4, 6): b, (4, 7): a}) == ((a, c, (4, 7)), (b, d, (4, 6)))
    assert spans.clusters_of({}) == ()


# The network


def test_pairs_are_scored_as_if_joined() -> None:
    """The first layer, taken part by part, is that of the paper's one long vector."""
    scorer = CorefModel(SMALL, toy()[0].inputs, coref.labels_of([FABLE])).pair.eval()
    vectors = torch.randn(5, scorer.sizes[0])
    span, before = torch.tensor([1, 2, 4, 4]), torch.tensor([0, 0, 3, 1])
    features = [torch.tensor([0, 1, 0, 2]), torch.tensor([0, 1, 2, 0]), torch.tensor([1, 1, 1, 1])]
    looked_up = [table(rows) for table, rows in zip(scorer.features, features, strict=True)]
    joined = torch.cat([vectors[span], vectors[before], vectors[span] * vectors[before], *looked_up], dim=1)
    torch.testing.assert_close(
        scorer(vectors, span, before, features), scorer.others(scorer.first(joined).relu()).squeeze(1)
    )


def test_span_representation() -> None:
    """Ends, attended words and width, by hand for every span of a document."""
    model, collate = toy()
    tokens = collate([NEWS])
    model.eval()
    words, _ = model.inputs(tokens)
    states = model.encoder(words, tokens.lengths)
    words, states = words[tokens.mask], states[tokens.mask]
    found = spans.candidates([5, 4], SMALL.max_width)
    attention = model.attention(states).squeeze(1)
    described = model.describe(found, words, states)
    for row, (first, last) in zip(described.vectors(), found.pairs(), strict=True):
        head = attention[first : last + 1].softmax(0) @ words[first : last + 1]
        expected = torch.cat([states[first], states[last], head, model.widths.weight[last - first]])
        torch.testing.assert_close(row, expected)
    torch.testing.assert_close(model.score_mentions(described), model.mention(described.vectors()).squeeze(1))
    kept = torch.tensor([2, 5])
    assert torch.equal(described.at(kept).vectors(), described.vectors()[kept])


def test_speakers_and_genre_are_seen() -> None:
    model, collate = toy()
    model.eval()

    def scores(example: Example) -> torch.Tensor:
        return next(model.rankings(collate([example]), [whole(example)])).scores

    alone = tuple(tuple("narrator" for _ in tokens) for tokens in TEXT)
    assert not torch.allclose(scores(FABLE), scores(replace(FABLE, speakers=alone)))
    assert not torch.allclose(scores(FABLE), scores(replace(FABLE, genre="news")))
    torch.testing.assert_close(scores(replace(FABLE, genre="song")), scores(replace(FABLE, genre="unheard")))
    assert not model.pair.features[2].weight[0].any(), "what training never sees is not a draw by chance"


def test_distance_is_that_of_the_kept_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    model, collate = toy()
    seen, score = [], model.pair.forward

    def scored(vectors, span, before, features):
        seen.append((span - before, features[0]))
        return score(vectors, span, before, features)

    monkeypatch.setattr(model.pair, "forward", scored)
    next(model.eval().rankings(collate([FABLE]), [whole(FABLE)]))
    ((apart, bins),) = seen
    assert (apart.min(), apart.max() > 8) == (1, True)
    assert torch.equal(bins, spans.distance_bins(apart))


@pytest.mark.parametrize("tuned", [False, True])
def test_a_window_is_a_document_of_its_own(tuned: bool) -> None:
    """A part in the middle is scored as if the file had nothing else, with its spans where they are in the document."""
    model, collate = toy("both", tuned=tuned)
    model.eval()
    ranking = next(model.rankings(collate([FABLE]), [coref.DocumentPart(FABLE, 1, 3)]))
    cut = replace(FABLE, sentences=TEXT[1:3], speakers=SPEAKERS[1:3], clusters=())
    expected = next(model.rankings(collate([cut]), [coref.DocumentPart(cut, 0, 2)]))
    torch.testing.assert_close(ranking.scores, expected.scores)
    assert ranking.spans.pairs() == [(first + 6, last + 6) for first, last in expected.spans.pairs()]


def test_training_reads_every_window_and_others_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, collate = toy(config=replace(SMALL, window=2))
    read: list[tuple[int, int]] = []
    rankings = model.rankings

    def spy(tokens: Tokens, parts: list[coref.DocumentPart]) -> object:
        read.extend((part.begin, part.end) for part in parts)
        return rankings(tokens, parts)

    monkeypatch.setattr(model, "rankings", spy)
    for _ in range(30):
        model.loss(collate([FABLE, NEWS]), [FABLE, NEWS])
    assert set(read) == {(0, 2), (1, 3), (2, 4)}
    read.clear()
    model.eval().loss(collate([FABLE]), [FABLE])
    assert read == [(0, 4)]


def test_nothing_and_one_token() -> None:
    model, collate = toy("both")
    nothing = Example("nothing", (), (), ())
    blank = Example("blank", ((), ()), (), ((), ()))
    word = Example("word", (("Rain",),), (), (("",),))
    for examples in ([nothing], [blank], [word], [nothing, word, blank, NEWS]):
        model.train()
        model.loss(collate(examples), examples).backward()
        predictions = model.eval().decode(collate(examples), examples)
        assert [prediction.clusters for prediction in predictions[:3]] == [()] * min(3, len(examples))


@torch.no_grad()
def test_a_document_without_labels_is_decoded_with_probabilities() -> None:
    """The best antecedent of every span, and its share among all."""
    model, collate = toy()
    example = coref.unlabelled(TEXT)
    assert example.sentences == TEXT
    (prediction,) = model.eval().decode_probable(collate([example]), [example])
    options = options_of(next(model.rankings(collate([example]), [whole(example)])))
    assert dict(prediction.links) == {span: max(each, key=each.__getitem__) for span, each in options.items()}
    shares = [options[span][before] / sum(options[span].values()) for span, before in prediction.links]
    assert prediction.probabilities == pytest.approx(shares, rel=1e-4)


def test_combine() -> None:
    a, b, c = (0, 0), (1, 1), (2, 2)
    links = [{a: None, b: a, c: a}, {a: None, b: a, c: b}, {a: None, c: None}]
    members = [[CorefPrediction(spans.clusters_of(link), tuple(sorted(link.items())))] for link in links]
    combined = coref.combine(members)
    assert dict(combined[0].links) == {a: None, b: a, c: a}
    assert coref.combine([members[2], members[2], members[0]])[0].clusters == ()
    assert coref.combine([members[2], members[0], members[0]]) == combined, "though the first one has no span b"


@pytest.mark.parametrize("name", ["out.conll", "out.jsonl", "OUT.JSONL.GZ"])
def test_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    coref.write(path, [replace(FABLE, clusters=None), NEWS], [CorefPrediction(CLUSTERS), CorefPrediction(())])
    fable, news = coref.read(path)
    assert fable.clusters == CLUSTERS
    assert fable.sentences == TEXT
    assert news.clusters == ()
    coref.check([fable, news], coref.labels_of([fable]), path)
    with refused(name, "mention"):
        coref.check([news], coref.labels_of([fable]), path)


def test_an_ensemble_leaves_out_a_link_that_would_join_spans_that_cross() -> None:
    """A mention that closes within another of its cluster, which was opened later, has no brackets of its own."""
    one, other, between = (0, 2), (1, 3), (1, 1)
    assert spans.clusters_of({one: None, between: one, other: between}) == (((0, 2), (1, 1)),)
    assert spans.clusters_of({one: None, between: one, other: None}) == (((0, 2), (1, 1)),)
    assert spans.clusters_of({one: None, (1, 2): one, (0, 3): (1, 2)}) == (((0, 2), (0, 3), (1, 2)),)
