"""The biLM against its slow twin, for everything that `options.json` can say; and what must hold of any sentence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import twin
from bilm_files import CHARACTERS, as_published, options, random_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch import nn

from elmo.config import ConfigError, from_dict
from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnn, CharCnnConfig
from elmo.model.config import weight_shapes
from elmo.model.highway import Highway
from elmo.model.lstm import BiLstmLayer, LstmConfig, recurrence
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.text.batching import to_batch
from elmo.types import Batch, LstmState

TOLERANCE = 1e-5

WORDS = st.one_of(
    st.sampled_from(["the", "cat", "sat", ".", "naïve", "東京", "", "<S>", "</S>", "aaaa", "a" * 200, "\ud800x"]),
    st.text(max_size=12),
)
SENTENCES = st.lists(st.lists(WORDS, max_size=7), min_size=1, max_size=4)


# In training


def test_dropout_is_of_the_input_of_every_layer_and_the_skip_passes_what_the_layer_saw(monkeypatch) -> None:
    """With a dropout that multiplies by 3, 5 and 7, which shows where it was."""
    factors = iter([3.0, 5.0, 7.0])
    monkeypatch.setattr(nn.functional, "dropout", lambda x, p: x * next(factors))
    torch.manual_seed(2)
    config = LstmConfig(dim=6, projection_dim=4, n_layers=3)
    bilm = BiLM(BiLMConfig(config, CharCnnConfig(embedding_dim=3, filters=((1, 4),))))
    inputs, state = torch.randn(2, 5, 2, 4), bilm.initial_state(2)
    outputs, _ = bilm.read(inputs, state, dropout=0.5)
    expected, below = [], inputs
    for depth, factor in enumerate((3.0, 5.0, 7.0)):
        seen = factor * below
        below, _, _ = recurrence(bilm.layers[depth], seen, state.hidden[depth], state.cell[depth])
        below = below + seen if depth else below
        expected.append(below)
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)


def test_training_drops_the_input_of_every_layer_and_of_the_softmax(monkeypatch) -> None:
    shares: list[float] = []
    monkeypatch.setattr(nn.functional, "dropout", lambda x, p: shares.append(p) or x)
    lstm = LstmConfig(dim=6, projection_dim=4, n_layers=2)
    config = BiLMConfig(lstm, CharCnnConfig(embedding_dim=3, filters=((1, 4),)))
    model = LanguageModel(config, 9, ObjectiveConfig(dropout=0.25, negatives=0))
    words, inputs = torch.ones(3, 50, dtype=torch.long), torch.zeros(2, 2, 5, dtype=torch.long)
    flags = torch.ones(2, 2, 5, dtype=torch.bool)
    model(words, inputs, inputs, flags, flags, model.bilm.initial_state(2))
    assert shares == [0.25] * 3


def test_networks_begin_as_the_published_ones() -> None:
    """Highways mostly pass their input on; weights of the LSTMs fill the bounds of Glorot and Bengio."""
    torch.manual_seed(0)
    highway, layer = Highway(40), BiLstmLayer(LstmConfig(dim=30, projection_dim=10))
    assert torch.equal(highway.carry.bias, torch.full((40,), -2.0))
    assert float(highway.carry.weight.detach().std()) == pytest.approx(40**-0.5, rel=0.1)
    bounds = {"weight_input": 6 / 140, "weight_state": 6 / 140, "weight_projection": 6 / 40}
    for name, square in bounds.items():
        largest = float(getattr(layer, name).detach().abs().max())
        assert 0.97 * square**0.5 < largest <= square**0.5 + 1e-6
    assert not layer.bias.any()


# Against the twin


def slowly(sentence: list[str], options: dict[str, Any], weights: dict[str, np.ndarray]) -> np.ndarray:
    """All layers (N, T, D) by the twin."""
    return twin.layers(sentence, options, {name: weight.astype(np.float64) for name, weight in weights.items()})


@pytest.mark.filterwarnings("ignore:.*tokens with spaces")  # such as drawn ones may have
@settings(max_examples=40)
@given(options=options(), sentences=SENTENCES, seed=st.integers(0, 2**32 - 1))
def test_model_and_embedder_agree_with_the_twin(options, sentences, seed) -> None:
    weights = random_weights(options, seed)
    bilm = as_published(options, weights)
    expected = [slowly(sentence, options, weights) for sentence in sentences]

    with torch.no_grad():
        output = bilm(to_batch(sentences, options["char_cnn"]["max_characters_per_token"]))
    for row, layers in enumerate(expected):
        seen = output.layers[:, row, : layers.shape[1]].numpy()
        np.testing.assert_allclose(seen, layers, rtol=0, atol=TOLERANCE)
    for seen, layers in zip(Embedder(bilm).embed(sentences), expected, strict=True):
        np.testing.assert_allclose(seen, layers[:, 1:-1], rtol=0, atol=TOLERANCE)


FIXED: dict[str, Any] = {
    "lstm": CHARACTERS["lstm"] | {"dim": 9, "projection_dim": 6, "cell_clip": None, "proj_clip": None},
    "char_cnn": CHARACTERS["char_cnn"] | {"embedding": {"dim": 4}, "filters": [[1, 4], [3, 4]]},
}


def test_what_the_comparison_is_worth() -> None:
    """A saturated network would agree with anything, and a twin that ignored an option could not show a fault there."""
    weights, sentence = random_weights(FIXED, 1), ["the", "cat", "sat", "on", "the", "mat"]
    layers = slowly(sentence, FIXED, weights)
    moved = slowly([*sentence[:4], "a", "mat"], FIXED, weights)
    assert np.all(layers[1:].std(axis=(1, 2)) > 0.1)
    assert np.abs(layers[1]).max() < 2  # without clips the projection of H cells below 1 could be many times larger
    assert np.all(np.abs(moved - layers).max(axis=2)[1:] > 1e-4)  # every token of every layer saw the change
    changes = {"use_skip_connections": False, "cell_clip": 0.1, "proj_clip": 0.1, "n_highway": 0, "activation": "tanh"}
    for name, value in changes.items():
        section = "lstm" if name in FIXED["lstm"] else "char_cnn"
        other = slowly(sentence, FIXED | {section: FIXED[section] | {name: value}}, weights)
        assert np.abs(other - layers)[:, 1:-1].max() > 0.1, name


def test_forget_bias_is_added_to_the_third_gate() -> None:
    config = BiLMConfig(LstmConfig(5, 4, 2, forget_bias=1.0), CharCnnConfig(3, ((2, 4),), 0))
    one = BiLM(config)
    other = BiLM(BiLMConfig(LstmConfig(5, 4, 2, forget_bias=-0.5), config.char_cnn))
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        for layer in other.layers:
            layer.bias[:, 10:15] += 1.5
        batch = to_batch([["the", "cat"]])
        torch.testing.assert_close(other(batch).layers, one(batch).layers, rtol=0, atol=1e-6)


# What must hold of any sentence

CONFIG = BiLMConfig(LstmConfig(12, 8, 3), CharCnnConfig(4, ((1, 5), (3, 7)), 1))
HALF = CONFIG.lstm.projection_dim


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    torch.manual_seed(5)
    return BiLM(CONFIG).requires_grad_(False)


def close(seen: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(seen, expected, rtol=0, atol=TOLERANCE)


@given(sentences=SENTENCES, extra=st.integers(0, 3))
def test_padding_is_zero_in_all_layers_and_its_content_does_not_matter(bilm, sentences, extra) -> None:
    batch = to_batch(sentences)
    plain = bilm(batch)
    steps = batch.char_ids.shape[1]
    there = torch.arange(steps) < batch.lengths[:, None]
    assert torch.equal(plain.mask, there)
    assert not plain.layers[:, ~there].any()
    assert plain.layers[:, there].any(dim=-1).all()

    char_ids = nn.functional.pad(batch.char_ids, (0, 0, 0, extra))
    padding = torch.arange(steps + extra) >= batch.lengths[:, None]
    char_ids[padding] = torch.randint(1, 262, (50,))
    filled = bilm(Batch(char_ids, batch.lengths))
    assert not filled.layers[:, padding].any()
    close(filled.layers[:, :, :steps], plain.layers)
    close(filled.state.cell, plain.state.cell)


def test_token_vectors_after_a_rows_end_do_not_matter_whatever_they_are() -> None:
    """Neither for the layers nor for gradients, where 0 times NaN would be NaN."""
    bilm, lengths, found = BiLM(CONFIG), torch.tensor([3, 4, 2]), []
    given = torch.randn(3, 4, HALF)
    for filling in (0.0, torch.nan):
        tokens = given.masked_fill((torch.arange(4) >= lengths[:, None])[:, :, None], filling).requires_grad_()
        layers = bilm.contextualize(tokens, lengths).layers
        used = [tokens, *bilm.layers.parameters()]
        found.append([layers, *torch.autograd.grad((layers * torch.arange(2.0 * HALF)).sum(), used)])
    for seen, expected in zip(found[1], found[0], strict=True):
        assert torch.equal(seen, expected)


@pytest.mark.parametrize("t", [0, 3, 6])
def test_recurrence_sees_nothing_later_exactly(bilm, t) -> None:
    """Past the encoder, with each direction in its own reading order, nothing has another shape."""
    inputs = torch.randn(2, 7, 3, HALF)
    changed = inputs.clone()
    changed[:, t, 1] += 1
    state = bilm.initial_state(3)
    before, after = (torch.stack(bilm.read(each, state)[0]) for each in (inputs, changed))
    assert torch.equal(after[:, :, :t], before[:, :, :t])
    assert torch.equal(after[:, :, :, [0, 2]], before[:, :, :, [0, 2]])  # nor what stands beside it in the batch
    assert (after != before)[:, :, t:, 1].any(dim=-1).all()


@given(words=st.lists(WORDS, max_size=8), data=st.data())
def test_sentence_in_two_pieces_with_the_state_passed_is_the_sentence_whole(bilm, words, data) -> None:
    """Of the forward direction, since the backward one begins at the end; in a batch with a row of another length."""
    whole = to_batch([words])
    cut = data.draw(st.integers(0, len(words) + 2))
    beside = to_batch([["the", "other", "row"]]).char_ids[0]
    expected, state, seen = bilm(whole), None, []
    for piece in (whole.char_ids[0, :cut], whole.char_ids[0, cut:]):
        rows = nn.utils.rnn.pad_sequence([beside, piece], batch_first=True)
        output = bilm(Batch(rows, torch.tensor([len(beside), len(piece)])), state)
        state = output.state
        seen.append(output.layers[:, 1, : len(piece), :HALF])
    close(torch.cat(seen, dim=1), expected.layers[:, 0, :, :HALF])
    close(state.hidden[:, 0, 1], expected.state.hidden[:, 0, 0])
    close(state.cell[:, 0, 1], expected.state.cell[:, 0, 0])


def test_state_goes_in_by_row_and_matters(bilm) -> None:
    batch = to_batch([["a"], ["a", "b", "c"], ["a"]])
    state = LstmState(*(torch.randn_like(part) for part in bilm.initial_state(3)))
    kept = [part.clone() for part in state]
    output = bilm(batch, state)
    assert all(torch.equal(part, before) for part, before in zip(state, kept, strict=True))  # not changed in place
    for row in range(3):
        words = ["a", "b", "c"] if row == 1 else ["a"]
        alone = bilm(to_batch([words]), LstmState(*(part[:, :, row : row + 1] for part in state)))
        close(output.layers[:, row, : len(words) + 2], alone.layers[:, 0])
        for after, expected in zip(output.state, alone.state, strict=True):
            close(after[:, :, row], expected[:, :, 0])
    assert not torch.allclose(output.layers[1:, 0], output.layers[1:, 2])
    assert torch.equal(output.layers[0, 0], output.layers[0, 2])


# Corners


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("rows", "steps"), [(0, 0), (0, 3), (2, 0), (2, 3), (1, 1)])
def test_nothing_to_read_is_no_error(rows, steps, grad) -> None:
    bilm = BiLM(CONFIG).requires_grad_(grad)
    lengths = torch.zeros(rows, dtype=torch.long)
    state = LstmState(*(torch.randn_like(part) for part in bilm.initial_state(rows)))
    output = bilm(Batch(torch.zeros(rows, steps, 50, dtype=torch.long), lengths), state)
    assert output.layers.shape == (4, rows, steps, 2 * HALF)
    assert not output.layers.any()
    assert all(torch.equal(after, before) for after, before in zip(output.state, state, strict=True))
    if grad:
        (output.layers.sum() + output.state.cell.sum()).backward()
        assert all(p.grad is not None and not p.grad.any() for p in bilm.parameters())


def test_empty_sentence_beside_a_row_without_tokens(bilm) -> None:
    one = to_batch([[]])
    char_ids = torch.cat([torch.zeros_like(one.char_ids), one.char_ids])
    output = bilm(Batch(char_ids, torch.tensor([0, 2])))
    assert not output.layers[:, 0].any()
    close(output.layers[:, 1], bilm(one).layers[:, 0])


@settings(max_examples=200)
@given(
    words=st.lists(
        st.one_of(
            st.lists(st.integers(0, 3), min_size=1, max_size=30),
            st.integers(0, 3).map(lambda character: [character] * 30),  # the same character all over
        ),
        min_size=1,
        max_size=5,
    ),
    filters=st.lists(st.tuples(st.integers(1, 9), st.just(2)), min_size=1, max_size=3),
)
def test_columns_left_out_are_columns_that_no_maximum_sees(words, filters) -> None:
    """Exactly so: the numbers are small whole ones, whose sums have no rounding in any order."""
    char_ids = torch.tensor([(word + [word[-1]] * 30)[:30] for word in words])
    size = 2 * len(filters)
    encoder = CharCnn(CharCnnConfig(3, tuple(filters), 0, 4, 30, "relu"), size)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randint(-4, 5, parameter.shape))
        encoder.embedding[0] = 0
        characters = encoder.embedding[char_ids].transpose(1, 2)
        expected = torch.cat(
            [torch.conv1d(characters, c.weight, c.bias).amax(-1).relu() for c in encoder.convolutions], dim=1
        )
        assert torch.equal(encoder(char_ids), expected)


def test_every_module_is_called_and_another_in_its_place_counts() -> None:
    """Forward hooks and adapters rely on it; weights that are packed would not have an adapter's."""
    bilm, batch = BiLM(CONFIG), to_batch([["the", "cat"]])
    plain, called = bilm(batch).layers, set()
    for module in bilm.modules():
        module.register_forward_hook(lambda module, *_: called.add(module))
    bilm(batch)
    assert called == {module for module in bilm.modules() if not isinstance(module, nn.ModuleList)}
    for name in ("highways.0.carry", "highways.0.transform", "projection"):
        adapted = BiLM(CONFIG)
        adapted.load_state_dict(bilm.state_dict())
        layer = adapted.token_encoder.get_submodule(name)
        adapted.token_encoder.set_submodule(name, nn.Sequential(layer, nn.Dropout(1.0)))
        assert not torch.equal(adapted(batch).layers, plain)
        with refused("Sequential", "merge"):
            adapted.packed()


def test_many_words_are_encoded_as_few_are() -> None:
    """Beyond 256 they are encoded in groups of about the same length, padded to a round number of words."""
    encoder = CharCnn(CONFIG.char_cnn, HALF)
    char_ids = torch.randint(1, 262, (300, 50))
    for word, length in zip(char_ids, torch.randint(1, 51, (300,)), strict=True):
        word[length:] = 261
    vectors = encoder(char_ids)
    assert vectors.shape == (300, HALF)
    few = torch.cat([encoder(part) for part in char_ids.split(100)])
    close(vectors, few)
    direction, gradients = torch.randn(300, HALF), []
    for encoded in (vectors, few):
        gradients.append(torch.autograd.grad((encoded * direction).sum(), list(encoder.parameters())))
    for seen, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)
    assert not gradients[0][0][0].any()


def test_gradient_of_the_whole_model_is_that_of_finite_differences() -> None:
    torch.manual_seed(2)
    bilm = BiLM(BiLMConfig(LstmConfig(3, 2, 2, 0.5, 0.4), CharCnnConfig(2, ((1, 2), (2, 1)), 1))).double()
    batch = to_batch([["a", "b"], [], ["b"]])
    state = LstmState(*(0.1 * torch.randn_like(part) for part in bilm.initial_state(3)))
    names, parameters = zip(*bilm.named_parameters(), strict=True)

    def run(hidden, cell, *parameters):
        output = torch.func.functional_call(
            bilm, dict(zip(names, parameters, strict=True)), (batch, LstmState(hidden, cell))
        )
        return output.layers, *output.state

    leaves = [part.requires_grad_() for part in state]
    assert torch.autograd.gradcheck(run, (*leaves, *parameters), fast_mode=True)


def test_gradient_passes_a_cell_below_a_wide_clip() -> None:
    """A cell of 12 has the same tanh in float32 as one at the clip of 20, and is not at the clip."""
    bilm = BiLM(BiLMConfig(LstmConfig(3, 2, 1, cell_clip=20.0, proj_clip=None), CharCnnConfig(2, ((1, 2),), 0)))
    state = bilm.initial_state(1)
    state = LstmState(state.hidden, (state.cell + 12).requires_grad_())
    bilm(to_batch([["a"]]), state).state.cell.sum().backward()
    assert (state.cell.grad > 0.01).all()


def test_second_derivatives_are_refused_rather_than_wrong(bilm) -> None:
    state = LstmState(*(part.requires_grad_() for part in bilm.initial_state(1)))
    layers = bilm(to_batch([["a"]]), state).layers
    (gradient,) = torch.autograd.grad(layers.square().sum(), state.hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()


@pytest.mark.parametrize("filters", [((1, 5), (3, 7)), ((1, 3), (3, 5))], ids=["projection", "no projection"])
def test_autocast_gives_float32_layers_near_the_plain_ones(filters) -> None:
    bilm = BiLM(BiLMConfig(CONFIG.lstm, CharCnnConfig(4, filters, 1)))
    batch = to_batch([["the", "cat", "sat"], ["a"]])
    plain = bilm(batch)
    for grad in (False, True):
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(grad):
            low = bilm(batch)
        assert low.layers.dtype == low.state.cell.dtype == torch.float32
        assert not torch.equal(low.layers, plain.layers)
        torch.testing.assert_close(low.layers, plain.layers, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CharCnnConfig(max_characters_per_token=5), "max_characters_per_token is 5; 7"),
        (lambda: CharCnnConfig(filters=()), "filters is []"),
        (lambda: CharCnnConfig(filters=((2, 0),)), "[(2, 0)]"),
        (lambda: CharCnnConfig(n_highway=-1), "n_highway is -1; 0"),
        (lambda: LstmConfig(n_layers=0), "n_layers is 0; 1"),
        (lambda: LstmConfig(cell_clip=-3.0), "cell_clip is -3.0; positive"),
        (lambda: LstmConfig(proj_clip=0.0), "proj_clip is 0.0; positive"),
    ],
)
def test_sizes_that_make_no_model_are_refused(build, message) -> None:
    with refused(*message.split("; "), error=ConfigError):
        build()


def test_annotations_refuse_wrong_shapes_and_types(bilm) -> None:
    """By jaxtyping's hook, which the tests run under."""
    char_ids, lengths = torch.zeros(2, 3, 50, dtype=torch.long), torch.tensor([3, 2])
    inputs, state = torch.zeros(2, 3, 4, HALF), bilm.initial_state(4)
    wrong = [
        lambda: Batch(char_ids, lengths[:1]),
        lambda: Batch(char_ids.float(), lengths),
        lambda: Batch(char_ids[0], lengths),
        lambda: Batch(char_ids, lengths > 2),
        lambda: bilm.encode_words(char_ids),
        lambda: bilm.read(inputs[0], state),
        lambda: bilm.read(inputs, state, keep=torch.ones(2, 3, 4)),
        lambda: bilm.read(inputs, state, keep=torch.ones(2, 4, 3, dtype=torch.bool)),
        lambda: bilm.layers[0](inputs, state.hidden[0], state.cell[0, :, :3]),
    ]
    for call in wrong:
        with pytest.raises(Exception, match=r"(?i)type-check error|jaxtyping"):
            call()


@pytest.mark.parametrize(
    ("config", "remedy"),
    [
        (replace(CONFIG, char_cnn=replace(CONFIG.char_cnn, max_characters_per_token=9)), "to_batch(sentences, 9)"),
        (replace(CONFIG, char_cnn=None, n_tokens_vocab=7), "vocabulary=model.inputs"),
    ],
)
def test_a_batch_of_other_tokens_than_the_model_reads_is_refused(config, remedy) -> None:
    with refused("50", remedy):
        BiLM(config)(to_batch([["the", "cat"]]))


# Its shapes

SIZES = st.integers(1, 4)
CHAR_CNNS = st.fixed_dictionaries(
    {
        "embedding_dim": SIZES,
        "filters": st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=3),
        "n_highway": st.integers(0, 2),
        "n_characters": st.integers(2, 9),
    }
)
WORDS_ONLY = st.fixed_dictionaries({"n_words": SIZES, "word_dim": SIZES})
LSTMS = st.fixed_dictionaries(
    {"dim": SIZES, "projection_dim": SIZES, "n_layers": st.integers(1, 3), "always_project": st.booleans()}
)
ENCODERS = st.one_of(
    CHAR_CNNS.map(lambda cnn: {"char_cnn": cnn}),
    SIZES.map(lambda words: {"char_cnn": None, "n_tokens_vocab": words}),
    WORDS_ONLY.map(lambda words: {"char_cnn": None, "word_cnn": words}),
    CHAR_CNNS.map(lambda cnn: {"char_cnn": None, "word_cnn": {"char_cnn": cnn}}),
    st.tuples(WORDS_ONLY, CHAR_CNNS).map(lambda both: {"char_cnn": None, "word_cnn": {**both[0], "char_cnn": both[1]}}),
)


@settings(max_examples=100, deadline=None)
@given(lstm=LSTMS, encoder=ENCODERS)
def test_the_shapes_of_a_configuration_are_those_of_its_network(lstm: Any, encoder: Any) -> None:
    """They are computed without the network, and without torch."""
    config = from_dict(BiLMConfig, {"lstm": lstm, **encoder})
    network = {name: tuple(weight.shape) for name, weight in BiLM(config).state_dict().items()}
    assert list(weight_shapes(config).items()) == list(network.items())
