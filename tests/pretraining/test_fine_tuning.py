"""`elmo train --init-from`: a run that starts from another model, its softmax kept, replaced or extended by word."""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command import printed, run, run_program
from fine_tuning import leave_out_known, packaged, with_fine_tuned, written
from places import DATA
from refusals import refusal
from small_corpus import write_corpus
from small_run import LEARNS, TINY, last_checkpoint, losses, model_bytes

from elmo import formats
from elmo.formats import Model, allennlp, native
from elmo.model.bilm import BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.pretraining.initial import begin_from, growth_obstacle, origin_of
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.text.characters import encode_words
from elmo.text.vocabulary import SPECIAL, Vocabulary

OTHER_TEXT = "the quince and the elm\nan old quince grows\n" * 60
RUN = tuple(setting for setting in TINY if not setting.startswith("model."))
SHORT = (*RUN, "max_words=400", "min_count=1", "loop.log_steps=1", "loop.checkpoint_steps=5")


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A trained model, and other text beside it."""
    folder = tmp_path_factory.mktemp("base")
    train = write_corpus(folder / "train.txt", 60, seed=1)
    printed("train", *TINY, "max_words=200", "--train", train, "--output", folder / "run")
    (folder / "other.txt").write_text(OTHER_TEXT, encoding="utf-8")
    return folder


def fine_tuned(base: Path, output: Path, *arguments: object) -> Path:
    printed("train", *SHORT, "--train", base / "other.txt", "--init-from", base / "run", "--output", output, *arguments)
    return output


def test_a_model_that_began_with_the_default_has_its_name():
    found = formats.describe("default")
    assert origin_of(found, "default", "keep", ["a.txt"], "", found.config)["model"] == formats.DEFAULT_MODEL


def test_unchanged_weights_are_those_of_the_model(base, tmp_path):
    """A learning rate of 0 shows what the run began with."""
    output = fine_tuned(base, tmp_path / "run", "optim.lr=0.0", "optim.weight_decay=0.0")
    before, after = formats.load(base / "run"), formats.load(output)
    assert after.config == before.config
    assert after.text == before.text
    assert after.vocabulary == before.vocabulary
    for part in ("weights", "lm_head"):
        for name, weight in getattr(before, part).items():
            torch.testing.assert_close(getattr(after, part)[name], weight, msg=f"{part} {name}")
    read = before.card["words_read"]
    assert after.card["init_from"] == {"model": "run", "vocab": "keep", "words_read": read, "continues": False}
    assert after.card["words_read"] == 400


def test_a_run_has_the_licence_of_the_model_that_it_began_from(base, tmp_path):
    first = tmp_path / "first"
    native.save(replace(formats.load(base / "run"), card={"license": "CC-BY-SA-3.0"}), first)
    printed("train", *SHORT, "--init-from", first, "--train", base / "other.txt", "--output", tmp_path / "run")
    assert formats.load(tmp_path / "run").card["license"] == "CC-BY-SA-3.0"
    assert "license" not in formats.load(fine_tuned(base, tmp_path / "other")).card  # its model has none


def test_words_of_a_run_that_goes_on_with_the_same_text_add_up(base, tmp_path):
    """Also when it is resumed, and the model that it began from has gone."""
    first, output = tmp_path / "first", tmp_path / "run"
    shutil.copytree(base / "run", first)
    begin = ("--init-from", first, "--train", base / "train.txt", "--output", output)
    printed("train", *SHORT, *begin)
    shutil.rmtree(first)
    printed("train", "--resume", "--output", output, "max_words=600")
    card = formats.load(output).card
    assert card["init_from"]["continues"] is True
    assert card["words_read"] == card["init_from"]["words_read"] + 600


def test_a_model_that_has_changed_since_the_run_began_is_named(base, tmp_path):
    """The run was killed before its first checkpoint, so it begins from the model once more."""
    first, output = tmp_path / "first", tmp_path / "run"
    shutil.copytree(base / "run" / "model", first)
    begin = ("--init-from", first, "--train", base / "other.txt", "--output", output)
    printed("train", *SHORT, *begin)
    for name in ("checkpoints", "model"):
        shutil.rmtree(output / name)
    model = formats.load(base / "run")
    lstm = replace(model.config.lstm, n_layers=1)
    weights = {name: weight for name, weight in model.weights.items() if not name.startswith("layers.1.")}
    native.save(replace(model, config=replace(model.config, lstm=lstm), weights=weights), first, overwrite=True)
    refusal(run("train", "--resume", "--output", output), first, "n_layers")


def test_another_text_of_the_same_name_is_not_gone_on_with(base, tmp_path):
    """Nor is it when the model in between had read another one."""
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(base / "other.txt", mine / "train.txt")  # as `corpus/*.txt` and `mine/*.txt` are named alike
    begun = base / "run"
    for name in ("tuned", "again"):
        output = tmp_path / name
        printed("train", *SHORT, "--train", mine / "train.txt", "--init-from", begun, "--output", output)
        card = formats.load(output).card
        assert card["init_from"]["continues"] is False
        assert card["words_read"] == 400
        begun = output


@pytest.mark.parametrize("choice", ["replace", "extend"])
def test_rows_of_the_softmax_go_with_their_words(base, tmp_path, choice):
    output = fine_tuned(base, tmp_path / "run", "--vocab", choice, "optim.lr=0.0", "optim.weight_decay=0.0")
    before, after = formats.load(base / "run"), formats.load(output)
    assert before.vocabulary
    assert after.vocabulary
    counted = {*SPECIAL, *OTHER_TEXT.split()}
    if choice == "replace":
        assert set(after.vocabulary.words) == counted
    else:
        assert after.vocabulary.words[: len(before.vocabulary)] == before.vocabulary.words
        assert set(after.vocabulary.words) == counted | set(before.vocabulary.words)
        assert len(set(after.vocabulary.words)) == len(after.vocabulary)
    assert "quince" not in before.vocabulary
    for word in after.vocabulary.words:
        for part in ("weight", "bias"):
            rows = [model.lm_head[part][model.vocabulary.id(word)] for model in (before, after)]
            assert torch.equal(*rows) == (word in before.vocabulary), word


def test_fine_tuning_learns_the_new_text(base, tmp_path):
    found = losses(fine_tuned(base, tmp_path / "run", "--vocab", "extend", *LEARNS))
    assert sum(found[-10:]) < 0.7 * sum(found[:10])


def test_fine_tuning_resumes_exactly(base, tmp_path):
    """The second half needs neither the model that the run began from nor its flags."""
    whole = fine_tuned(base, tmp_path / "whole", "--vocab", "extend", "optim.decay=0.0")
    source = tmp_path / "model"
    native.save(formats.load(base / "run"), source)
    half = tmp_path / "half"
    arguments = ("--vocab", "extend", "optim.decay=0.0", "max_words=200", "--init-from", source)
    fine_tuned(base, half, *arguments)
    (source / native.WEIGHTS).unlink()
    printed("train", "--resume", "--output", half, "max_words=400")
    assert model_bytes(half) == model_bytes(whole)
    assert last_checkpoint(half) == last_checkpoint(whole)
    assert losses(half) == losses(whole)


def test_resumed_fine_tuning_keeps_its_settings(base, tmp_path):
    output = fine_tuned(base, tmp_path / "run")
    for change, message in (
        (("--vocab", "extend"), "init_vocab was 'keep', now it is 'extend'"),
        (("--init-from", "default"), f"init_from was '{base / 'run'}', now it is 'default'"),
        (("model.lstm.dim=9",), "model was"),
    ):
        refusal(run("train", "--resume", "--output", output, *change), message)


def test_fine_tuning_takes_the_settings_of_the_model(base):
    done = run("train", "--train", "a.txt", "--output", "b", "--init-from", base / "run", "--print-config")
    values = json.loads(done.stdout)
    assert values["model"]["lstm"]["dim"] == 8
    assert values["text"]["tokens"] == "whitespace"
    assert values["init_vocab"] == "keep"


def test_model_without_a_softmax_can_be_given_one(base, tmp_path):
    """The published HDF5 files have none."""
    model = formats.load(base / "run")
    allennlp.save(model, tmp_path / "published")
    given = ("--init-from", tmp_path / "published", "--pretokenized", "optim.lr=0.0", "optim.weight_decay=0.0")
    output = fine_tuned(base, tmp_path / "run", "--vocab", "replace", *given)
    after = formats.load(output)
    assert all(torch.equal(after.weights[name], weight) for name, weight in model.weights.items())
    assert "quince" in after.vocabulary.words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model.lstm.dim=7",), "its model has {'lstm': {'dim': 8}}, but model is set to {'lstm': {'dim': 7}}"),
        (("model.lstm.dim=9", "model.lstm.projection_dim=8"), "the number of character filters, leaves no room for"),
        (("model.lstm.n_layers=3",), "only model.lstm.dim and model.lstm.projection_dim may be larger"),
        (("vocab=words.txt",), "vocab is 'words.txt', but init_vocab is keep"),
        (("--init-from", "no/such/model"), "no/such/model: no such file or folder"),
        (("--init-from", "PUBLISHED"), "has no softmax to keep; give the new text's words one: --vocab replace"),
        (("--init-from", "PUBLISHED", "--vocab", "extend"), "has no softmax to extend"),
        (("--init-from", DATA / "many_langs" / "both", "--vocab", "replace"), "pretraining reads characters"),
        (
            ("--init-from", DATA / "tensorflow" / "words"),
            "words reads words; pretraining reads characters: name another model as --init-from",
        ),
    ],
)
def test_run_that_cannot_begin_from_a_model_is_refused_before_it_writes(base, tmp_path, arguments, message):
    if "PUBLISHED" in arguments:
        allennlp.save(formats.load(base / "run"), tmp_path / "published")
    arguments = [tmp_path / "published" if argument == "PUBLISHED" else argument for argument in arguments]
    first = ("train", *SHORT, "--train", base / "other.txt", "--init-from", base / "run")
    refusal(run(*first, "--output", tmp_path / "run", *arguments), message)
    assert not (tmp_path / "run").exists()


def test_text_without_a_word_that_comes_again_has_no_vocabulary_to_replace_with(base, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("every word here is another one\n", encoding="utf-8")
    output = tmp_path / "run"
    given = ("--train", text, "--init-from", base / "run", "--vocab", "replace", "--output", output)
    refusal(run("train", *RUN, *given), "2 times")
    assert not output.exists() or not list(output.iterdir())


def test_choice_of_a_vocabulary_needs_a_model(base, tmp_path):
    done = run("train", *TINY, "--train", base / "other.txt", "--output", tmp_path / "run", "--vocab", "replace")
    refusal(done, "--init-from MODEL")


def test_tensorflow_checkpoint_is_trained_on_and_keeps_its_softmax(base, tmp_path):
    """From the files of the original program to a model of this one."""
    source = DATA / "tensorflow" / "characters"
    given = ("--init-from", source, "--pretokenized", "optim.lr=0.0", "optim.weight_decay=0.0")
    after = formats.load(fine_tuned(base, tmp_path / "run", *given))
    before = formats.load(source)
    assert after.vocabulary == before.vocabulary
    assert all(torch.equal(after.lm_head[name], weight) for name, weight in before.lm_head.items())


# The functions


OLD = Vocabulary((*SPECIAL, "oak", "elm"))
NEW = Vocabulary((*SPECIAL, "elm", "ash", "oak"))


def layers_of(model: LanguageModel) -> torch.Tensor:
    """Both directions' layers of five words, read from the zero state: layers x 2 x words x 1 x P."""
    ids = torch.from_numpy(encode_words(["elm", "oak", "ash", "elms", "."])).long()
    words = model.bilm.encode_words(ids)[:, None]
    return torch.stack(model.bilm.read(torch.stack([words, words]), model.bilm.initial_state(1))[0])


@pytest.mark.parametrize(
    ("was", "cells", "size"),
    [(6, 9, 6), (6, 24, 6), (6, 8, 7), (6, 20, 16), (9, 12, 9), (9, 8, 14)],  # 9 filters: no projection of tokens
)
def test_grown_model_computes_what_it_was_grown_from(was, cells, size):
    config = BiLMConfig(LstmConfig(8, was, 2, 0.5, 0.5), CharCnnConfig(filters=((1, 4), (2, 5)), n_highway=1))
    old = LanguageModel(config, len(OLD), ObjectiveConfig())
    for layer in old.bilm.layers:
        layer.bias.data.normal_()
    wide = replace(config, lstm=replace(config.lstm, dim=cells, projection_dim=size))
    assert not growth_obstacle(config, wide)
    new = LanguageModel(wide, len(NEW), ObjectiveConfig())
    begin_from(new, NEW, Model(config, old.bilm.state_dict(), old.lm_head.state_dict(), OLD))
    seen, expected = (layers_of(model) for model in (new, old))
    torch.testing.assert_close(seen[..., :was], expected)
    assert (seen[..., was:] != 0).all()
    torch.testing.assert_close(seen[-1] @ new.lm_head.weight[:4].T, expected[-1] @ old.lm_head.weight[[0, 1, 2, 4]].T)


def test_grown_model_learns_with_all_that_is_new():
    """No weight of a new cell or dimension is without a gradient for good: after a step every one has one."""
    config = BiLMConfig(LstmConfig(8, 6, 2), CharCnnConfig(filters=((1, 4), (2, 5)), n_highway=1))
    old = LanguageModel(config, len(OLD), ObjectiveConfig())
    new = LanguageModel(replace(config, lstm=LstmConfig(11, 9, 2)), len(OLD), ObjectiveConfig())
    begin_from(new, OLD, Model(config, old.bilm.state_dict(), old.lm_head.state_dict(), OLD))
    optimizer = torch.optim.Adam(new.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        top = layers_of(new)[-1].flatten(0, -2)
        new.lm_head.loss(top, torch.arange(len(top)) % len(OLD)).backward()
        optimizer.step()
    for layer in new.bilm.layers:
        for weight in (layer.weight_input, layer.weight_state, layer.weight_projection):
            assert (weight.grad != 0).float().mean() > 0.99
    assert (new.lm_head.weight.grad != 0).all()


@pytest.mark.parametrize(
    ("was", "lstm", "problem"),
    [
        ((8, 6), {"dim": 7}, ""),
        ((8, 6), {"projection_dim": 5}, ""),
        ((8, 6), {"n_layers": 3}, ""),
        ((8, 6), {"cell_clip": 2.0}, ""),
        ((8, 6), {"dim": 16, "projection_dim": 16}, ""),
        ((8, 6), {"projection_dim": 9}, "a projection_dim of 9, the number of character filters"),
        ((8, 6), {"projection_dim": 8}, "give another dim"),
        ((6, 6), {"dim": 8}, "does not grow: omit both"),
    ],
)
def test_other_differences_than_wider_ones_do_not_grow(was, lstm, problem):
    """Nor does a model into or from one without the projections that it needs."""
    config = BiLMConfig(LstmConfig(*was, 2), CharCnnConfig(filters=((1, 4), (2, 5)), n_highway=1))
    found = growth_obstacle(config, replace(config, lstm=replace(config.lstm, **lstm)))
    assert found
    assert problem in found


def test_wider_run_begins_with_what_its_model_has_and_says_so(base, tmp_path):
    wider = ("model.lstm.dim=12", "model.lstm.projection_dim=9", "optim.lr=0.0", "optim.weight_decay=0.0")
    after = formats.load(fine_tuned(base, tmp_path / "run", *wider))
    before = formats.load(base / "run")
    assert (after.config.lstm.dim, after.config.lstm.projection_dim) == (12, 9)
    old = before.config.lstm
    assert after.card["init_from"]["grown_from"] == {"dim": old.dim, "projection_dim": old.projection_dim}
    weight = after.lm_head["weight"]
    assert torch.equal(weight[:, : old.projection_dim], before.lm_head["weight"])
    assert not weight[:, old.projection_dim :].any()


def test_lines_of_training_are_not_held_out(tmp_path):
    (tmp_path / "train.txt").write_text("an elm grows\nan oak grows\n", encoding="utf-8")
    (tmp_path / "dev.txt").write_text("an ash grows\nan oak grows\n", encoding="utf-8")
    leave_out_known(tmp_path)
    assert (tmp_path / "heldout.txt").read_text(encoding="utf-8") == "an ash grows\n"


@pytest.mark.parametrize(
    ("on_dev", "better"), [((70.0, 71.0), "both"), ((71.0, 70.0), "input"), ((70.0, 70.0), "input")]
)
def test_the_fine_tuned_arm_is_at_the_better_place_on_development_data(tmp_path, on_dev, better):
    """By the mean over the seeds; whatever the scores on test data."""
    row = packaged("queue")["rows"][0]
    for place, score in zip(("input", "both"), on_dev, strict=True):
        for seed, off in zip(row["seeds"], (-2.0, 0.0, 2.0), strict=True):
            folder = tmp_path / row["name"] / place / f"seed-{seed}"
            folder.mkdir(parents=True)
            scores = {"dev": {"f1": score + off}, "test": {"f1": 100 - score}}
            (folder / "result.json").write_text(json.dumps(scores), encoding="utf-8")
        (folder.parent / "config.json").write_text('{"task": "ner"}', encoding="utf-8")
    made = with_fine_tuned(row, Path("run"), tmp_path)
    assert made["arms"] == row["arms"] | {"fine-tuned": [*row["arms"][better], "inputs.model=run"]}
    assert tomllib.loads(written(made))["rows"] == [{"tuning": [[]]} | made]


def test_every_row_of_the_queue_has_both_places():
    for row in packaged("queue")["rows"]:
        assert list(row["arms"]) == ["none", "input", "both"]


OPENED = """
import collections, os, sys
from pathlib import Path
os.chdir(place)
opened = collections.Counter()
def count(event, arguments):
    if event == "open" and str(arguments[0]).startswith(folder):
        opened[Path(str(arguments[0])).name] += 1
sys.addaudithook(count)
from elmo.cli import main
for command in commands:
    opened.clear()
    try:
        main(command.split())
    except SystemExit as end:
        assert not end.code
    print("opened", opened["vocab.txt"], opened["model.safetensors"], opened["config.json"])
"""


def test_a_command_opens_a_model_once(base, tmp_path):
    """The headers once and the weights once; before, the configuration is read to recognize the format."""
    train = f"train --train {base / 'other.txt'} --init-from {base / 'run'} --output run {' '.join(SHORT)} --quiet"
    commands = f"{train};embed {base / 'other.txt'} vectors --engine local --model {base / 'run'} --lines --quiet"
    values = {"place": str(tmp_path), "folder": str(base / "run" / "model"), "commands": commands.split(";")}
    done = run_program(f"globals().update({values!r}){OPENED}")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("opened")] == ["opened 2 2 6", "opened 1 1 3"]
