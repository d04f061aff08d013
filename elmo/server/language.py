"""The language model and similar uses of a word: /score, /substitutes, /neighbors."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from elmo.errors import InputError
from elmo.pretraining.scoring import Scorer
from elmo.search import nearest
from elmo.search.index import Index, Query
from elmo.server.answers import json_response
from elmo.server.embeddings import Text, shown
from elmo.server.service import Service

MOST_SUBSTITUTES = MOST_NEIGHBORS = 1000


class ScoreBody(BaseModel):
    model_config = shown({"sentences": ["She wrote a play .", ["He", "can", "play", "."]]})

    sentences: list[Text | list[Text]] = Field(description="text, split by the model's own tokenizer, or tokens")


class PlaceBody(BaseModel):
    sentence: Text | list[Text] = Field(description="text, split by the model's own tokenizer, or tokens")
    position: int = Field(description="of a token, from 0")


class SubstitutesBody(PlaceBody):
    model_config = shown({"sentence": "She wrote a play .", "position": 3, "k": 5})

    k: int = Field(10, ge=1, le=MOST_SUBSTITUTES)
    side: Literal["both", "forward", "backward"] = Field("both", description="the direction that is asked")


class NeighborsBody(PlaceBody):
    model_config = shown({"sentence": "She wrote a play .", "position": 3, "k": 5})

    k: int = Field(5, ge=1, le=MOST_NEIGHBORS)
    layer: int | None = Field(None, description="of those that the index has; the highest by default")
    any_word: bool = Field(False, description="tokens of other words, too")


def router(service: Service) -> APIRouter:
    """The routes of one server; those that need a missing part name the remedy."""
    routes = APIRouter(tags=["language"])

    def scorer() -> Scorer:
        if service.scorer is None:
            raise InputError(f"the model {service.name} has no softmax over words; serve a model from elmo train")
        return service.scorer

    def index() -> Index:
        if service.index is None:
            raise InputError("this server has no index; start it with --index FOLDER, the output of elmo index")
        return service.index

    @routes.post("/score", response_class=Response)
    async def score(body: ScoreBody) -> Response:
        """Natural log-probabilities of each token given the tokens before it, and given the tokens after it."""
        own, sentences = scorer(), await service.sentences(body.sentences)
        found = await service.call(lambda: list(own.score(sentences)), sentences)
        return json_response({"sentences": [vars(scores) for scores in found]})

    @routes.post("/substitutes", response_class=Response)
    async def substitutes(body: SubstitutesBody) -> Response:
        """The most probable words in place of a token."""
        own, (sentence,) = scorer(), await service.sentences([body.sentence])
        found = await service.call(lambda: own.substitutes(sentence, body.position, body.k, body.side), [sentence])
        return json_response({"tokens": sentence, "substitutes": [vars(each) for each in found]})

    @routes.post("/neighbors", response_class=Response)
    async def neighbors(body: NeighborsBody) -> Response:
        """The tokens in the index with the most similar use."""
        own, (sentence,) = index(), await service.sentences([body.sentence])
        layer = own.layer(body.layer)
        embedder = service.embedders[own.record.state]

        def search() -> list[nearest.Neighbor]:
            vector = nearest.targets(embedder, [(sentence, body.position)], [layer])[0, 0]
            return own.nearest(Query(tuple(sentence), body.position, vector), layer, body.k, not body.any_word)

        found = await service.call(search, [sentence])
        return json_response({"tokens": sentence, "layer": layer, "neighbors": [vars(each) for each in found]})

    return routes
