"""A corpus of eight words for the reader of training windows, and what its streams read."""

import random

from elmo.pretraining.batches import IGNORED, ReaderConfig
from elmo.text.characters import BOS, EOS, encode_words
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary

LINES = TextConfig("whitespace", "line")
WORDS = ["ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew"]
VOCABULARY = Vocabulary(SPECIAL + tuple(WORDS))
CONFIG = ReaderConfig(streams=6, window=5, seed=3, document_characters=60, buffer_characters=400)


def write_corpus(folder):
    """Three files of a dozen documents; their paths."""
    rng = random.Random(0)
    for file in range(3):
        documents = [
            [[rng.choice(WORDS) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 6))] for _ in range(12)
        ]
        write(folder / f"{file}.txt", documents)
    return sorted(folder.glob("*.txt"))


def write(path, documents):
    path.write_text("\n\n".join("\n".join(" ".join(line) for line in document) for document in documents))
    return path


def streams_of(batches):
    """What every stream reads: for each direction lists of (input, target, start, keep), padding left out."""
    words = (BOS, EOS, *WORDS)
    spelled = {tuple(row): word for word, row in zip(words, encode_words(words).tolist(), strict=True)}
    rows = [[[], []] for _ in range(batches[0].inputs.shape[1])]
    for batch in batches:
        vocabulary = [spelled[tuple(row)] for row in batch.char_ids.tolist()]
        assert len(set(vocabulary)) == len(vocabulary)
        for row, both in enumerate(rows):
            for d, column in enumerate(both):
                columns = (x[d, row].tolist() for x in (batch.inputs, batch.targets, batch.starts, batch.keep))
                for i, target, start, keep in zip(*columns, strict=True):
                    if target == IGNORED:
                        assert (start, keep) == (False, True)
                    else:
                        column.append((vocabulary[i], VOCABULARY.words[target], start, keep))
    return rows
