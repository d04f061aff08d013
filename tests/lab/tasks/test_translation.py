"""`elmo cove`: the translation model, its run, and the encoder that remains."""

import dataclasses
import lzma
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from command import printed, run
from refusals import refusal, refused
from safetensors.torch import load_file
from small_run import metrics as scores
from small_tasks import killed_after
from small_tasks import weights_of as weights
from torch import Tensor

import elmo
from elmo import config as configs
from elmo import formats
from elmo.errors import InputError
from elmo.model.bilm import BiLMConfig
from elmo.model.lstm import LstmConfig
from elmo.model.translator import DecoderConfig, Translator
from elmo.text.batching import to_batch
from elmo.text.vocabulary import SPECIAL, Vocabulary
from elmo.training.loop import seed_step
from elmo_lab.tasks import translation
from elmo_lab.tasks.translation import CoveConfig

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
GERMAN = ["Eins", "Zwei", "Drei", "Vier", "Fünf", "Sechs", "Sieben", "Acht"]


def write_pairs(folder: Path, name: str, count: int, seed: int) -> tuple[str, str]:
    """A toy language: every word has one translation, and they come in reversed order."""
    rng = random.Random(seed)
    numbers = [[rng.randrange(len(ENGLISH)) for _ in range(rng.randint(1, 4))] for _ in range(count)]
    sides = ([[ENGLISH[n] for n in line] for line in numbers], [[GERMAN[n] for n in line[::-1]] for line in numbers])
    files = folder / f"{name}.en.txt", folder / f"{name}.de.xz"
    for file, side in zip(files, sides, strict=True):
        text = "".join(f"{' '.join(words)}\n" for words in side).encode()
        file.write_bytes(lzma.compress(text) if file.suffix == ".xz" else text)
    return str(files[0]), str(files[1])


def toy(folder: Path, output: str = "run", pairs: int = 60, **changes: Any) -> CoveConfig:
    """A run of the toy language that takes a second."""
    source, target = write_pairs(folder, "train", pairs, seed=1)
    heldout_source, heldout_target = write_pairs(folder, "heldout", 30, seed=2)
    values: dict[str, Any] = {
        "source": source,
        "target": target,
        "heldout_source": heldout_source,
        "heldout_target": heldout_target,
        "output": str(folder / output),
        "source_text": {"tokens": "whitespace", "sentences": "line"},
        "target_text": {"tokens": "whitespace", "sentences": "line"},
        "encoder": {"dim": 24, "projection_dim": 16},
        "decoder": {"dim": 32, "word_dim": 8, "dropout": 0.1},
        "training": {"epochs": 3, "lr": 1e-2, "checkpoint_minutes": 0},
        "batch": {"examples": 10},
    }
    return configs.from_dict(CoveConfig, configs.merge_tables(values, changes))


def slow_loss(
    model: Translator, source: list[str], target: list[str], words: Vocabulary, targets: Vocabulary
) -> Tensor:
    """The sum of a pair's negative log-probabilities, written like the equations, word by word."""
    encoded = model.encoder(to_batch([source], vocabulary=words)).layers[-1, 0]
    size = encoded.shape[1] // 2
    hidden = torch.tanh(model.start(torch.cat([encoded[-1, :size], encoded[0, size:]])))
    cell = torch.zeros_like(hidden)
    of_word, of_state, *biases = (parameter for _, parameter in model.decoder.named_parameters())
    total = torch.zeros(())
    for before, after in zip(["<S>", *target], [*target, "</S>"], strict=True):
        word = model.words.embedding[targets.id(before) + 1]
        gates = of_word @ word + of_state @ hidden + biases[0] + biases[1]
        i, f, g, o = gates.chunk(4)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        attention = torch.stack([torch.exp(model.score.weight @ hidden @ vector) for vector in encoded])
        context = sum(share * vector for share, vector in zip(attention / attention.sum(), encoded, strict=True))
        logits = model.softmax(torch.tanh(model.combine(torch.cat([context, hidden]))))
        total = total - torch.log(torch.exp(logits[targets.id(after)]) / torch.exp(logits).sum())
    return total


def test_loss_is_that_of_a_slow_translator() -> None:
    """Sentences of several lengths, one of them empty, and an unknown word on each side."""
    words, targets = Vocabulary((*SPECIAL, *ENGLISH)), Vocabulary((*SPECIAL, *GERMAN))
    encoder = BiLMConfig(LstmConfig(dim=6, projection_dim=4), None, len(words))
    model = Translator(encoder, DecoderConfig(dim=5, word_dim=3, dropout=0.5), len(targets)).eval()
    pairs = [(["one", "two", "nine"], ["Zwei", "Neun"]), ([], ["Eins"]), (["six"], []), (["six", "two"], ["Zwei"] * 4)]
    source = to_batch([source for source, _ in pairs], vocabulary=words)
    fast = model(source, to_batch([target for _, target in pairs], vocabulary=targets))
    slow = sum(slow_loss(model, source, target, words, targets) for source, target in pairs)
    torch.testing.assert_close(fast, slow / sum(len(target) + 1 for _, target in pairs))


def test_toy_language_is_learned_and_the_encoder_opens(tmp_path: Path) -> None:
    """A translator that ignored the source would be at 5 or more: four words in eight, and the end."""
    config = toy(tmp_path, pairs=400, training={"epochs": 10, "checkpoint_minutes": 9}, batch={"examples": 20})
    numbers = translation.train_cove(config, quiet=True)
    assert numbers["held-out perplexity"] < 1.5
    model = formats.load(config.output)
    assert model.config.n_tokens_vocab == len(SPECIAL) + len(ENGLISH)
    assert model.text == config.source_text
    tokens = len(Path(config.source).read_text(encoding="utf-8").split())
    assert model.card["words_read"] == numbers["best epoch"] * tokens
    best = min(line["perplexity"] for line in scores(Path(config.output)))
    assert model.card["translation"]["perplexity"] == pytest.approx(best)
    trained = load_file(Path(config.output) / "model.safetensors")
    own = Translator(model.config, config.decoder, len(SPECIAL) + len(GERMAN))
    own.load_state_dict(trained)
    sentence = ["four", "one", "six"]
    layers = own.encoder(to_batch([sentence], vocabulary=model.vocabulary)).layers[:, 0, 1:-1]
    (vectors,) = elmo.load(config.output).embed([sentence])
    torch.testing.assert_close(torch.from_numpy(vectors), layers.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("step", [2, 9])
def test_a_run_that_was_cut_gives_the_same_weights(tmp_path: Path, step: int) -> None:
    whole = toy(tmp_path)
    cut = dataclasses.replace(whole, output=str(tmp_path / "cut"))
    translation.train_cove(whole, quiet=True)
    with killed_after(step):
        translation.train_cove(cut, quiet=True)
    with pytest.raises(InputError, match="add --resume"):
        translation.train_cove(cut, quiet=True)
    with refused("seed was 1", "2"):
        translation.train_cove(dataclasses.replace(cut, seed=2), resume=True, quiet=True)
    heldout = Path(cut.heldout_source)
    text = heldout.read_bytes()
    heldout.write_bytes(text + b"one\n")
    with refused("sha256", "'heldout_source'"):
        translation.train_cove(cut, resume=True, quiet=True)
    heldout.write_bytes(text)
    translation.train_cove(cut, resume=True, quiet=True)
    for part in (Path(), Path("model")):
        assert weights(tmp_path / "cut" / part) == weights(tmp_path / "run" / part)
    assert scores(tmp_path / "cut") == scores(tmp_path / "run")
    with refused("finished"):
        translation.train_cove(cut, resume=True, quiet=True)


def test_weight_decay_leaves_word_vectors_as_they_are(tmp_path: Path) -> None:
    """No sentence has an unknown word."""
    config = toy(tmp_path, training={"epochs": 1, "weight_decay": 1.0})
    seed_step(config.seed, -1, 0)
    words, targets = len(SPECIAL) + len(ENGLISH), len(SPECIAL) + len(GERMAN)
    begun = Translator(BiLMConfig(config.encoder, None, words), config.decoder, targets).state_dict()
    translation.train_cove(config, quiet=True)
    trained = load_file(tmp_path / "run" / "model.safetensors")
    for name in ("encoder.token_encoder.embedding", "words.embedding"):
        row = 1 + SPECIAL.index("<UNK>")
        assert trained[name][row].tolist() == begun[name][row].tolist()


def test_words_of_a_file_of_vectors_keep_them_in_all_spellings(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("one 1 2\nowl 3 4\nUN 5 6\nun 7 8\n<S> 9 9\n", encoding="utf-8")
    config = toy(tmp_path, vectors=str(file), encoder={"projection_dim": 2}, training={"epochs": 1})
    source = Path(config.source)
    source.write_text("ONE nobody UN\n" + source.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")
    translation.train_cove(config, quiet=True)
    model = formats.load(config.output)
    assert model.vocabulary is not None
    assert model.vocabulary.words == (*SPECIAL, "one", "owl", "UN", "un", "One", "Owl", "Un", "ONE")
    table = model.weights["token_encoder.embedding"]
    expected = {"one": [1, 2], "One": [1, 2], "ONE": [1, 2], "UN": [5, 6], "Un": [7, 8], "nobody": [5, 5.8]}
    for word, vector in expected.items():
        assert table[model.vocabulary.id(word) + 1].tolist() == pytest.approx(vector)


def test_command_resumes_and_says_what_it_made(tmp_path: Path) -> None:
    config = toy(tmp_path)
    flags = [
        f"--{n.replace('_', '-')}={getattr(config, n)}"
        for n in ("source", "target", "heldout_source", "heldout_target")
    ]
    settings = ["encoder.dim=8", "encoder.projection_dim=4", "decoder.dim=8", "training.epochs=1", "seed=3"]
    shown = printed("cove", *flags, "--output", config.output, "--quiet", *settings)
    assert "held-out perplexity" in shown
    assert translation.read_record(Path(config.output)).seed == 3
    refusal(run("cove", "--output", config.output, "--resume"), "finished")


@pytest.mark.parametrize("name", ["model", "checkpoints"])
def test_a_file_in_the_place_of_a_folder_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    config = toy(tmp_path)
    folder = Path(config.output)
    folder.mkdir()
    record = {"config": configs.to_dict(config), "sha256": {}}
    (folder / "cove.json").write_text(configs.as_json(record), encoding="utf-8")
    (folder / name).write_text("mine", encoding="utf-8")
    with refused(folder / name, "move"):
        translation.check_output(folder, record, resume=True)
    (folder / name).unlink()
    translation.check_output(folder, record, resume=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": "absent.de"}, "absent.de"),
        ({"source": "lines.conllu"}, "lines.conllu"),
        ({"target": "short.fa"}, "60; short.fa; 1"),
        ({"target": "short.de"}, "60; short.de; 1"),
        ({"source": "blank.en", "target": "blank.en"}, "contain; words"),
        ({"vectors": "short.de"}, "word; vector"),
        ({"vectors": "vectors.txt"}, "encoder.projection_dim=2"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = dataclasses.replace(toy(tmp_path), **change)
    for name in ("short.de", "short.fa", "lines.conllu"):
        Path(name).write_text("Eins\n", encoding="utf-8")
    Path("blank.en").write_text("\n \n", encoding="utf-8")
    Path("vectors.txt").write_text("one 1 2\n", encoding="utf-8")
    with refused(*said.split("; ")):
        translation.train_cove(config, quiet=True)
    assert not Path(config.output).exists(), "nothing is left behind"


def test_a_long_line_is_one_line(tmp_path: Path) -> None:
    sides = ("one " * 20_000 + "\ntwo\n", "Eins\n" + "Zwei " * 20_000 + "\n")
    files = [tmp_path / "long.en.txt", tmp_path / "long.de.txt"]
    for file, side in zip(files, sides, strict=True):
        file.write_text(side, encoding="utf-8")
    pairs = translation.read_pairs(toy(tmp_path), *map(str, files))
    assert [(len(source), len(target)) for source, target in pairs] == [(20_000, 1), (1, 20_000)]


def test_command_names_the_missing_flag() -> None:
    refusal(run("cove", "--source", "a.en", "--target", "a.de"), "--heldout-source")
