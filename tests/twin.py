"""The whole biLM once more, slowly: one sentence, plain numpy in float64, written to be read beside the paper.

Peters et al. 2018, "Deep contextualized word representations"; character CNN of Kim et al. 2016, highway of Srivastava
et al. 2015, LSTM with projection of Sak et al. 2014. It knows nothing of the package `elmo`, which the tests hold to
it. `options` are those of a published `options.json`, `weights` the datasets of the HDF5 file beside it, each matrix as
(in, out), by their published names:

    char_embed                                        (characters, E)
    CNN/W_cnn_{i}, b_cnn_{i}                          (1, width, E, n), (n,)      one filter width each
    CNN_high_{k}/W_transform, b_transform             (F, F), (F,)
    CNN_high_{k}/W_carry, b_carry                     (F, F), (F,)
    CNN_proj/W_proj, b_proj                           (F, P), (P,)                where F is not P already
    RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/
        W_0, B                                        (P + P, 4 H), (4 H,)        direction d: 0 forward, 1 backward
        W_P_0                                         (H, P)                      where H is not P already
    embedding                                         (V, P)                      in the place of all that is not RNN

E is the width of a character's vector, F the number of filters, P what one direction outputs, H its memory cells.
"""

from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]
Options = dict[str, Any]

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260


def layers(tokens: list[str], options: Options, weights: Weights, words: list[str] | None = None) -> np.ndarray:
    """All layers of one sentence, `<S>` and `</S>` around it: (N, T, 2 P), N = LSTM layers + 1, T = len(tokens) + 2.

    `words` are those of a model that reads words, in the order of the rows of `embedding`.

    Layer 0 is the token layer, twice side by side; above it forward and backward stand side by side.
    """
    tokens = ["<S>", *tokens, "</S>"]
    if words is None:
        x = np.stack([word_vector(token, options, weights) for token in tokens])  # T P
    else:
        x = np.stack([weights["embedding"][row(token, words)] for token in tokens])
    forward = stack(x, 0, options, weights)
    backward = [layer[::-1] for layer in stack(x[::-1], 1, options, weights)]  # read from the end, put back in order
    return np.stack([np.concatenate(pair, axis=-1) for pair in zip(forward, backward, strict=True)])


def word_vector(word: str, options: Options, weights: Weights) -> np.ndarray:
    """The vector (P,) of a word without its context: from its characters alone."""
    cnn = options["char_cnn"]
    x = weights["char_embed"][characters(word, cnn["max_characters_per_token"])]  # C E
    best = [strongest(x, weights[f"CNN/W_cnn_{i}"][0], weights[f"CNN/b_cnn_{i}"]) for i in range(len(cnn["filters"]))]
    x = {"relu": relu, "tanh": np.tanh}[cnn["activation"]](np.concatenate(best))  # F
    for k in range(cnn["n_highway"]):
        x = highway(x, k, weights)
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]  # P
    return x


def row(word: str, words: list[str]) -> int:
    """Where a word is in the table: the last place of one that is there twice, `<UNK>`'s of one that is not there."""
    places = {known: place for place, known in enumerate(words)}
    return places.get(word, places["<UNK>"])


def characters(word: str, size: int) -> list[int]:
    """`size` character ids: a mark, the word's UTF-8 bytes as far as they fit, a mark, padding.

    The two sentence boundaries are words of one character of their own. What UTF-8 cannot express is left out.
    """
    if word == "<S>":
        inside = [BEGIN_SENTENCE]
    elif word == "</S>":
        inside = [END_SENTENCE]
    else:
        inside = list(word.encode("utf-8", errors="ignore"))[: size - 2]
    ids = [BEGIN_WORD, *inside, END_WORD]
    return ids + [PADDING] * (size - len(ids))


def strongest(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A convolution over characters, then the maximum over all positions: (C, E), (width, E, n) -> (n,)."""
    width = len(kernel)
    best = np.full(len(bias), -np.inf)
    for start in range(len(x) - width + 1):
        score = bias.copy()
        for offset in range(width):
            score += x[start + offset] @ kernel[offset]
        best = np.maximum(best, score)
    return best


def highway(x: np.ndarray, k: int, weights: Weights) -> np.ndarray:
    """Mixes the input with a transformation of it. `carry`, as the published files call it, is the transformed part."""
    name = f"CNN_high_{k}"
    carry = sigmoid(x @ weights[f"{name}/W_carry"] + weights[f"{name}/b_carry"])
    transformed = relu(x @ weights[f"{name}/W_transform"] + weights[f"{name}/b_transform"])
    return carry * transformed + (1 - carry) * x


def stack(x: np.ndarray, direction: int, options: Options, weights: Weights) -> list[np.ndarray]:
    """The token layer and the LSTM layers above it in one direction, each (T, P), in the order of reading."""
    lstm = options["lstm"]
    outputs = [x]
    for depth in range(lstm["n_layers"]):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{depth}/LSTMCell"
        own = {name: weights[f"{cell}/{name}"] for name in ("W_0", "B", "W_P_0") if f"{cell}/{name}" in weights}
        y = read(outputs[-1], own, lstm["cell_clip"], lstm["proj_clip"])
        if lstm["use_skip_connections"] and depth > 0:
            y = y + outputs[-1]
        outputs.append(y)
    return outputs


def read(x: np.ndarray, weights: Weights, cell_clip: float | None, proj_clip: float | None) -> np.ndarray:
    """One LSTM over a sequence (T, P), from the zero state: (T, P)."""
    size = len(weights["B"]) // 4
    cell = np.zeros(size)
    output = np.zeros(x.shape[1])
    outputs = []
    for token in x:
        gates = np.concatenate([token, output]) @ weights["W_0"] + weights["B"]
        let_in, candidate, keep, let_out = np.split(gates, 4)  # i, j, f, o
        cell = sigmoid(keep + 1) * cell + sigmoid(let_in) * np.tanh(candidate)  # the 1 is not in the stored bias
        cell = clip(cell, cell_clip)
        output = sigmoid(let_out) * np.tanh(cell)
        if "W_P_0" in weights:
            output = clip(output @ weights["W_P_0"], proj_clip)
        outputs.append(output)
    return np.stack(outputs)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def clip(x: np.ndarray, limit: float | None) -> np.ndarray:
    return x if limit is None else np.clip(x, -limit, limit)
