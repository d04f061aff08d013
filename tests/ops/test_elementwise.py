"""A number has the same sigmoid anywhere in a tensor, and a sentence the same vectors, with any number of threads."""

import numpy as np
import pytest
import torch
from tiny import tiny_model

import elmo
from elmo.model.bilm import BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.ops.elementwise import GRAIN, sigmoid_

THREADS = (1, 2, 3, 6, 7, 16)


@pytest.fixture(params=THREADS)
def _threads(request: pytest.FixtureRequest) -> None:
    torch.set_num_threads(request.param)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("width", [1, 24, 33, 100, 4096])
def test_a_row_has_the_same_sigmoids_in_a_table_of_any_height(width: int) -> None:
    row = torch.randn(width, generator=torch.Generator().manual_seed(width))
    alone = sigmoid_(row.clone())
    assert torch.allclose(alone, torch.sigmoid(row), rtol=1e-6)
    for height in (1, 2, 7, 97, 101, -(-3 * GRAIN // width) + 1):
        table = row.repeat(height, 1)
        assert sigmoid_(table) is table
        assert torch.equal(table, alone.expand_as(table)), height


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("filters", [((1, 8), (2, 8), (3, 8)), ((1, 4), (2, 5))])
def test_a_sentence_has_the_same_vectors_in_a_batch_of_any_size(filters: tuple) -> None:
    cnn = CharCnnConfig(embedding_dim=16, filters=filters, n_highway=1)
    config = BiLMConfig(LstmConfig(dim=512, projection_dim=16, n_layers=2), cnn)
    embedder = elmo.Embedder(tiny_model(config).bilm())
    sentence = ["Iam", "uenit", "praeda", "."]
    alone = embedder.embed([sentence])[0]
    for size in (9, 17, 41):
        embedder.words.clear()
        others = [[f"{number}"] * 4 for number in range(size)]
        for found in embedder.embed([*others, *[sentence] * size])[size:]:
            assert np.array_equal(found, alone), size
