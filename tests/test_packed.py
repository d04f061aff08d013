"""Packed models: every library and precision against the readable path, and none that quietly takes another."""

import pytest
import torch

from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops import products
from elmo.text.batching import to_batch

SENTENCES = [
    ["The", "old", "bridge", "was", "closed", "for", "the", "winter", "."],
    ["Yes", "."],
    [],
    [
        "Two",
        "of",
        "the",
        "seven",
        "boats",
        "came",
        "back",
        "before",
        "the",
        "storm",
        "reached",
        "the",
        "harbour",
        "wall",
        ".",
    ],
]
LIBRARIES = ["torch", pytest.param("onednn", marks=pytest.mark.skipif(not products.has_onednn(), reason="no oneDNN"))]


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
@pytest.mark.parametrize(("projection", "highways", "activation"), [(True, 1, "relu"), (False, 0, "tanh")])
def test_packed_float32_equals_the_model(library, projection, highways, activation):
    bilm = model(projection, highways, activation)
    batch = to_batch(SENTENCES)
    with torch.inference_mode():
        expected = bilm(batch)
        seen = bilm.packed("float32", library)(batch)
    torch.testing.assert_close(seen.layers, expected.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(seen.state, expected.state, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("precision", "cosine"), [("bfloat16", 0.999), ("int8", 0.995)])
def test_lower_precisions_keep_their_direction(precision, cosine):
    bilm = model()
    batch = to_batch(SENTENCES)
    with torch.inference_mode():
        expected = bilm(batch).layers
        seen = bilm.packed(precision)(batch).layers
    assert not torch.equal(seen, expected)
    real = expected.abs().sum(-1) > 0
    assert torch.cosine_similarity(seen, expected, dim=-1)[real].min() > cosine


def test_int8_of_a_row_does_not_depend_on_its_batch_mates():
    torch.manual_seed(0)
    product = products.Int8Product(torch.randn(40, 16))
    rows = torch.randn(5, 16) * torch.tensor([0.01, 1.0, 100.0, 1.0, 0.0])[:, None]
    assert torch.equal(product(rows), torch.cat([product(row[None]) for row in rows]))


def test_int8_product_is_near_the_exact_one():
    torch.manual_seed(0)
    weight, x = torch.randn(64, 128), torch.randn(9, 128)
    exact = x @ weight.T
    assert float((products.Int8Product(weight)(x) - exact).norm() / exact.norm()) < 0.02


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_library_that_is_asked_for_is_the_one_that_runs(precision):
    weight = torch.randn(8, 4)
    assert type(products.pack(weight, precision, "torch")) is products.TorchProduct
    assert type(products.pack(weight, precision, "onednn")) is products.OneDnnProduct
    assert type(products.pack(weight, "int8")) is products.Int8Product


def test_onednn_is_found_where_torch_has_it():
    """Fails when the operators that are not public go away: then the fast path is lost, and should be mended."""
    assert products.has_onednn() == torch.backends.mkldnn.is_available()


def test_without_onednn_torch_is_taken(monkeypatch):
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    assert products.default_library() == "torch"
    torch.testing.assert_close(products.product(torch.eye(3), torch.ones(2, 3)), torch.ones(3, 2))


def test_finding_onednn_draws_no_random_number():
    """It would be missing from the numbers of a training step: a resumed run would not be the run."""
    products.has_onednn.cache_clear()
    before = torch.get_rng_state()
    products.has_onednn()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 17, 33, 1000])
def test_products_of_any_number_of_rows(precision, rows):
    """oneDNN is given few different numbers of rows; nobody sees that."""
    torch.manual_seed(rows)
    weight, x = torch.randn(8, 4), torch.randn(rows, 4)
    result = products.pack(weight, precision)(x)
    torch.testing.assert_close(result, x @ weight.T, rtol=0, atol=1e-5 if precision == "float32" else 0.1)


def test_a_packed_model_reads_many_words_in_parts(monkeypatch):
    monkeypatch.setattr("elmo.model.char_cnn.WORDS", 3)
    bilm = model()
    batch = to_batch(SENTENCES)
    with torch.inference_mode():
        torch.testing.assert_close(bilm.packed()(batch).layers, bilm(batch).layers, rtol=0, atol=1e-5)


X86_WITH_ONEDNN = products.default_library() == "onednn"


def operators(work) -> set[str]:
    """The names of torch's operators that `work` calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    return {event.key for event in profile.key_averages()}


def test_a_packed_model_is_not_said_to_have_other_products():
    packed = model().packed("bfloat16")
    assert packed.packed("bfloat16") is packed
    with pytest.raises(InputError, match="is packed for bfloat16 already"):
        packed.packed("float32")
    with pytest.raises(InputError, match="is packed for bfloat16 already"):
        Embedder(packed, device="cpu")
    assert Embedder(packed, device="cpu", precision="bfloat16").bilm is packed


@pytest.mark.skipif(not X86_WITH_ONEDNN, reason="oneDNN is for x86")
@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("float32", "mkldnn::_linear_pointwise"),
        ("bfloat16", "mkldnn::_linear_pointwise"),
        ("int8", "onednn::qlinear_pointwise"),
    ],
)
def test_no_product_of_a_packed_model_falls_back(precision, expected):
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
    called = operators(lambda: bilm(to_batch(SENTENCES)).layers.sum().backward())
    assert "mkldnn::_linear_pointwise" in called
    assert not called & {"aten::mm", "aten::addmm", "aten::bmm", "aten::linear"}
