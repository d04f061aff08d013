"""The routes that find uses of words in an index: /neighbors and /uses."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmo.errors import InputError
from elmo.search import nearest
from elmo.search.index import Index, Query
from elmo.server import bodies
from elmo.server.answers import json_response
from elmo.server.openapi import Route
from elmo.server.service import Service


def routes(service: Service) -> list[Route]:
    """Returns the routes of one server; without an index, they name the remedy."""

    def index() -> Index:
        if service.index is None:
            raise InputError("this server has no index; start it with --index FOLDER, the output of elmo index")
        return service.index

    async def neighbors(request: Request, body: bodies.Neighbors) -> Response:
        """The tokens in the index with the most similar use."""
        own, (split,) = index(), await service.split([body.sentence], lines=body.lines)
        sentence, place = split.part(body.position)
        layer = own.layer(body.layer)
        embedder = service.embedders[own.record.state]

        def search() -> list[nearest.Neighbor]:
            vector = nearest.query_vectors(embedder, [(sentence, place)], [layer])[0, 0]
            return own.nearest(Query(sentence, place, vector), layer, body.k, not body.any_word)

        found = await service.call(search, [split])
        content = {"tokens": split.tokens, "layer": layer, "neighbors": [each.values() for each in found]}
        return await service.written(request, json_response, content)

    async def uses(request: Request, body: bodies.Uses) -> Response:
        """The occurrences of a word in the index, in text order; of more than `most`, evenly spaced ones."""
        own = index()
        found, count = await service.call(lambda: own.uses(body.word, body.most), [])
        rows: list[dict[str, Any]] = [
            {"sentence": sentence, "position": position} | vars(place) for sentence, position, place in found
        ]
        return await service.written(request, json_response, {"count": count, "uses": rows})

    return [
        Route("POST", "/neighbors", neighbors, bodies.Neighbors),
        Route("POST", "/uses", uses, bodies.Uses),
    ]
