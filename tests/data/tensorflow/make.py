"""How the checkpoints in this folder were made: by TensorFlow itself, with the variables of bilm-tf, random weights.

    python -m venv venv && venv/bin/pip install tensorflow-cpu tf_keras
    TF_USE_LEGACY_KERAS=1 venv/bin/python tests/data/tensorflow/make.py

TensorFlow's own LSTM cells, optimizer and saver name the variables and write the files; `expected.json` holds what its
graph computes for some sentences: the layers, and the log-probability of every token, forward and backward.
Made with TensorFlow 2.21. The `.meta` files (the graphs) are of no use here and are not kept.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

HERE = Path(__file__).parent
WORDS = ["<S>", "</S>", "<UNK>", "the", "elm", "and", "oak", "grow", "slowly", "."]
SENTENCES = [["the", "elm", "grows", "slowly", "."], ["oak"], ["ein", "Bäumchen", "and", "unpronounceable", "oak"]]
LSTM = {"dim": 6, "projection_dim": 4, "n_layers": 2, "cell_clip": 1.0, "proj_clip": 0.9, "use_skip_connections": True}
CNN = {
    "embedding": {"dim": 3},
    "filters": [[1, 4], [2, 3]],
    "n_highway": 1,
    "n_characters": 261,
    "max_characters_per_token": 12,
    "activation": "relu",
}
COMMON = {"bidirectional": True, "n_tokens_vocab": len(WORDS), "unroll_steps": 20, "dropout": 0.1}
MODELS = {
    "characters": COMMON | {"lstm": LSTM, "char_cnn": CNN},
    "one_layer": COMMON | {"lstm": LSTM | {"n_layers": 1, "dim": 4}, "char_cnn": CNN | {"activation": "tanh"}},
    "words": COMMON | {"lstm": LSTM | {"use_skip_connections": False}, "share_embedding_softmax": True},
}


def variable(name: str, *shape: int) -> tf.Tensor:
    return tf1.get_variable(name, shape, tf.float32, tf1.random_normal_initializer(stddev=0.8))


def characters(word: str, size: int) -> list[int]:
    marks = {"<S>": [256], "</S>": [257]}
    ids = [258, *marks.get(word, list(word.encode())[: size - 2]), 259]
    return ids + [260] * (size - len(ids))


def token_vectors(options: dict, sentence: list[str], table: tf.Tensor | None) -> tf.Tensor:
    """(T, P)"""
    size = options["lstm"]["projection_dim"]
    if "char_cnn" not in options:
        ids = [WORDS.index(word) if word in WORDS else 2 for word in sentence]
        return tf.gather(table, ids)
    cnn = options["char_cnn"]
    ids = [characters(word, cnn["max_characters_per_token"]) for word in sentence]
    x = tf.gather(variable("char_embed", 261, cnn["embedding"]["dim"]), [ids])
    pooled = []
    with tf1.variable_scope("CNN"):
        for i, (width, count) in enumerate(cnn["filters"]):
            kernel = variable(f"W_cnn_{i}", 1, width, cnn["embedding"]["dim"], count)
            bias = variable(f"b_cnn_{i}", count)
            pooled.append(tf.reduce_max(tf.nn.conv2d(x, kernel, 1, "VALID") + bias, axis=2)[0])
    x = {"relu": tf.nn.relu, "tanh": tf.tanh}[cnn["activation"]](tf.concat(pooled, -1))
    width = sum(count for _, count in cnn["filters"])
    for k in range(cnn["n_highway"]):
        with tf1.variable_scope(f"CNN_high_{k}"):
            carry = tf.sigmoid(x @ variable("W_carry", width, width) + variable("b_carry", width))
            transform = tf.nn.relu(x @ variable("W_transform", width, width) + variable("b_transform", width))
        x = carry * transform + (1 - carry) * x
    with tf1.variable_scope("CNN_proj"):
        return x @ variable("W_proj", width, size) + variable("b_proj", size)


class Recorded(tf1.nn.rnn_cell.RNNCell):
    """A cell whose outputs are looked at; it has no variables of its own, and no scope."""

    def __init__(self, cell: tf1.nn.rnn_cell.RNNCell) -> None:
        super().__init__()
        self._cell = cell
        self.outputs: list[tf.Tensor] = []

    state_size = property(lambda self: self._cell.state_size)
    output_size = property(lambda self: self._cell.output_size)

    def zero_state(self, batch_size: int, dtype: tf.DType) -> object:
        return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: tf.Tensor, state: object, scope: object = None) -> tuple[tf.Tensor, object]:
        output, new = self._cell(inputs, state)
        self.outputs.append(output)
        return output, new


def cell(options: dict, depth: int) -> Recorded:
    lstm = options["lstm"]
    projection = lstm["projection_dim"] if lstm["projection_dim"] < lstm["dim"] else None
    made = tf1.nn.rnn_cell.LSTMCell(
        lstm["dim"],
        num_proj=projection,
        cell_clip=lstm["cell_clip"],
        proj_clip=lstm["proj_clip"],
        initializer=tf1.random_normal_initializer(stddev=0.8),
    )
    skips = depth > 0 and lstm["use_skip_connections"]
    return Recorded(tf1.nn.rnn_cell.ResidualWrapper(made) if skips else made)


def layers(options: dict, tokens: tf.Tensor, direction: int) -> list[tf.Tensor]:
    """The outputs (T, P) of every LSTM layer of one direction, in its reading order, from the zero state."""
    cells = [cell(options, depth) for depth in range(options["lstm"]["n_layers"])]
    whole = tf1.nn.rnn_cell.MultiRNNCell(cells) if len(cells) > 1 else cells[0]
    inputs = [token[None] for token in tf.unstack(tokens)]
    with tf1.variable_scope(f"RNN_{direction}"):
        tf1.nn.static_rnn(whole, inputs, initial_state=whole.zero_state(1, tf.float32))
    return [tf.concat(cell.outputs, 0) for cell in cells]


def build(options: dict, sentence: list[str]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """All layers (N, T, 2 P), forward and backward log-probabilities (T - 1,) in the order of the text."""
    text = ["<S>", *sentence, "</S>"]
    size = options["lstm"]["projection_dim"]
    shared = options.get("share_embedding_softmax")
    table = variable("embedding", len(WORDS), size) if shared else None
    tokens = token_vectors(options, text, table)
    forward = layers(options, tokens, 0)
    backward = [tf.reverse(layer, [0]) for layer in layers(options, tf.reverse(tokens, [0]), 1)]
    with tf1.variable_scope("softmax"), tf1.device("/cpu:1"):  # a device of its own: a file of its own, where sharded
        matrix = table if shared else variable("W", len(WORDS), size)
        bias = variable("b", len(WORDS))
    ids = [WORDS.index(word) if word in WORDS else 2 for word in text]
    chances = [tf.nn.log_softmax(side[-1] @ tf.transpose(matrix) + bias) for side in (forward, backward)]
    own = [tf.gather(chances[0][:-1], ids[1:], batch_dims=1), tf.gather(chances[1][1:], ids[:-1], batch_dims=1)]
    every = [tf.concat(pair, -1) for pair in zip([tokens, *forward], [tokens, *backward], strict=True)]
    return tf.stack(every), own[0], own[1]


def make(name: str, options: dict, sharded: bool) -> None:
    tf1.reset_default_graph()
    tf1.set_random_seed(7)
    outputs = []
    with tf1.device("/cpu:0"):
        step = tf1.get_variable("global_step", [], tf.float32, tf1.zeros_initializer())
        for number, sentence in enumerate(SENTENCES):
            with tf1.variable_scope("lm", reuse=number > 0):
                outputs.append(build(options, sentence))
        loss = -sum(tf.reduce_mean(forward) + tf.reduce_mean(backward) for _, forward, backward in outputs)
        optimizer = tf1.train.AdagradOptimizer(0.2, initial_accumulator_value=1.0)
        train = optimizer.minimize(loss, global_step=step)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        kept = tf1.global_variables() if name == "characters" else tf1.trainable_variables()
        saver = tf1.train.Saver(kept, sharded=sharded)
        saver.save(session, str(folder / "model.ckpt"), global_step=3, write_meta_graph=False)
        found = session.run(outputs)
    (folder / "options.json").write_text(json.dumps(options))
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/someone/model.ckpt-3"\n')
    expected = [
        {"layers": np.round(every, 6).tolist(), "forward": forward.tolist(), "backward": backward.tolist()}
        for every, forward, backward in found
    ]
    (folder / "expected.json").write_text(json.dumps({"sentences": SENTENCES, "expected": expected}) + "\n")


if __name__ == "__main__":
    for number, (name, options) in enumerate(MODELS.items()):
        make(name, options, sharded=number == 1)
