"""A language model of a few words, and what it says of them by brute force: the slow twin in float64, word by word."""

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import twin

from elmo.formats import Model, allennlp
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lm_head import LmHead
from elmo.model.lstm import LstmConfig
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary

LINES = TextConfig("whitespace", "line")
CONFIG = BiLMConfig(
    LstmConfig(dim=6, projection_dim=4), CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 5)), n_highway=1)
)
KNOWN = ["ash", "birch", "elm", "oak", "pine", "and", "the", "."]
STRANGE = ["quince", "Ωmega", "x" * 80]
VOCABULARY = Vocabulary(SPECIAL + tuple(KNOWN))
Document = list[list[str]]


def random_model() -> Model:
    """Weights large enough that words differ, and that what is carried from sentence to sentence matters."""
    torch.manual_seed(3)
    bilm, lm_head = BiLM(CONFIG), LmHead(len(VOCABULARY), 4)
    with torch.no_grad():
        for parameter in [*bilm.parameters(), *lm_head.parameters()]:
            parameter.copy_(torch.randn_like(parameter) * 0.7)
        bilm.token_encoder.embedding[0] = 0
    return Model(CONFIG, bilm.state_dict(), lm_head.state_dict(), VOCABULARY, LINES)


class BruteForce:
    """Sums over words, from the published files of the model alone."""

    def __init__(self, model: Model, folder: Path) -> None:
        allennlp.save(model, folder)
        (options,) = folder.glob("*.json")
        (weights,) = folder.glob("*.hdf5")
        self.options = json.loads(options.read_text())
        self.weights: dict[str, np.ndarray] = {}
        with h5py.File(weights) as file:
            file.visititems(self._keep)
        assert model.lm_head is not None
        self.softmax = model.lm_head["weight"].double().numpy()
        self.bias = model.lm_head["bias"].double().numpy()

    def _keep(self, name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            self.weights[name] = np.float64(item[()])

    def scores(self, sentences: Document, direction: int) -> list[tuple[str, float]]:
        """(target, log-probability) of every position of sentences that are read one after the other, from zero."""
        inputs, targets = [], []
        for sentence in sentences:
            words = sentence if direction == 0 else sentence[::-1]
            first, last = ("<S>", "</S>") if direction == 0 else ("</S>", "<S>")
            inputs += [first, *words]
            targets += [*words, last]
        x = np.stack([twin.word_vector(word, self.options, self.weights) for word in inputs])
        top = twin.stack(x, direction, self.options, self.weights)[-1]
        found = []
        for hidden, target in zip(top, targets, strict=True):
            logits = self.softmax @ hidden + self.bias
            word = target if target in VOCABULARY.words else "<UNK>"
            found.append((word, logits[VOCABULARY.words.index(word)] - math.log(np.exp(logits).sum())))
        return found

    def summary(self, streams: list[Document]) -> dict[str, Any]:
        """Perplexities of both directions, and of the known words only."""
        numbers: dict[str, Any] = {}
        for direction, name in enumerate(("forward", "backward")):
            found = [score for sentences in streams for score in self.scores(sentences, direction)]
            known = [score for word, score in found if word != "<UNK>"]
            numbers[name] = math.exp(-sum(score for _, score in found) / len(found))
            numbers[f"{name}_known"] = math.exp(-sum(known) / len(known))
            numbers |= {"tokens": len(found), "unknown_rate": 1 - len(known) / len(found)}
        numbers["mean"] = (numbers["forward"] + numbers["backward"]) / 2
        numbers["mean_known"] = (numbers["forward_known"] + numbers["backward_known"]) / 2
        return numbers
