"""Reading on a GPU, run on the CPU by the interpreter and the stand-in for a CUDA graph (`test_interpreted.py`)."""

from dataclasses import replace

import pytest
import torch
from graph_stand_in import put_in_place
from interpreted_kernels import CONFIG, close

from elmo import ops
from elmo.embedding.graphs import GraphReader
from elmo.embedding.layers import layer_selector
from elmo.embedding.reading import read_independent
from elmo.embedding.words import WordVectors, word_encoder
from elmo.model.bilm import BiLM
from elmo.types import LstmState

CPU = torch.device("cpu")
put_in_place()


@pytest.fixture
def bilm(monkeypatch):
    """With shapes that are rounded up, and windows of more steps than a graph has."""
    monkeypatch.setattr("elmo.embedding.graphs.ROWS", (1, 3))
    monkeypatch.setattr("elmo.embedding.graphs.STEPS", (2, 3))
    assert ops.has_kernels(torch.zeros(1))
    return BiLM(CONFIG).eval()


@torch.inference_mode()
def test_layers_and_state_are_those_of_the_model(bilm, monkeypatch):
    reader = GraphReader(bilm, torch.float32)
    modes = []
    capture = ops.capture
    monkeypatch.setattr(ops, "capture", lambda *a: modes.append(torch.is_inference_mode_enabled()) or capture(*a))
    for rows, active in ((2, [2, 2, 1, 1]), (1, [1, 1]), (2, [2, 1])):
        inputs = torch.randn(2, len(active), rows, 20)
        state = LstmState(*(torch.randn_like(part) / 10 for part in bilm.initial_state(rows)))
        keep = torch.rand(2, len(active), rows) > 0.3
        outputs, after = reader.read(inputs, state, active, keep)
        with monkeypatch.context() as patched:
            patched.delenv("TRITON_INTERPRET")
            expected, other = bilm.read(inputs, state, active, keep)
        close([*outputs, *after], [*expected, *other], rtol=2e-6)
    assert modes
    assert not any(modes)  # or a later graph could not train


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_words_are_encoded_as_by_the_model_with_a_graph_for_few_that_are_short(dtype, monkeypatch):
    assert CONFIG.char_cnn is not None
    bilm = BiLM(replace(CONFIG, char_cnn=replace(CONFIG.char_cnn, max_characters_per_token=50))).eval()
    made = []
    monkeypatch.setattr(ops, "capture", lambda *a, real=ops.capture: made.append(a) or real(*a))
    reader, encode = GraphReader(bilm, dtype), word_encoder(bilm.config, None)
    short, long = ["a", "", "bcd"], "e" * 40
    for words, graphs in ((short, 1), (["f"], 1), (short * 11, 1), (["g" * 20], 2), (["h", long], 2)):
        ids = torch.from_numpy(encode(words)).long()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
            found, expected = reader.encode_words(ids), bilm.encode_words(ids)
        assert len(made) == graphs
        close([found], [expected], rtol=1e-6 if dtype == torch.float32 else 2e-2)


def test_sentences_are_read_as_by_the_model(bilm, monkeypatch):
    sentences = [["a", "bc", "d"], [], ["e"]]
    words = WordVectors(bilm, word_encoder(CONFIG, None), CPU)
    found = list(read_independent(GraphReader(bilm, torch.float32), words, sentences, layer_selector("all", 3), 6, 2))
    (half,) = read_independent(
        GraphReader(bilm, torch.float32), words, sentences[2:], layer_selector("top", 3), 6, 2, dtype=torch.float16
    )
    monkeypatch.delenv("TRITON_INTERPRET")
    expected = list(read_independent(bilm, words, sentences, layer_selector("all", 3), 6, 2))
    assert [array.shape for array in found] == [(3, 3, 40), (3, 0, 40), (3, 1, 40)]
    close(map(torch.from_numpy, (found[0], found[2])), map(torch.from_numpy, (expected[0], expected[2])), rtol=1e-5)
    assert half.dtype.name == "float16"
    torch.testing.assert_close(torch.from_numpy(half).float(), torch.from_numpy(expected[2][2]), atol=1e-3, rtol=1e-3)
