"""The routes of the language model: /score and /substitutes."""

from itertools import islice
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elmo.embedding.texts import SplitText
from elmo.errors import InputError
from elmo.pretraining.scoring import Scorer, Scores
from elmo.server import bodies
from elmo.server.answers import json_response
from elmo.server.openapi import Route
from elmo.server.service import Service


def routes(service: Service) -> list[Route]:
    """Returns the routes of one server; those that need a missing part name the remedy."""

    def scorer() -> Scorer:
        if service.scorer is None:
            raise InputError(f"the model {service.name} has no softmax over words; serve a model from elmo train")
        return service.scorer

    async def score(request: Request, body: bodies.Score) -> Response:
        """Natural log-probabilities of each token given those before it, and given those after it, in its sentence.

        A token that is not `known` has those of all unknown words together. `end` and `begin` are those of each
        sentence's two ends.
        """
        own, splits = scorer(), await service.split(body.sentences, lines=body.lines)
        parts = [split.tokens[first:last] for split in splits for first, last in split.sentences or [(0, 0)]]
        found = iter(await service.call(lambda: list(own.score(parts)), splits))
        rows = [_row(split, list(islice(found, max(1, len(split.sentences))))) for split in splits]
        return await service.written(request, json_response, {"sentences": rows})

    async def substitutes(request: Request, body: bodies.Substitutes) -> Response:
        """The most probable words in place of a token, among the known words."""
        own, (split,) = scorer(), await service.split([body.sentence], lines=body.lines)
        sentence, place = split.part(body.position)
        found = await service.call(lambda: own.substitutes(sentence, place, body.k, body.side), [split])
        content = {"tokens": split.tokens, "substitutes": [vars(each) for each in found]}
        return await service.written(request, json_response, content)

    return [
        Route("POST", "/score", score, bodies.Score),
        Route("POST", "/substitutes", substitutes, bodies.Substitutes),
    ]


def _row(split: SplitText, scores: list[Scores]) -> dict[str, Any]:
    """Joins the scores of all sentences of a text."""
    row: dict[str, Any] = {"tokens": split.tokens, "sentence_ends": split.ends}
    row |= {name: np.concatenate([vars(each)[name] for each in scores]) for name in ("forward", "backward", "known")}
    return row | {name: [vars(each)[name] for each in scores] for name in ("end", "begin")}
