"""Checks of torch.export and torch.compile, run by test_torch_programs.py in a process of their own.

There annotations are not checked, which a tracer's symbols would not pass, and torch's own warnings are no errors.
"""

import subprocess
import sys
from pathlib import Path

import torch
from tiny import CONFIG, tiny_model, write_tiny
from torch import nn
from torch.export import Dim

from elmo import formats
from elmo.errors import InputError
from elmo.integrations import allennlp
from elmo.model.bilm import BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.elmo import Elmo
from elmo.model.export import exported
from elmo.model.lstm import LstmConfig
from elmo.text.batching import to_batch
from elmo.types import Batch

CHARACTERS = CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 5), (3, 2)), activation="tanh", n_highway=1)
SENTENCES = [["the", "oak", "grows", "and", "grows"], ["oak"], [], ["naïve", "a" * 60, "oak"]]


def random_batch(config: BiLMConfig, lengths: list[int]) -> Batch:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 7, (len(lengths), max(lengths), config.ids_per_token), generator=draw)
    there = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Batch(ids * there[:, :, None], torch.tensor(lengths))


MODELS = {
    "usual": tiny_model(),
    "no projection, clips or skips": tiny_model(BiLMConfig(LstmConfig(4, 4, 3, None, None, False), CHARACTERS)),
    "words": tiny_model(BiLMConfig(LstmConfig(6, 4, 1), None, n_tokens_vocab=50)),
    "words and characters": formats.load(Path(__file__).parent / "data" / "many_langs" / "both"),
}


def an_exported_bilm_gives_the_same_numbers(name: str) -> None:
    bilm, config = MODELS[name].bilm(), MODELS[name].config
    program = exported(bilm).module()
    for lengths in ([2], [3, 7, 2], [1, 1, 1, 1], [20, 4]):
        batch = random_batch(config, lengths)
        with torch.no_grad():
            layers, mask = program(batch.char_ids, batch.lengths)
            expected = bilm(batch)
        assert torch.equal(mask, expected.mask)
        torch.testing.assert_close(layers, expected.layers, rtol=1e-5, atol=1e-5)


def an_exported_bilm_has_the_same_gradients() -> None:
    bilm, batch = tiny_model().bilm(), random_batch(CONFIG, [3, 2])
    bilm(batch).layers.square().sum().backward()
    wanted = {name: weight.grad for name, weight in bilm.named_parameters()}
    bilm.zero_grad()
    layers, _ = exported(bilm).module()(batch.char_ids, batch.lengths)
    layers.square().sum().backward()
    for name, weight in bilm.named_parameters():  # a program shares the weights
        torch.testing.assert_close(weight.grad, wanted[name], rtol=1e-4, atol=1e-5)


def a_saved_elmo_runs_without_this_package(tmp_path: Path) -> None:
    elmo = tiny_model().elmo(dropout=0.5)
    elmo.mixes.append(type(elmo.mixes[0])(3, layer_norm=True))
    with torch.no_grad():
        elmo.mixes[0].scalars.copy_(torch.tensor([1.0, -1.0, 0.5]))
    torch.export.save(exported(elmo), tmp_path / "elmo.pt2")
    assert elmo.training  # as it was, and the program has no dropout
    assert not elmo.bilm.training
    batch = to_batch(SENTENCES)
    torch.save({"char_ids": batch.char_ids, "lengths": batch.lengths}, tmp_path / "batch.pt")
    run = (
        "import sys; sys.modules['elmo'] = None\nimport torch\n"
        "batch = torch.load('batch.pt', weights_only=True)\n"
        "with torch.no_grad():\n    torch.save(torch.export.load('elmo.pt2').module()(*batch.values()), 'out.pt')"
    )
    subprocess.run([sys.executable, "-c", run], cwd=tmp_path, check=True)
    first, second, mask = torch.load(tmp_path / "out.pt", weights_only=True)
    wanted, there = elmo.eval()(batch)
    torch.testing.assert_close(first, wanted[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(second, wanted[1], rtol=1e-5, atol=1e-5)
    assert torch.equal(mask, there)


def a_packed_model_is_not_exported() -> None:
    try:
        exported(tiny_model().bilm().packed())
    except InputError as error:
        message = str(error)
    assert "formats.load" in message


class Tagger(nn.Module):
    """Somebody's network."""

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo = elmo
        self.labels = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 2))

    def forward(self, char_ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        (vectors,), mask = self.elmo(Batch(char_ids, lengths))
        return self.labels(vectors) * mask[:, :, None]


def a_network_around_an_elmo_is_exported_as_a_whole() -> None:
    tagger = Tagger(tiny_model().elmo()).eval()
    batch = random_batch(CONFIG, [4, 2])
    shapes = {"char_ids": {0: (rows := Dim("B", min=1)), 1: Dim("T", min=1)}, "lengths": {0: rows}}
    program = torch.export.export(tagger, (batch.char_ids, batch.lengths), dynamic_shapes=shapes).module()
    for lengths in ([1], [9, 2, 5]):
        batch = random_batch(CONFIG, lengths)
        with torch.no_grad():
            given, wanted = program(batch.char_ids, batch.lengths), tagger(batch.char_ids, batch.lengths)
        torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6)


def a_compiled_network_gives_the_same_numbers_and_gradients() -> None:
    tagger = Tagger(tiny_model().elmo(dropout=0.0, frozen=False))
    compiled = torch.compile(tagger, backend="aot_eager")
    for lengths in ([4, 2], [9, 2, 5], [1]):
        batch = random_batch(CONFIG, lengths)
        results = []
        for network in (tagger, compiled):
            tagger.zero_grad()
            given = network(batch.char_ids, batch.lengths)
            given.square().sum().backward()
            results.append((given.detach(), [weight.grad for weight in tagger.parameters()]))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)


def a_compiled_stand_in_of_allennlp_gives_the_same_numbers(folder: Path) -> None:
    files = write_tiny(folder / "model")
    for words in (None, ["oak", "the", "grows"]):
        network = allennlp.Elmo(*files, 2, dropout=0.0, vocab_to_cache=words)
        compiled = torch.compile(network, backend="aot_eager")
        for sentences in (SENTENCES, [["oak"]]):
            char_ids = allennlp.batch_to_ids(sentences)
            word_ids = None if words is None else torch.ones(char_ids.shape[:2], dtype=torch.long)
            given, wanted = compiled(char_ids, word_ids), network(char_ids, word_ids)
            torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-6)
    encoder = network._elmo_lstm._token_embedder
    torch.testing.assert_close(torch.compile(encoder, backend="aot_eager")(char_ids), encoder(char_ids))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in MODELS:
        an_exported_bilm_gives_the_same_numbers(name)
    an_exported_bilm_has_the_same_gradients()
    a_saved_elmo_runs_without_this_package(Path(sys.argv[1]))
    a_packed_model_is_not_exported()
    a_network_around_an_elmo_is_exported_as_a_whole()
    a_compiled_network_gives_the_same_numbers_and_gradients()
    a_compiled_stand_in_of_allennlp_gives_the_same_numbers(Path(sys.argv[1]))
    sys.stdout.write("all done\n")
