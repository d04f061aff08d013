"""A biLM as a part of others' networks: torch.export, torch.compile, a state dict, training."""

import random
import subprocess
import sys

import pytest
import torch
from places import TESTS
from tiny import CONFIG, tiny_model
from torch import nn
from torch_programs import Tagger

from elmo.model.bilm import BiLM
from elmo.model.elmo import Elmo
from elmo.text.batching import to_batch


@pytest.mark.slow
def test_exported_and_compiled_networks_give_the_same_numbers(tmp_path):
    program = TESTS.joinpath("torch_programs.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all done"


@pytest.mark.parametrize("frozen", [True, False])
def test_a_network_around_an_elmo_learns_and_its_state_dict_holds_all_of_it(frozen, tmp_path):
    """The label of a word is whether it is an "oak"."""
    torch.manual_seed(3)
    draw = random.Random(3)
    texts = [[draw.choice(["oak", "elm", "ash"]) for _ in range(6)] for _ in range(40)]
    labels = torch.tensor([[0, *(int(word == "oak") for word in text), 0] for text in texts])
    batch = to_batch(texts)
    model = tiny_model()
    tagger = Tagger(model.elmo(dropout=0.0, frozen=frozen))
    before = {name: weight.clone() for name, weight in tagger.state_dict().items()}
    assert {f"elmo.bilm.{name}" for name in model.weights} < before.keys()
    optimizer = torch.optim.Adam([weight for weight in tagger.parameters() if weight.requires_grad], lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        scores = tagger(batch.char_ids, batch.lengths)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses[::30]
    after = tagger.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "elmo.mixes.0.scalars" in changed
    assert any(name.startswith("elmo.bilm") for name in changed) != frozen
    torch.save(after, tmp_path / "tagger.pt")
    other = Tagger(Elmo(BiLM(CONFIG), dropout=0.0, frozen=frozen))
    other.load_state_dict(torch.load(tmp_path / "tagger.pt", weights_only=True))
    given = (batch.char_ids, batch.lengths)
    assert torch.equal(other(*given), tagger(*given))
