"""The vectors of labelled words, as the embedder's state policy reads their sentences.

- every sentence for itself; those that have no instance are left out
- with "carry" the sentences of a text one after the other, each from what the LSTMs remember of those before it, as
  pretraining reads a document: texts are the rows of the batch, and a text begins with nothing remembered
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, zip_longest

import numpy as np
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo.probes.wsd_readers import Instance, Labelled, Sentence

NOTHING = Labelled(Sentence((), ()), ())
"""In the place of a sentence where a text, or a row of the batch, has no more."""
Vectors = Iterator[tuple[Instance, tuple[str, ...], Float[np.ndarray, "N D"]]]


def chunks(embedder: Embedder, corpus: Iterable[Labelled]) -> Iterator[list[Labelled]]:
    """What the embedder reads together, in its order: the same in every run, so that the last bits are the same, too.

    With "carry" texts stand side by side: their first sentences, then their second ones, and so on.
    """
    if embedder.state == "carry":
        texts = (list(text) for _, text in groupby(corpus, lambda labelled: labelled.sentence.text))
        while rows := list(islice(texts, embedder.batch_size)):
            rows += [[]] * (embedder.batch_size - len(rows))
            yield list(chain.from_iterable(zip_longest(*rows, fillvalue=NOTHING)))
        return
    waiting: list[Labelled] = []

    def sentences() -> Iterator[tuple[str, ...]]:
        for labelled in corpus:
            if labelled.keys:
                waiting.append(labelled)
                yield labelled.sentence.tokens

    for chunk in embedder.chunks(sentences()):
        yield waiting[: len(chunk)]
        del waiting[: len(chunk)]


def instance_vectors(embedder: Embedder, chunk: list[Labelled]) -> Vectors:
    """Every instance of a chunk, its keys, and the mean of its tokens' vectors at every layer."""
    arrays = embedder.embed_stream([labelled.sentence.tokens for labelled in chunk], "all")
    for labelled, layers in zip(chunk, arrays, strict=True):
        for instance, keys in zip(labelled.sentence.instances, labelled.keys, strict=True):
            yield instance, keys, layers[:, instance.begin : instance.end].mean(axis=1)
