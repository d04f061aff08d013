"""The bodies of requests: their fields, and the function that decodes them from JSON.

msgspec reads and checks a body in one pass and stops at its first error, so no body takes longer to refuse than to
read: 4 MB take at most 0.1 s of one core. pydantic builds an error for every element and every branch of a union, which
takes 15 s. msgspec holds Python's lock meanwhile, so a thread of its own would not let the event loop go on.
"""

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from elmo.server.errors import InvalidBody, RequestTooLarge

MOST = {b"[": 65_536, b'"': 262_144}
"""The most opening brackets and quotes of a body, far above what requests need: lists and strings are slow to build."""
MOST_FOUND = 1000
"""The most words, neighbours or uses that a request may ask for."""

Given = str | list[str]
"""A text, or the tokens of a sentence."""
T = TypeVar("T")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
SENTENCE = "text, split into sentences and tokens as the model's training text was, or the tokens of one sentence"
Sentence = Annotated[Given, Meta(description=SENTENCE)]
Sentences = Annotated[list[Given], Meta(description=f"each: {SENTENCE}")]
Lines = Annotated[bool, Meta(description="a line of a text is one sentence")]
Position = Annotated[int, Meta(description="of a token, from 0")]
Name = Annotated[str, Meta(max_length=1000)]
Inputs = Annotated[str | list[str | list[int]], Meta(description="text; token ids are refused")]
Truncate = Annotated[bool | None, Meta(description="cut inputs that are too long")]
Direction = Annotated[Literal["Left", "Right", "left", "right"], Meta(description="the end that is cut")]
Dimensions = Annotated[int | None, Meta(description="only the model's own number")]
TOKEN_IDS = "contains token ids; this model has its own tokenizer: send text"
"""The end of a message that refuses a field."""
Ids = str | list[str | int | list[int]]
"""A text or several texts; the token ids of one or several texts are refused."""


class Vectors(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /vectors."""

    sentences: Sentences
    layers: Annotated[
        int | Name | Annotated[list[int | float], Meta(max_length=100)],
        Meta(description="all, average, top, concat, the number of one, a list of such, or a mix: mix=0.2,0.3,0.5"),
    ] = "all"
    pool: Annotated[Literal["mean", "max", "sum"] | None, Meta(description="over the tokens of a sentence")] = None
    state: Annotated[Literal["reset", "echo"], Meta(description="echo reads every sentence twice")] = "reset"
    dtype: Literal["float32", "float16"] = "float32"
    lines: Lines = False


class EmbedAll(msgspec.Struct):
    """The body of /embed_all, as in text-embeddings-inference."""

    inputs: Inputs
    truncate: Truncate = False
    truncation_direction: Direction = "Right"


class Embed(EmbedAll):
    """The body of /embed, as in text-embeddings-inference; its fields without a meaning here are ignored."""

    normalize: Annotated[bool, Meta(description="to length 1")] = True
    dimensions: Dimensions = None


class Pair(msgspec.Struct):
    """One sentence and those that /similarity compares with it."""

    source_sentence: str
    sentences: list[str]


class SimilarityParameters(msgspec.Struct):
    """The options of /similarity, as in text-embeddings-inference."""

    truncate: Truncate = False
    truncation_direction: Direction = "Right"


class Similarity(msgspec.Struct):
    """The body of /similarity, as in text-embeddings-inference."""

    inputs: Pair
    parameters: SimilarityParameters | None = None


class Root(Embed):
    """The body of POST /: that of /embed, or that of /similarity."""

    inputs: str | list[str | list[int]] | Pair  # type: ignore[assignment]
    parameters: SimilarityParameters | None = None


class Tokenize(msgspec.Struct):
    """The body of /tokenize, as in text-embeddings-inference."""

    inputs: Annotated[str | list[str], Meta(description="text")]
    add_special_tokens: Annotated[bool, Meta(description="the boundaries <S> and </S>")] = True


class Embeddings(msgspec.Struct):
    """The body of /v1/embeddings, as in OpenAI's API; its other fields are ignored."""

    input: Annotated[Ids, Meta(description="text; token ids are refused")]
    model: Annotated[str, Meta(description="any name, since there is only one model")] = "default"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Dimensions = None
    user: str | None = None
    normalize: Annotated[bool, Meta(description="to length 1, as OpenAI's are; not a field of OpenAI's")] = True


class Score(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /score."""

    sentences: Sentences
    lines: Lines = False


class Substitutes(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /substitutes."""

    sentence: Sentence
    position: Position
    k: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = 10
    side: Annotated[Literal["both", "forward", "backward"], Meta(description="the direction that is asked")] = "both"
    lines: Lines = False


class Neighbors(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /neighbors."""

    sentence: Sentence
    position: Position
    k: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = 5
    layer: Annotated[int | None, Meta(description="one that the index has; the highest by default")] = None
    any_word: Annotated[bool, Meta(description="tokens of other words, too")] = False
    lines: Lines = False


class Uses(msgspec.Struct, forbid_unknown_fields=True):
    """The body of /uses."""

    word: Annotated[str, Meta(max_length=1000, description="exactly as it is spelled in the text")]
    most: Annotated[int, Meta(ge=1, le=MOST_FOUND, description="more occurrences are thinned evenly")] = 200


EXAMPLES: dict[type, tuple[dict[str, Any], ...]] = {
    Vectors: (
        {"sentences": ["She wrote a play .", ["He", "can", "play", "."]], "layers": "average", "pool": "mean"},
        {"sentences": ["She wrote a play ."]},
    ),
    Embed: ({"inputs": ["She wrote a play .", "He can play ."]},),
    EmbedAll: ({"inputs": "She wrote a play ."},),
    Root: ({"inputs": "She wrote a play ."},),
    Similarity: ({"inputs": {"source_sentence": "She wrote a play .", "sentences": ["He can play ."]}},),
    Tokenize: ({"inputs": "She wrote a play ."},),
    Embeddings: ({"input": ["She wrote a play ."], "model": "default"},),
    Score: ({"sentences": ["She wrote a play .", ["He", "can", "play", "."]]},),
    Substitutes: ({"sentence": "She wrote a play .", "position": 3, "k": 5},),
    Neighbors: ({"sentence": "She wrote a play .", "position": 3, "k": 5},),
    Uses: ({"word": "play", "most": 20},),
}
"""Examples of bodies; a test sends them, so they are sure to work."""


def decode_body(body: bytes, kind: type[T]) -> T:
    """Decodes a body as a `kind`. Raises InvalidBody, which names the first wrong place, and RequestTooLarge."""
    for mark, most in MOST.items():
        if (count := body.count(mark)) > most:
            raise RequestTooLarge(
                f"the body has {count:,} times {mark.decode()}; at most {most:,} are accepted: send less"
            )
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidBody(f"{_place(str(error))}; /openapi.json has the fields") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if SURROGATE.search(body):
            message = "the body may have half of a surrogate pair (\\ud800 to \\udfff); send whole characters"
            raise InvalidBody(message) from error
        raise InvalidBody("the body is not JSON in UTF-8; send an object, as /openapi.json describes it") from error


def _place(message: str) -> str:
    """Returns msgspec's message with the place first and without its root: `sentences[0]: Expected ...`."""
    said, _, place = message.partition(" - at `$")
    place = place.rstrip("`").removeprefix(".")
    return f"{place}: {said}" if place else said


def body_schemas(kinds: list[type]) -> dict[str, Any]:
    """Returns the JSON schemas of bodies by name, with their examples."""
    _, found = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for kind in kinds:
        if kind in EXAMPLES:
            found[kind.__name__]["examples"] = list(EXAMPLES[kind])
    return found
