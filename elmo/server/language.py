"""The language model: /score and /substitutes."""

from starlette.requests import Request
from starlette.responses import Response

from elmo.errors import InputError
from elmo.pretraining.scoring import Scorer
from elmo.server import bodies
from elmo.server.answers import json_response
from elmo.server.openapi import Route
from elmo.server.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of one server; those that need a missing part name the remedy."""

    def scorer() -> Scorer:
        if service.scorer is None:
            raise InputError(f"the model {service.name} has no softmax over words; serve a model from elmo train")
        return service.scorer

    async def score(request: Request, body: bodies.Score) -> Response:
        """Natural log-probabilities of each token given the tokens before it, and given the tokens after it.

        A token that is not `known` has those of all unknown words together.
        """
        own, sentences = scorer(), await service.sentences(body.sentences)
        found = await service.call(lambda: list(own.score(sentences)), sentences)
        return await service.written(request, json_response, {"sentences": [vars(scores) for scores in found]})

    async def substitutes(request: Request, body: bodies.Substitutes) -> Response:
        """The most probable words in place of a token, among the known words."""
        own, (sentence,) = scorer(), await service.sentences([body.sentence])
        found = await service.call(lambda: own.substitutes(sentence, body.position, body.k, body.side), [sentence])
        content = {"tokens": sentence, "substitutes": [vars(each) for each in found]}
        return await service.written(request, json_response, content)

    return [
        Route("POST", "/score", score, bodies.Score),
        Route("POST", "/substitutes", substitutes, bodies.Substitutes),
    ]
