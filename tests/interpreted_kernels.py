"""Triton's kernels, run on the CPU by its interpreter, against the package's own network (`test_interpreted.py`).

And reading on a GPU, by the stand-in for a CUDA graph.

The variable TRITON_INTERPRET must be set before Triton is imported. Without it, `has_kernels` is false on a CPU: that
is how a test here gets the numbers to compare with.
"""

from dataclasses import replace

import pytest
import torch
from graph_stand_in import put_in_place
from torch import Tensor, nn

from elmo import ops
from elmo.embedding.graphs import GraphReader
from elmo.embedding.layers import layer_selector
from elmo.embedding.reading import read_independent
from elmo.embedding.words import WordVectors, word_encoder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import BiLstmLayer, LstmConfig, recurrence
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.types import LstmState

put_in_place()
STREAMS, WINDOW, WORDS, CHARACTERS, VOCABULARY, NEGATIVES = 2, 3, 12, 16, 60, 17
SIZES = LstmConfig(dim=37, projection_dim=20, cell_clip=0.15, proj_clip=0.1)
CONFIG = BiLMConfig(SIZES, CharCnnConfig(6, ((1, 4), (2, 8), (3, 12)), 1, max_characters_per_token=CHARACTERS))


@pytest.fixture
def by_torch(monkeypatch):
    """Calls a function without the kernels."""

    def call(function, *arguments):
        with monkeypatch.context() as patched:
            patched.delenv("TRITON_INTERPRET")
            assert not ops.has_kernels(torch.zeros(1))
            return function(*arguments)

    assert ops.has_kernels(torch.zeros(1))
    return call


def close(found, expected, rtol=1e-6):
    for one, other in zip(found, expected, strict=True):
        scale = float(other.detach().abs().max()) + 1e-12
        assert float((one.detach() - other.detach()).abs().max()) <= rtol * max(scale, 1e-3), (one, other)


def layer_inputs(config: LstmConfig) -> list[Tensor]:
    size = config.projection_dim
    shapes = (2, WINDOW, STREAMS, size), (2, STREAMS, size), (2, STREAMS, config.dim)
    return [(torch.randn(shape) * scale).requires_grad_() for shape, scale in zip(shapes, (1, 0.1, 0.1), strict=True)]


def gradients_of(function, layer, inputs, *rest):
    """Outputs, states and the gradients of all inputs and weights."""
    layer.zero_grad()
    for tensor in inputs:
        tensor.grad = None
    found = function(*inputs, *rest)
    weights = [torch.linspace(-1, 1, each.numel()).view_as(each) for each in found]
    sum((weight * each).sum() for weight, each in zip(weights, found, strict=True)).backward()
    return [*found, *(tensor.grad for tensor in inputs), *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        SIZES,
        LstmConfig(dim=19, projection_dim=19, cell_clip=0.2, forget_bias=0.5),
        LstmConfig(dim=18, projection_dim=33, cell_clip=None, proj_clip=None),
    ],
)
def test_a_layer_and_its_gradients_are_those_of_the_equations(config, resets):
    layer, inputs = BiLstmLayer(config), layer_inputs(config)
    nn.init.normal_(layer.bias)
    keep = (torch.rand(2, WINDOW, STREAMS) > 0.4) if resets else None
    found = gradients_of(layer, layer, inputs, None, keep)
    expected = gradients_of(lambda *a: recurrence(layer, *a), layer, inputs, None, keep)
    close(found, expected, rtol=5e-6)
    with torch.no_grad():
        close(layer(*inputs, None, keep), expected[:3])


def test_only_what_is_learned_and_used_has_a_gradient():
    """The input of the first layer may be fixed, and a state after the last window is used by nobody."""
    layer, inputs = BiLstmLayer(SIZES), [tensor.detach() for tensor in layer_inputs(SIZES)]
    outputs, *_ = layer(*inputs)
    outputs.square().sum().backward()
    found = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    recurrence(layer, *inputs)[0].square().sum().backward()
    close(found, [parameter.grad for parameter in layer.parameters()], rtol=5e-6)


@pytest.mark.parametrize("config", [SIZES, LstmConfig(dim=19, projection_dim=19)])
def test_rows_of_several_lengths_keep_their_last_state(config, by_torch):
    layer, inputs = BiLstmLayer(config).requires_grad_(False), [t.detach() for t in layer_inputs(config)]
    for active in ([2, 2, 1], [2, 1, 0]):
        found = layer(*inputs, active)
        close(found, recurrence(layer, *inputs, active))
        assert not found[0][:, active.count(2) :, 1].any()
        close(found, by_torch(layer, *inputs, active))


@pytest.mark.parametrize("learns", [False, True])
def test_a_weight_that_is_no_number_is_not_hidden_by_the_clips(learns):
    layer, inputs = BiLstmLayer(SIZES), layer_inputs(SIZES)
    with torch.no_grad():
        layer.weight_input[0, 0, 0] = float("nan")
        expected = recurrence(layer, *inputs)
    with torch.set_grad_enabled(learns):
        found = layer(*inputs)
    for one, other in zip(found, expected, strict=True):
        assert one[0].isnan().any()
        assert torch.equal(one.isnan(), other.isnan())


def window():
    char_ids = torch.full((WORDS, CHARACTERS), 261)
    for row in range(WORDS):
        length = int(torch.randint(1, CHARACTERS - 2, ()))
        char_ids[row, 0], char_ids[row, 1 + length] = 259, 260
        char_ids[row, 1 : 1 + length] = torch.randint(1, 257, (length,))
    shape = 2, STREAMS, WINDOW
    starts = torch.rand(shape[1:]) > 0.7
    state = LstmState(torch.randn(2, 2, STREAMS, 20) * 0.1, torch.randn(2, 2, STREAMS, 37) * 0.1)
    return (
        char_ids, torch.randint(0, WORDS, shape), torch.randint(0, VOCABULARY, shape), torch.rand(shape) > 0.3,
        torch.stack([starts, starts]), state,
    )  # fmt: skip


def step_of(model: LanguageModel, batch, dtype=torch.float32):
    model.zero_grad()
    torch.manual_seed(5)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        loss, state = model(*batch)
    loss.backward()
    return loss.detach(), state, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.fixture
def negatives(monkeypatch):
    """The same on both ways: a GPU draws its own."""
    drawn = torch.randperm(VOCABULARY)[:NEGATIVES]
    monkeypatch.setattr("elmo.model.lm_head.LmHead.draw", lambda *_: drawn)


@pytest.mark.parametrize(
    ("sampled", "sorts", "few"), [(0, False, 0), (NEGATIVES, False, 0), (NEGATIVES, True, 0), (NEGATIVES, True, 512)]
)
def test_loss_and_all_gradients_are_those_of_the_network(sampled, sorts, few, negatives, by_torch, monkeypatch):
    monkeypatch.setattr("elmo.ops.rows.FEW_ROWS", few)
    model = LanguageModel(CONFIG, VOCABULARY, ObjectiveConfig(sampled, 0.2, 0.5, loss_scale=2.0))
    batch = window()
    with ops.sorted_sums(sorts):
        loss, state, gradients = step_of(model, batch)
    other, after, expected = by_torch(step_of, model, batch)
    close([loss, *state], [other, *after])
    for name in expected:
        close([gradients[name]], [expected[name]], rtol=5e-6)


def test_in_bfloat16_the_loss_is_that_of_float32_to_its_precision(negatives, by_torch):
    model = LanguageModel(CONFIG, VOCABULARY, ObjectiveConfig(NEGATIVES, 0.0, 0.0))
    batch = window()
    loss, state, gradients = step_of(model, batch, torch.bfloat16)
    expected, _, theirs = by_torch(step_of, model, batch)
    assert abs(float(loss) - float(expected)) < 1e-3 * float(expected)
    assert {tensor.dtype for tensor in (*state, *gradients.values())} == {torch.float32}
    for name, gradient in gradients.items():
        difference = float((gradient - theirs[name]).norm() / theirs[name].norm())
        assert difference < 0.2, (name, difference)  # a maximum of characters may be another one


def test_what_is_drawn_on_a_gpu_has_the_frequencies_of_the_cpu(by_torch):
    head = LanguageModel(CONFIG, VOCABULARY, ObjectiveConfig()).lm_head
    counts = []
    for way in (lambda function: function(), by_torch):
        draws = [way(lambda: head.draw(10)) for _ in range(1000)]
        assert all(len(set(draw.tolist())) == 10 for draw in draws[:20])
        counts.append(torch.bincount(torch.cat(draws), minlength=VOCABULARY) / 1000)
    torch.testing.assert_close(counts[0], counts[1], atol=0.08, rtol=0)


def test_words_in_groups_have_the_vectors_of_words_together():
    encoder = LanguageModel(CONFIG, VOCABULARY, ObjectiveConfig()).bilm.token_encoder
    char_ids = window()[0]
    char_ids[:5, 6:] = 261  # short words, whose group has less padding
    char_ids[:5, 5] = 260
    groups = [char_ids[:5, : 6 + encoder.config.widest], char_ids[5:]]
    torch.testing.assert_close(encoder.encode_groups(groups), encoder(char_ids), rtol=1e-5, atol=1e-6)


# Reading


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
    words = WordVectors(bilm, word_encoder(CONFIG, None), torch.device("cpu"))
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
