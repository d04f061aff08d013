"""From text to a pretrained model: what is minimised, what a run leaves behind, its configuration, its plan."""

import json
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from command import printed, run
from links import link
from refusals import names, refusal, refused
from small_corpus import write_corpus
from small_run import LEARNS, TINY, losses, metrics, texts

from elmo import config as configs
from elmo.config import RECIPES
from elmo.disk.lock import LOCK, locked
from elmo.errors import InputError
from elmo.formats import native
from elmo.model.bilm import BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.pretraining import train
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import make_ids
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig, top_layer
from elmo.pretraining.order import MAX_CHARACTERS
from elmo.pretraining.plan import make_plan, piece_characters
from elmo.pretraining.settings import TrainConfig, read_record
from elmo.text import corpus
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, CorpusCounts, Vocabulary, count_vocabulary
from elmo.training.loop import LoopConfig
from elmo.types import LmBatch

LINES = TextConfig("whitespace", "line")
CONFIG = BiLMConfig(LstmConfig(dim=6, projection_dim=4), CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 5))))
VOCABULARY = Vocabulary((*SPECIAL, "The", ".", "near", "the", "waits", "sailor", "judge", "farmer"))
EXACT = ObjectiveConfig(negatives=0, dropout=0.0, reset_probability=0.0)


def network(objective: ObjectiveConfig = EXACT) -> LanguageModel:
    torch.manual_seed(1)
    return LanguageModel(CONFIG, len(VOCABULARY), objective)


def window(folder: Path, length: int = 12, streams: int = 3) -> LmBatch:
    """Not the first one of the corpus: there every stream begins a document."""
    path = write_corpus(folder / "text.txt", 12)
    reader = LmReader(make_ids([path], LINES), VOCABULARY, ReaderConfig(streams, length, seed=1))
    next(reader)
    return next(reader)


def arguments(batch: LmBatch) -> tuple[torch.Tensor, ...]:
    return (batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts)


# The objective


def test_loss_is_the_mean_surprise_over_both_directions(tmp_path):
    batch, model = window(tmp_path), network()
    state = model.bilm.initial_state(3)
    loss, _ = model(*arguments(batch), state)
    hidden, _ = top_layer(model.bilm, batch.char_ids, batch.inputs, batch.keep, state)
    surprise = []
    for direction in range(2):
        for row in range(3):
            for place in range(12):
                logits = model.lm_head.weight @ hidden[direction, place, row] + model.lm_head.bias
                surprise.append(-torch.log_softmax(logits, 0)[batch.targets[direction, row, place]])
    torch.testing.assert_close(loss, torch.stack(surprise).mean())


def test_loss_scale_multiplies_loss_and_gradient(tmp_path):
    batch = window(tmp_path)
    plain, scaled = network(), network(replace(EXACT, loss_scale=20.0))
    found = []
    for model in (plain, scaled):
        loss, _ = model(*arguments(batch), model.bilm.initial_state(3))
        loss.backward()
        found.append((loss, model.lm_head.weight.grad))
    torch.testing.assert_close(found[1][0], 20 * found[0][0])
    torch.testing.assert_close(found[1][1], 20 * found[0][1])


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_state_is_set_to_zero_before_some_sentences_of_both_directions(tmp_path, monkeypatch, probability):
    batch = window(tmp_path, length=400, streams=4)
    seen = {}

    def spy(bilm, char_ids, inputs, keep, state, dropout=0.0):
        seen["keep"] = keep
        return top_layer(bilm, char_ids, inputs, keep, state, dropout)

    monkeypatch.setattr("elmo.pretraining.objective.top_layer", spy)
    model = network(replace(EXACT, reset_probability=probability))
    model(*arguments(batch), model.bilm.initial_state(4))
    keep, inside = seen["keep"], batch.starts & batch.keep
    assert torch.equal(keep[~inside], batch.keep[~inside])  # documents begin at zero, nothing else changes
    share = 1 - keep[inside].double().mean()
    assert share == probability if probability != 0.5 else abs(share - 0.5) < 0.1
    assert torch.equal(keep[0], keep[1])


def test_sentence_after_a_reset_does_not_depend_on_the_state(tmp_path):
    """With every sentence reset, only the window's own words matter from its first boundary on."""
    batch, model = window(tmp_path, length=30), network()
    other = type(model.bilm.initial_state(3))(*(torch.randn_like(part) for part in model.bilm.initial_state(3)))
    keep = batch.keep & ~batch.starts
    hidden = [
        top_layer(model.bilm, batch.char_ids, batch.inputs, keep, state)[0]
        for state in (model.bilm.initial_state(3), other)
    ]
    begun = batch.starts.int().cumsum(-1).bool().transpose(1, 2)
    assert not begun.all()
    torch.testing.assert_close(hidden[0][begun], hidden[1][begun])
    assert not torch.allclose(hidden[0][~begun], hidden[1][~begun])


@pytest.mark.parametrize("negatives", [len(VOCABULARY), 4096])
def test_vocabulary_smaller_than_the_sample_gets_the_full_softmax(tmp_path, negatives):
    batch = window(tmp_path)
    full, capped = network(), network(replace(EXACT, negatives=negatives))
    states = [model.bilm.initial_state(3) for model in (full, capped)]
    assert torch.equal(full(*arguments(batch), states[0])[0], capped(*arguments(batch), states[1])[0])


# A run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """It has a training and a held-out text."""
    made = tmp_path_factory.mktemp("run")
    texts(made)
    return made


@pytest.fixture(scope="module")
def trained(folder) -> Path:
    settings = ("loop.log_steps=25", "loop.evaluate_steps=40")
    printed("train", *texts(folder), *TINY, *LEARNS, *settings, "--output", folder / "run")
    return folder / "run"


def test_training_brings_loss_and_perplexity_down(trained):
    found = losses(trained)
    assert found[-1] < 0.7 * found[0]
    evaluations = [line for line in metrics(trained) if "carry_mean" in line]
    assert [line["step"] for line in evaluations] == [40, 80, 100]
    for policy in ("carry", "reset"):
        first, _, last = (line[f"{policy}_mean"] for line in evaluations)
        assert last < 0.7 * first
        assert last < 12  # of 27 words


def test_run_leaves_a_model_that_loads_and_its_record(trained, folder):
    model = native.load(trained / "model")
    assert model.config.lstm.dim == 8
    assert model.text == LINES
    counts = json.loads((trained / "corpus.json").read_text())["counts"]
    lines = [line.split() for line in (folder / "train.txt").read_text().splitlines() if line]
    assert counts["tokens"] == sum(map(len, lines))
    assert counts["sentences"] == len(lines)
    assert model.vocabulary is not None
    assert model.vocabulary.words == tuple((trained / "vocab.txt").read_text().splitlines())
    assert set(model.vocabulary.words[3:]) == {word for line in lines for word in line}
    card = model.card
    assert card["words_read"] == 16000
    assert card["train"] == ["train.txt"]
    assert card["vocabulary"] == {"size": len(model.vocabulary), "sha256": model.vocabulary.sha256}
    last = [line for line in metrics(trained) if "carry_mean" in line][-1]
    assert card["perplexity"]["reset"]["mean"] == last["reset_mean"]
    heldout = corpus.corpus_fingerprint([folder / "heldout.txt"])
    assert last["measured_on"] == {"heldout": heldout, "words": card["perplexity"]["carry"]["tokens"]}
    assert read_record(trained / "train.json").streams == 16


def test_recorded_perplexity_is_that_of_the_command(trained, folder):
    shown = printed("perplexity", folder / "heldout.txt", "--model", trained / "model", "--json")
    found = json.loads(shown)["perplexity"]
    card = native.load(trained / "model").card["perplexity"]
    for policy in ("carry", "reset"):
        assert found[policy] == pytest.approx(card[policy], rel=1e-6)


def test_vocabulary_that_is_given_is_used(folder, tmp_path):
    VOCABULARY.save(tmp_path / "words.txt")
    settings = (f"vocab={tmp_path / 'words.txt'}", "max_words=40", "--output", tmp_path / "run")
    printed("train", *texts(tmp_path), *TINY, *settings)
    model = native.load(tmp_path / "run" / "model")
    assert model.vocabulary == VOCABULARY
    assert 0 < model.card["perplexity"]["reset"]["unknown_rate"] < 1


@pytest.mark.parametrize(
    ("rate", "words", "said"),
    [
        ("1e30", 2000, ("elmo: error: step ", "not finite in bilm.")),
        ("1e38", 8, ("after step 1",)),
        ("1e8", 8, ("after step 1",)),
    ],
)
def test_run_that_diverges_exits_with_1_and_one_line(tmp_path, rate, words, said):
    """In the last step, after a finite loss: there is no model, and no checkpoint to continue from, nor advised."""
    settings = ("optim.name=adagrad", f"optim.lr={rate}", "optim.warmup_steps=0", f"max_words={words}")
    few = ("loop.checkpoint_steps=1",) if words > 8 else ()
    done = run("train", *texts(tmp_path), *TINY, *settings, *few, "--quiet", "--output", tmp_path / "run")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    names(done.stderr.strip(), *said, "optim.lr")
    assert ("--resume" in done.stderr) == (words > 8)
    assert not (tmp_path / "run" / "model").exists()


# The plan


def test_steps_are_counted():
    counts = CorpusCounts(tokens=900, sentences=100, types=50, covered=900, characters=4500)
    base = TrainConfig(("a.txt",), "run", streams=4, window=5)
    assert make_plan(base, counts).steps == 50
    assert make_plan(replace(base, epochs=2.5), counts).steps == 125
    assert make_plan(replace(base, loop=LoopConfig(accumulate=3)), counts).steps == math.ceil(1000 / 60)
    assert make_plan(replace(base, max_words=101), counts).steps == 6
    assert make_plan(replace(base, epochs=0.0001), counts).steps == 1


@pytest.mark.parametrize("sentences", [2_000, 20_000])
def test_a_small_text_without_blank_lines_is_read_whole(tmp_path, sentences):
    """It would be few pieces of one document, dealt again and again, while the others wait."""
    words = [[f"w{10 * number + place}" for place in range(10)] for number in range(sentences)]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(map(" ".join, words)), encoding="utf-8")
    vocabulary, counts = count_vocabulary(words, min_count=1, max_size=10**6)
    config = TrainConfig(("text.txt",), "run")
    reader = ReaderConfig(
        config.streams, config.window, 1, document_characters=piece_characters(counts, config.streams)
    )
    batches = islice(LmReader(make_ids([path], LINES), vocabulary, reader), make_plan(config, counts).steps)
    seen = {int(target) for batch in batches for target in batch.targets[0].flatten()}
    assert len(seen) > 0.95 * len(vocabulary)


def test_pieces_of_a_large_corpus_are_whole():
    assert piece_characters(CorpusCounts(10**8, 10**6, 10**5, 10**8, 10**9), 64) == MAX_CHARACTERS


@pytest.mark.parametrize("text", ["{}", "[]", '{"fingerprint": "x", "counts": {"words": 1}}', '{"finger'])
def test_a_record_of_words_that_is_damaged_is_named(tmp_path, trained, text):
    copy = shutil.copytree(trained, tmp_path / "run")
    (copy / "corpus.json").write_text(text, encoding="utf-8")
    done = run("train", "--resume", "--output", copy, "--quiet")
    refusal(done, "corpus.json", "damaged")


def test_text_changed_in_its_place_is_not_resumed(folder, trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "run")
    arguments = ("train", "--resume", "--output", copy, "--quiet", "max_words=16160")
    other = tmp_path / "train.txt"
    other.write_text((folder / "train.txt").read_text(encoding="utf-8").swapcase(), encoding="utf-8")
    refusal(run(*arguments, "--train", other), "corpus.json", "differ", "--output")


def test_processes_that_do_not_meet_say_so_in_a_line(tmp_path):
    alone = ("nodes=2", "wait_minutes=0.02", "--output", tmp_path / "run")
    done = run("train", *texts(tmp_path), *TINY, *alone, variables={"MASTER_ADDR": "localhost"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "2 processes" in done.stderr
    assert "torchrun --nnodes 2 --nproc-per-node 1 -m elmo train" in done.stderr


def test_a_run_that_was_trained_further_is_not_said_to_be_shorter(tmp_path, folder, trained):
    copy = shutil.copytree(trained, tmp_path / "run")
    refusal(run("train", "--resume", "--output", copy, "--quiet", "max_words=20"), "step-", "raise")
    assert (copy / "train.json").read_bytes() == (trained / "train.json").read_bytes()


def test_a_run_that_another_process_is_at_is_left_alone(tmp_path, trained):
    """Also if a second one was begun while the folder was still empty."""
    copy = shutil.copytree(trained, tmp_path / "run")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with locked(copy / LOCK):
        refusal(run("train", "--resume", "--output", copy, "--quiet", "epochs=50"), copy, "another process")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    (tmp_path / "new").mkdir()
    with locked(tmp_path / "new" / LOCK), refused("new", "another process"):
        train.pretrain(replace(read_record(trained / "train.json"), output=str(tmp_path / "new")), quiet=True)
    assert not list((tmp_path / "new").iterdir())


def test_a_training_text_is_no_heldout_text(tmp_path, folder):
    """As a pattern may match both; its perplexity would look better than it is."""
    link(tmp_path / "text", folder)
    given = ("--train", folder / "*.txt", "--heldout", tmp_path / "text" / "heldout.txt", *TINY, "--quiet")
    refusal(run("train", *given, "--output", tmp_path / "run"), tmp_path / "text" / "heldout.txt")
    (tmp_path / "copy.txt").write_bytes((folder / "heldout.txt").read_bytes())
    given = ("--train", folder / "*.txt", "--heldout", tmp_path / "copy.txt", *TINY, "--quiet")
    refusal(run("train", *given, "--output", tmp_path / "run"), folder / "heldout.txt")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "words.txt"),
        ("a\nb\n", "words.txt; <S>"),
        ("<S>\n</S>\n<UNK>\na\n \nb\n", "words.txt; line 5; remove"),
        ("<S>\n</S>\n<UNK>\na\nb\na \n", "words.txt; line 6; 'a'; line 4; remove"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused_before_words_are_counted(tmp_path, trained, content, problem):
    words = tmp_path / "words.txt"
    if content is not None:
        words.write_text(content, encoding="utf-8")
    config = replace(read_record(trained / "train.json"), vocab=str(words), output=str(tmp_path / "run"))
    with mock.patch.object(train, "count_corpus") as count, refused(*problem.split("; "), error=(InputError, OSError)):
        train.pretrain(config, quiet=True)
    assert not count.called


def test_a_file_of_somebody_else_in_the_models_folder_does_not_end_a_run(tmp_path, trained):
    """As a file manager leaves one there: the run goes on, and says so; without it, the last model is written."""
    config = replace(read_record(trained / "train.json"), output=str(tmp_path / "run"))
    other = tmp_path / "run" / "model" / ".DS_Store"
    export = train.write_model
    with (
        mock.patch.object(train, "write_model", lambda *given: (export(*given), other.touch())),
        pytest.warns(UserWarning, match=r"model.*\.DS_Store.*move"),
        refused("model", "last step", "move"),
    ):
        train.pretrain(config, quiet=True)
    assert native.describe(tmp_path / "run" / "model").card["words_read"] < 16000
    before = metrics(tmp_path / "run")
    with refused("model", ".DS_Store", "move"):
        train.pretrain(config, resume=True, quiet=True)
    other.unlink()
    train.pretrain(config, resume=True, quiet=True)
    assert native.describe(tmp_path / "run" / "model").card["words_read"] == 16000
    assert metrics(tmp_path / "run") == before == metrics(trained)


def test_a_folder_with_other_files_does_not_get_the_ids(tmp_path, folder):
    """One of the files has the name of one of theirs."""
    words = tmp_path / "mine" / "words.txt"
    words.parent.mkdir()
    words.write_text("mine")
    given = ("train", *texts(folder), *TINY, f"ids={words.parent}", "--quiet", "--output", tmp_path / "run")
    refusal(run(*given), words.parent, "as ids")
    assert words.read_text() == "mine"
    assert not (tmp_path / "run").exists()


def test_ids_replace_no_text_and_no_part_of_their_run(tmp_path, folder):
    text = tmp_path / "mine" / "tokens.bin"
    text.parent.mkdir()
    shutil.copy(folder / "train.txt", text)
    output = tmp_path / "run"
    for place in (text.parent, output, output / "model", output / "text" / "of"):
        given = ("train", "--train", text, *TINY, f"ids={place}", "--quiet", "--output", output)
        refusal(run(*given), place, "name another")
        assert not output.exists()
    assert text.read_bytes() == (folder / "train.txt").read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
@pytest.mark.parametrize("flag", ["--train", "--heldout"])
def test_a_pipe_is_refused(tmp_path, folder, flag):
    """It can be read only once, or waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    given = {"--train": folder / "train.txt", flag: tmp_path / "pipe"}
    done = run("train", *chain(*given.items()), *TINY, "--quiet", "--output", tmp_path / "run")
    refusal(done, tmp_path / "pipe")


@pytest.mark.skipif(sys.platform != "linux", reason="has no such names")
def test_a_folder_whose_name_is_no_utf8_is_refused_and_such_a_text_is_read(tmp_path, folder):
    """safetensors would write checkpoints there, but not read them."""
    text = shutil.copy(folder / "train.txt", tmp_path / os.fsdecode(b"caf\xe9.txt"))
    given = ("--train", text, *TINY, "epochs=1", "--quiet", "--output")
    refusal(run("train", *given, tmp_path / os.fsdecode(b"caf\xe9")), "another --output")
    printed("train", *given, tmp_path / "run")
    assert read_record(tmp_path / "run" / "train.json").train == (str(text),)


def test_dry_run_tells_the_plan_and_writes_nothing(tmp_path, folder, trained):
    settings = (*texts(folder), *TINY, "epochs=2", "init_from=none", "--dry-run", "--output", tmp_path / "run")
    shown = printed("train", *settings)
    told = dict(re.split(" {2,}", line) for line in shown.splitlines())
    counts = json.loads((trained / "corpus.json").read_text())["counts"]
    words = counts["tokens"] + counts["sentences"]
    model = native.load(trained / "model")
    assert model.lm_head is not None
    assert told.pop("memory").endswith("GiB")
    assert float(told.pop("hours")) >= 0
    assert {name: int(value.replace(",", "")) for name, value in told.items()} == {
        "parameters": sum(weight.numel() for weight in model.weights.values()),
        "softmax parameters": sum(weight.numel() for weight in model.lm_head.values()),
        "words per epoch": words,
        "words per step": 20,
        "steps": math.ceil(2 * words / 20),
    }
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_a_resumed_run_tells_what_is_left(trained):
    config = replace(read_record(trained / "train.json"), max_words=110 * 160)
    clock = SimpleNamespace(perf_counter=partial(next, count(0, 3600)))
    with mock.patch.object(train, "time", clock):
        told = train.pretrain(config, resume=True, dry_run=True, quiet=True)
    assert (told["steps"], told["steps left"], told["hours"]) == (110, 10, 10)


# The configuration


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_package_is_a_configuration(recipe):
    values = configs.load_toml(recipe) | {"train": ["a.txt"], "output": "run"}
    made = configs.from_dict(TrainConfig, values)
    assert make_plan(made, CorpusCounts(10**8, 10**6, 10**6, 10**8, 10**9)).steps > 0
    assert "/" not in json.dumps({key: value for key, value in values.items() if key not in ("train", "output")})


def test_later_settings_win_and_the_printed_ones_make_the_same_configuration(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('streams = 8\noutput = "of the recipe"\n[optim]\nlr = 0.1\nwarmup_steps = 7\n', encoding="utf-8")
    given = ("--train", "a.txt", "--train", "b*.txt", "streams=16", "--output", "flag", "optim.lr=0.2")
    values = json.loads(printed("train", recipe, *given, "--pretokenized", "--print-config"))
    assert values["train"] == ["a.txt", "b*.txt"]
    assert values["text"] == {"tokens": "whitespace", "sentences": "line", "language": "en", "normalize": []}
    assert (values["streams"], values["output"]) == (16, "flag")
    assert (values["optim"]["lr"], values["optim"]["warmup_steps"]) == (0.2, 7)
    assert configs.to_dict(configs.from_dict(TrainConfig, values)) == values


@pytest.mark.parametrize("where", ["recipe", "override", "flag"])
def test_a_command_that_torchrun_restarts_finds_its_run_wherever_its_output_is_named(trained, tmp_path, where):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"output = {json.dumps(str(trained))}\n" if where == "recipe" else "", encoding="utf-8")
    output = {"recipe": (), "override": (f"output={trained}",), "flag": ("--output", trained)}[where]
    given = ("train", recipe, *output, "optim.lr=0.25", "--print-config")
    restarted = run(*given, variables={"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_RUN_ID": "a"})
    for done in (restarted, run(*given, "--resume")):
        assert done.returncode == 0, done.stderr
        values = json.loads(done.stdout)
        assert (values["streams"], values["optim"]["lr"], values["output"]) == (16, 0.25, str(trained))
