"""The graphs of reading on a GPU, with kernels that compute nothing."""

import pytest
import torch
from idle_kernels import use_idle_kernels
from tiny import CONFIG

from elmo import ops
from elmo.embedding.graphs import GraphReader
from elmo.model.bilm import BiLM


def read(reader: GraphReader, rows: int) -> None:
    keep = torch.ones(2, 2, rows, dtype=torch.bool)
    reader.read(torch.ones(2, 2, rows, CONFIG.lstm.projection_dim), reader.initial_state(rows), [rows] * 2, keep)


@torch.inference_mode()
def test_more_rows_than_a_graph_has_share_the_graphs_of_few_shapes(monkeypatch):
    use_idle_kernels(monkeypatch)
    captures = []
    monkeypatch.setattr(ops, "capture", lambda *a, real=ops.capture: captures.append(a) or real(*a))
    reader = GraphReader(BiLM(CONFIG).eval(), torch.float32)
    for rows in (513, 514, 700, 1024):
        read(reader, rows)
    assert len(captures) == 1


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_reader_does_not_follow_changes_of_the_weights(dtype, monkeypatch):
    products = use_idle_kernels(monkeypatch, lambda first, *_: first.clone())
    bilm = BiLM(CONFIG).eval()
    reader, found = GraphReader(bilm, dtype), []
    read(reader, 1)  # with a capture
    for _ in range(2):
        products.clear()
        read(reader, 1)
        found.append(products[0])
        for weight in bilm.layers.parameters():
            weight.zero_()
    assert found[0].any()
    assert torch.equal(*found)
