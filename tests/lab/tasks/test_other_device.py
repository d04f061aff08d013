"""On a device that is not the CPU the networks of the tasks give the same losses, gradients and predictions."""

from pathlib import Path
from typing import cast

import pytest
import torch
from small_tasks import network, write_small
from torch import nn

from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.batches import BatchConfig
from elmo_lab.tasks.trained import predict, tokens_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", tasks.available())
@pytest.mark.parametrize("place", ["none", "both"])
def test_tasks_are_the_same(name: str, place: str, there: torch.device, tmp_path: Path) -> None:
    examples = tasks.find(name).read(write_small(tmp_path, name))
    found, predictions = [], []
    for device in (CPU, there):
        task, model, collate = network(name, examples, elmo=place)
        module = cast(nn.Module, model).to(device)
        torch.manual_seed(3)
        loss = model.loss(tokens_of(task, collate, examples, device), examples) + model.inputs.penalty()
        loss.backward()
        found.append({n: p.grad.cpu() for n, p in module.named_parameters() if p.grad is not None})
        found[-1]["loss"] = loss.detach().cpu()
        predictions.append(predict(task, module.eval(), collate, examples, BatchConfig(), device))
    assert found[0].keys() == found[1].keys()
    for part in found[0]:
        torch.testing.assert_close(found[0][part], found[1][part], atol=1e-5, rtol=1e-4)
    assert task.score(examples, predictions[0]) == task.score(examples, predictions[1])
