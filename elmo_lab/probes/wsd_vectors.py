"""Computes the vectors of labelled words, by the embedder's state policy.

Usually, each sentence is read independently, and sentences without an instance are skipped. With "carry", the sentences
of a text are read in order and carry the LSTM state over, as pretraining does with a document. Texts are the rows of
the batch, and each text starts from the zero state.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, zip_longest
from operator import attrgetter

import numpy as np
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo_lab.probes.wsd_readers import Instance, LabelledSentence, Sentence

tokens_of = attrgetter("sentence.tokens")
NOTHING = LabelledSentence(Sentence((), ()), ())
"""A placeholder for a sentence, after the end of a row's text, or in a row without a text."""
Vectors = Iterator[tuple[Instance, tuple[str, ...], Float[np.ndarray, "N D"]]]


def sentence_batches(embedder: Embedder, corpus: Iterable[LabelledSentence]) -> Iterator[list[LabelledSentence]]:
    """Yields the batches that the embedder reads. They are the same in every run, so even the last bits are the same.

    With "carry", texts are side by side: their first sentences, then their second ones, and so on.
    """
    if embedder.state == "carry":
        texts = (list(text) for _, text in groupby(corpus, lambda labelled: labelled.sentence.text))
        while rows := list(islice(texts, embedder.batch_size)):
            rows += [[]] * (embedder.batch_size - len(rows))
            yield list(chain.from_iterable(zip_longest(*rows, fillvalue=NOTHING)))
        return
    yield from embedder.chunks((labelled for labelled in corpus if labelled.keys), tokens_of)


def instance_vectors(embedder: Embedder, chunk: list[LabelledSentence]) -> Vectors:
    """Yields every instance of a chunk with its keys, and the mean of its tokens' vectors at every layer."""
    for labelled, layers in embedder.embed_items(chunk, tokens_of, "all"):
        for instance, keys in zip(labelled.sentence.instances, labelled.keys, strict=True):
            yield instance, keys, layers[:, instance.begin : instance.end].mean(axis=1)
