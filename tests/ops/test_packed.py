"""Packed models: every library and precision against the readable path, and none that silently uses another."""

import copy

import pytest
import torch
from refusals import refused

from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.elmo import Elmo
from elmo.model.lstm import LstmConfig, PackedBiLstmLayer
from elmo.model.word_cnn import WordCnnConfig
from elmo.ops import packing, products
from elmo.text.batching import to_batch
from elmo.types import Batch

LONG = "Two of the seven boats came back before the storm reached the harbour wall ."
SENTENCES = [line.split() for line in ("The old bridge was closed for the winter .", "Yes .", "", LONG)]
LIBRARIES = packing.find_support("float32").libraries


FRESH, HAS_ONEDNN = packing.find_support.__wrapped__, products.has_onednn
"""What `packing.find_support` finds now, not what it found first; and the function before a test replaces it."""


def pretend(monkeypatch, **found: packing.Support) -> None:
    """Makes this CPU one with other products."""
    true = packing.find_support
    supported = lambda precision: found.get(precision) or true(precision)  # noqa: E731
    monkeypatch.setattr(packing, "find_support", supported)
    monkeypatch.setattr("elmo.ops.find_support", supported)


def model(projection: bool = True, highways: int = 1, activation: str = "relu") -> BiLM:
    torch.manual_seed(0)
    size = 16
    config = BiLMConfig(
        LstmConfig(48 if projection else size, size, 2, 3.0, 3.0),
        CharCnnConfig(8, ((1, 8), (3, 24)), highways, activation=activation),  # type: ignore[arg-type]
    )
    bilm = BiLM(config).eval()
    for layer in bilm.layers:
        torch.nn.init.normal_(layer.bias, std=0.3)
    return bilm


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("projection", "highways", "activation", "at_once"), [(True, 1, "relu", 3), (False, 0, "tanh", 128)]
)
def test_packed_float32_equals_the_model(library, projection, highways, activation, at_once, monkeypatch):
    """Also where it reads many words in parts."""
    monkeypatch.setattr("elmo.model.char_cnn.WORDS", at_once)
    bilm = model(projection, highways, activation)
    batch = to_batch(SENTENCES)
    with torch.inference_mode():
        expected = bilm(batch)
        seen = bilm.packed("float32", library)(batch)
    torch.testing.assert_close(seen.layers, expected.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(seen.state, expected.state, rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_library_that_is_asked_for_is_the_one_that_runs(precision):
    weight = torch.randn(8, 4)
    assert type(packing.pack(weight, precision, "torch")) is products.TorchProduct
    if "onednn" in packing.find_support(precision).libraries:
        assert type(packing.pack(weight, precision, "onednn")) is products.OneDnnProduct


def test_onednn_is_found_where_torch_has_it():
    """Fails when the operators that are not public go away: then the fast path is lost, and should be mended."""
    assert products.has_onednn(torch.float32) == torch.backends.mkldnn.is_available()


def test_without_onednn_torch_is_taken(monkeypatch):
    for module in (products, packing):
        monkeypatch.setattr(module, "has_onednn", lambda dtype: False)
    assert FRESH("float32").libraries == ("torch",)
    assert FRESH("bfloat16").libraries == ("torch",)
    torch.testing.assert_close(products.product(torch.eye(3), torch.ones(2, 3)), torch.ones(3, 2))


def test_finding_onednn_draws_no_random_number():
    """It would be missing from the numbers of a training step: a resumed run would not be the run."""
    before = torch.get_rng_state()
    HAS_ONEDNN.__wrapped__(torch.float32)
    for precision in ("float32", "bfloat16", "int8"):
        FRESH(precision)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 17, 33, 1000])
def test_products_of_any_number_of_rows(precision, rows):
    """oneDNN is given few different numbers of rows; nobody sees that."""
    torch.manual_seed(rows)
    weight, x = torch.randn(8, 4), torch.randn(rows, 4)
    result = packing.pack(weight, precision)(x)
    torch.testing.assert_close(result, x @ weight.T, rtol=0, atol=1e-5 if precision == "float32" else 0.1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("at_once", [1, 5, 512])
def test_the_product_of_words_that_are_alike_is_taken_once(precision, at_once, monkeypatch):
    """With every part's words numbered, a packed model gives what it gives without; of fewer rows."""
    monkeypatch.setattr("elmo.ops.packed_lstm.REPEATED_AT_ONCE", at_once)
    bilm = model()
    packed = bilm.packed(precision, packing.find_support(precision).libraries[0])
    torch.manual_seed(1)
    same = torch.randint(4, (2, 9, 3))
    inputs = torch.randn(4, 16)[same]
    active, keep, state = [3, 3, 3, 2, 2, 2, 1, 1, 1], torch.rand(2, 9, 3) > 0.2, bilm.initial_state(3)
    rows: list[int] = []
    with torch.inference_mode():
        expected = packed.read(inputs, state, active, keep)
        layer = packed.layers[0]
        assert isinstance(layer, PackedBiLstmLayer)
        counted = [each._replace(input=Counting(each.input, rows)) for each in layer.directions]
        monkeypatch.setattr(layer, "directions", counted)
        seen = packed.read(inputs, state, active, keep, same=same)
    tolerance = 1e-6 if precision == "float32" else 1e-2
    torch.testing.assert_close(seen, expected, rtol=0, atol=tolerance)
    steps = max(1, at_once // 3)
    parts = [same[d, start : start + steps, : active[start]] for d in (0, 1) for start in range(0, 9, steps)]
    assert sorted(rows) == sorted(len(part.unique()) for part in parts)


CHARACTERS = CharCnnConfig(4, ((1, 4), (2, 4)), 1, 9, 5)
READ = {
    "characters": {"char_cnn": CHARACTERS},
    "words": {"char_cnn": None, "n_tokens_vocab": 8},
    "both": {"char_cnn": None, "word_cnn": WordCnnConfig(9, 3, CHARACTERS)},
}


def small(reads: str) -> tuple[BiLM, Batch]:
    torch.manual_seed(0)
    bilm = BiLM(BiLMConfig(LstmConfig(6, 4, 2), **READ[reads])).eval()
    return bilm, Batch(torch.randint(1, 9, (3, 4, bilm.config.ids_per_token)), torch.tensor([4, 2, 3]))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("reads", READ)
def test_a_packed_model_keeps_the_weights_as_they_were(reads, library):
    bilm, batch = small(reads)
    packed = bilm.packed("float32", library)
    with torch.inference_mode():
        before = packed(batch).layers
        for parameter in bilm.parameters():
            parameter.data += 1
        assert torch.equal(packed(batch).layers, before)
        assert not torch.allclose(bilm(batch).layers, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("reads", READ)
def test_a_packed_model_computes_in_float32_whatever_its_weights_are(reads, dtype):
    bilm, batch = small(reads)
    bilm.to(dtype)
    with torch.inference_mode():
        seen = bilm.packed()(batch).layers
        assert seen.dtype == torch.float32
        assert torch.equal(seen, copy.deepcopy(bilm).float().packed()(batch).layers)
        assert torch.equal(seen, bilm.packed(release=True)(batch).layers)


class Counting:
    """A product that writes down how many rows it was given."""

    def __init__(self, product: products.Product, rows: list[int]) -> None:
        self.size, self._product, self._rows = product.size, product, rows

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self._rows.append(len(x))
        return self._product(x)


X86_WITH_ONEDNN = packing.find_support("float32").libraries[0] == "onednn"


def operators(work) -> set[str]:
    """The names of torch's operators that `work` calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    return {event.key for event in profile.key_averages()}


WITHOUT_BFLOAT16 = packing.Support(("torch",), "this CPU has no bfloat16 instructions, so float32 is faster")


def test_a_processor_without_bfloat16_uses_float32_and_says_so(monkeypatch):
    pretend(monkeypatch, bfloat16=WITHOUT_BFLOAT16)
    with pytest.warns(UserWarning, match="bfloat16.*float32"):
        embedder = Embedder(model(), device="cpu", precision="bfloat16")
    assert embedder.precision == "float32"
    expected = Embedder(model(), device="cpu").embed(SENTENCES)
    assert all((a == b).all() for a, b in zip(embedder.embed(SENTENCES), expected, strict=True))
    with pytest.warns(UserWarning, match="float32"):
        assert Embedder(embedder.bilm, device="cpu", precision="bfloat16").bilm is embedder.bilm
    assert Embedder(model(), device="cpu", precision="bfloat16", library="torch").precision == "bfloat16"


def test_a_precision_or_library_that_is_not_there_is_refused(monkeypatch):
    pretend(monkeypatch, bfloat16=WITHOUT_BFLOAT16, int8=packing.Support((), "no library multiplies"))
    with refused("int8", "float32"):
        Embedder(model(), device="cpu", precision="int8")
    with refused("onednn", "bfloat16", "torch"):
        Embedder(model(), device="cpu", precision="bfloat16", library="onednn")
    with refused("fbgemm", "float32"):
        Embedder(model(), device="cpu", library="fbgemm")


def test_bfloat16_is_refused_where_onednn_refuses_it(monkeypatch):
    """As on a processor with AVX2 alone."""

    def refuse(*_):
        raise RuntimeError("mkldnn_reorder_linear_weight: bf16 path needs the cpu support avx_ne_convert or ...")

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(products.OneDnnProduct, "__init__", refuse)
    for module in (products, packing):
        monkeypatch.setattr(module, "has_onednn", HAS_ONEDNN.__wrapped__)
    assert FRESH("bfloat16").problem
    assert FRESH("float32").libraries == ("torch",)


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
def test_other_processors_take_the_products_of_torch(monkeypatch, machine):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert FRESH("float32").libraries == ("torch",)
    assert FRESH("bfloat16").libraries == ("torch",)
    bilm, batch = model(), to_batch(SENTENCES)
    monkeypatch.setattr(packing, "find_support", FRESH)
    with torch.inference_mode():
        torch.testing.assert_close(bilm.packed()(batch).layers, bilm(batch).layers, rtol=0, atol=1e-5)


def test_a_packed_model_is_not_said_to_have_other_products():
    packed = model().packed("bfloat16", "torch")
    assert packed.packed("bfloat16", "torch") is packed
    with refused("packed", "bfloat16"):
        packed.packed("float32")
    with refused("packed", "bfloat16"):
        Embedder(packed, device="cpu")
    assert Embedder(packed, device="cpu", precision="bfloat16", library="torch").bilm is packed


@pytest.mark.skipif(not X86_WITH_ONEDNN, reason="oneDNN is for x86")
@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("float32", "mkldnn::_linear_pointwise"),
        ("bfloat16", "mkldnn::_linear_pointwise"),
        ("int8", "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"),
    ],
)
def test_no_product_of_a_packed_model_falls_back(precision, expected):
    if packing.find_support(precision).libraries[0] != {"int8": "fbgemm"}.get(precision, "onednn"):
        pytest.skip(f"{precision} has another library on this CPU")
    packed = model().packed(precision)
    batch = to_batch(SENTENCES)
    with torch.inference_mode():
        called = operators(lambda: packed(batch))
    assert expected in called
    assert not called & {"aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear"}


@pytest.mark.skipif(not X86_WITH_ONEDNN, reason="oneDNN is for x86")
def test_no_product_of_a_training_step_falls_back():
    bilm = model().train()
    for parameter in bilm.parameters():
        parameter.requires_grad_()
    products.default_library()  # what it tries, it tries once a process: not a part of the step
    called = operators(lambda: bilm(to_batch(SENTENCES)).layers.sum().backward())
    assert "mkldnn::_linear_pointwise" in called
    assert not called & {"aten::mm", "aten::addmm", "aten::bmm", "aten::linear"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_network_around_a_packed_model_is_copied(library):
    """As by torch.optim.swa_utils.AveragedModel. The copy has mixes of its own; the packed weights are shared."""
    network = Elmo(model().packed("float32", library)).eval()
    copied = copy.deepcopy(network)
    network.mixes[0].gamma.data.fill_(0)
    batch = to_batch(SENTENCES)
    assert copied(batch)[0][0].any()
    assert not network(batch)[0][0].any()
    assert torch.equal(copied.bilm(batch).layers, network.bilm(batch).layers)
