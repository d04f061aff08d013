"""Runs of a task: exact resume, several seeds, early stopping, what goes where."""

import dataclasses
import itertools
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from safetensors.torch import load_file
from small_run import metrics as scores
from small_tasks import killed_after, run_config
from small_tasks import weights_of as weights
from tiny import write_tiny

from elmo import config as configs
from elmo.disk.lock import LOCK, locked
from elmo.errors import InputError, IrregularInput
from elmo.training import epochs
from elmo.training.epochs import EpochConfig, EpochState, next_epoch
from elmo.training.stopping import RunStopped
from elmo_lab import record
from elmo_lab.tasks import batches, files, ner, train
from elmo_lab.tasks.batches import BatchConfig
from elmo_lab.tasks.trained import TrainedTask


class Killed(Exception):
    pass


@pytest.mark.parametrize(("step", "schedule"), [(1, "plateau"), (3, "linear"), (7, "plateau")])
def test_a_run_that_was_cut_gives_the_same_weights(tmp_path: Path, step: int, schedule: str) -> None:
    """After any step, and with a checkpoint of any age: in an epoch and between two."""
    whole, cut = (
        run_config(tmp_path, name, training={"schedule": schedule, "weight_decay": 0.01}) for name in ("run", "cut")
    )
    train.train_task(whole, quiet=True)

    with killed_after(step):
        train.train_task(cut, quiet=True)
    with pytest.raises(InputError, match="--resume"):
        train.train_task(cut, quiet=True)
    train.train_task(cut, resume=True, quiet=True)
    assert weights(tmp_path / "cut" / "seed-1") == weights(tmp_path / "run" / "seed-1")
    assert scores(tmp_path / "cut" / "seed-1") == scores(tmp_path / "run" / "seed-1")
    assert not (tmp_path / "cut" / "seed-1" / "checkpoints").exists()


def test_an_epoch_that_was_cut_after_its_scores_has_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint is of the epoch's last step: its scores are computed and written again."""

    def dying(*arguments: object) -> EpochState:
        raise Killed

    config = run_config(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(epochs, "next_epoch", dying)
        with pytest.raises(Killed):
            train.train_task(config, quiet=True)
    folder = tmp_path / "run" / "seed-1"
    assert [line["epoch"] for line in scores(folder)] == [1]
    train.train_task(config, resume=True, quiet=True)
    assert [line["epoch"] for line in scores(folder)] == [1, 2, 3, 4]


@pytest.mark.parametrize(("at", "call"), [("seed_step", 2), ("next_epoch", 1), ("next_epoch", 4)])
def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_first(
    tmp_path: Path, at: str, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an epoch, between two, and after the last one, when there is no result yet."""
    training = {"checkpoint_minutes": 60}
    whole, cut = (run_config(tmp_path, name, training=training) for name in ("run", "cut"))
    train.train_task(whole, quiet=True)
    real, calls = getattr(epochs, at), itertools.count(1)

    def interrupted(*arguments: object) -> EpochState | None:
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(epochs, at, interrupted)
        with refused("seed-1", "checkpoint", error=RunStopped):
            train.train_task(cut, quiet=True)
    assert not (tmp_path / "cut" / "seed-1" / "result.json").exists()
    train.train_task(cut, resume=True, quiet=True)
    assert weights(tmp_path / "cut" / "seed-1") == weights(tmp_path / "run" / "seed-1")
    assert scores(tmp_path / "cut" / "seed-1") == scores(tmp_path / "run" / "seed-1")


def test_a_run_that_another_process_is_at_is_left_alone(tmp_path: Path) -> None:
    train.train_task(run_config(tmp_path), quiet=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    run = Path(run_config(tmp_path).output)
    with locked(run / LOCK), refused("another process"):
        train.train_task(run_config(tmp_path, seeds=[1, 2]), resume=True, quiet=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    train.train_task(run_config(tmp_path, seeds=[1, 2]), resume=True, quiet=True)


def test_seeds_differ_and_are_summed_up(tmp_path: Path) -> None:
    report = train.train_task(run_config(tmp_path, seeds=[1, 2]), quiet=True)
    summary = train.summarize(report.rows)
    assert weights(tmp_path / "run" / "seed-1") != weights(tmp_path / "run" / "seed-2")
    ours = [seed["test"]["f1"] for seed in report.rows]
    assert summary["test"]["f1"]["mean"] == pytest.approx(sum(ours) / 2)
    assert summary["test"]["f1"]["std"] == pytest.approx(abs(ours[0] - ours[1]) / 2**0.5)
    again = train.train_task(run_config(tmp_path, seeds=[1, 2]), resume=True, quiet=True)
    assert again == report == record.read(tmp_path / "run")
    with refused("inputs", "'input'", "'none'"):
        train.train_task(run_config(tmp_path, seeds=[1, 2], inputs={"elmo": "none"}), resume=True, quiet=True)


def test_seeds_that_are_added_are_summed_up_with_those_that_are_done(tmp_path: Path) -> None:
    alone = train.train_task(run_config(tmp_path, seeds=[2, 1]), quiet=True)
    shutil.rmtree(tmp_path / "run" / "seed-1")  # as if it had not been reached
    more = train.train_task(run_config(tmp_path, seeds=[3]), resume=True, quiet=True)
    assert [seed["seed"] for seed in more.rows] == [2, 3]
    assert more.rows[0] == alone.rows[0]
    assert train.read_config(tmp_path / "run" / "config.json").seeds == (2, 3)


def split_config(folder: Path, **values: Any) -> train.TaskConfig:
    """A run whose dev and test data are others than those that it learns from."""
    config = run_config(folder, **values)
    lines = Path(config.train).read_text(encoding="utf-8").split("\n\n")
    (folder / "dev.conll").write_text("\n\n".join(lines[:5]) + "\n", encoding="utf-8")
    test = "\n\n".join(lines[5:]).replace("B-person", "B-place")
    (folder / "test.conll").write_text(test, encoding="utf-8")
    return dataclasses.replace(config, dev=str(folder / "dev.conll"), test=str(folder / "test.conll"))


def test_dev_chooses_the_epoch_whose_weights_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On dev the second epoch is the best, on test the third would be."""
    config = split_config(tmp_path, training={"epochs": 3, "patience": 0})
    sizes = {5: "dev", 3: "test"}
    script = {"dev": iter([10.0, 30.0, 20.0, 30.0]), "test": iter([77.0])}
    seen: list[tuple[str, bytes]] = []
    real = train.predict

    def watching(task: Any, model: Any, collate: Any, examples: Any, *rest: Any) -> list[Any]:
        weights = b"".join(each.numpy().tobytes() for each in model.state_dict().values())
        seen.append((sizes[len(examples)], weights))
        return real(task, model, collate, examples, *rest)

    monkeypatch.setattr(train, "predict", watching)
    scripted = dataclasses.replace(ner.TASK, score=lambda examples, found: {"f1": next(script[sizes[len(examples)]])})
    monkeypatch.setattr(ner, "TASK", scripted)
    (result,) = train.train_task(config, quiet=True).rows
    assert (result["best_epoch"], result["dev"]["f1"], result["test"]["f1"]) == (2, 30.0, 77.0)
    assert [part for part, _ in seen] == ["dev", "dev", "dev", "dev", "test"]
    assert seen[3][1] == seen[4][1] == seen[1][1] != seen[2][1]


def test_seeds_have_other_networks_orders_and_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[bytes, Any, Any, int]] = []

    def begin(fabric: Any, model: Any, batches_of: Any, *rest: Any) -> EpochState:
        weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
        begun.append((weights, batches_of(0), batches_of(1), rest[5]))
        raise Killed

    monkeypatch.setattr(train, "fit_epochs", begin)
    for seed in (1, 2):
        with pytest.raises(Killed):
            train.train_task(run_config(tmp_path, f"run-{seed}", seeds=[seed]), quiet=True)
    (weights, first, second, seed), (other_weights, other_first, _, other_seed) = begun
    assert weights != other_weights
    assert first != second
    assert first != other_first
    assert (seed, other_seed) == (1, 2)


def test_early_stopping_and_decay() -> None:
    config = EpochConfig(epochs=10, patience=3, decay=0.5, decay_patience=2, lr=1.0)
    state, rates = EpochState(1.0), []
    for score in (10.0, 30.0, 20.0, 30.0, 5.0, 50.0):
        state = next_epoch(state, score, config)
        rates.append(state.rate)
        if state.stopped:
            break
    assert (state.stopped, state.epoch, state.best_epoch, state.best) == ("patience", 5, 2, 30.0)
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5]


def test_batches_hold_every_example_once() -> None:
    sizes = [3, 50, 7, 7, 1, 9, 30, 2, 0, 12] * 9
    config = BatchConfig(examples=4, tokens=40)
    for found in (batches.shuffled_batches(sizes, config, 1, 0), batches.by_length(sizes, config)):
        assert sorted(number for batch in found for number in batch) == list(range(len(sizes)))
        for batch in found:
            assert len(batch) <= 4
            assert len(batch) == 1 or len(batch) * max(sizes[number] for number in batch) <= 40
    assert batches.shuffled_batches(sizes, config, 1, 0) == batches.shuffled_batches(sizes, config, 1, 0)
    assert batches.shuffled_batches(sizes, config, 1, 0) != batches.shuffled_batches(sizes, config, 1, 1)
    assert batches.shuffled_batches(sizes, config, 1, 0) != batches.shuffled_batches(sizes, config, 2, 0)


def test_a_tag_that_training_never_had(tmp_path: Path) -> None:
    """It is counted and named, and scored as wrong."""
    other = tmp_path / "dev.conll"
    other.write_text("Mia\tB-person\n\nRun\tO\nfar\tB-sport\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"dev\.conll.*sport.*line 4"):
        train.train_task(run_config(tmp_path, dev=str(other)), quiet=True)


def test_parts_of_the_data_are_in_one_another_and_all_labels_are_known(tmp_path: Path) -> None:
    """Also one example of the eight, which has no entity or one, is learned from and scored."""
    examples = list(range(1000))
    parts = {
        f: train.training_subset(examples, run_config(tmp_path, train_fraction=f)) for f in (0.001, 0.01, 0.1, 0.5, 1.0)
    }
    assert [len(part) for part in parts.values()] == [1, 10, 100, 500, 1000]
    kept = list(parts.values())
    assert all(set(less) < set(more) and more == sorted(more) for less, more in itertools.pairwise(kept))
    assert train.training_subset(examples, run_config(tmp_path, max_train=10)) == parts[0.01]
    assert len(train.training_subset(examples, run_config(tmp_path, max_train=700, train_fraction=0.5))) == 500
    uneven = run_config(tmp_path, train_fraction=0.29)  # 100 * 0.29 is 28.999999999999996
    assert len(train.training_subset(examples[:100], uneven)) == 29
    report = train.train_task(run_config(tmp_path, train_fraction=0.125), quiet=True)
    assert report.rows[0]["examples"] == {"train": 1, "dev": 8, "test": 8}
    with pytest.raises(InputError, match="train_fraction is 0"):
        run_config(tmp_path, train_fraction=0.0)


def test_settings_that_are_younger_than_a_run_had_their_defaults(tmp_path: Path) -> None:
    train.train_task(run_config(tmp_path), quiet=True)
    file = tmp_path / "run" / "config.json"
    old = json.loads(file.read_text(encoding="utf-8"))
    del old["train_fraction"], old["inputs"]["static"]
    file.write_text(json.dumps(old), encoding="utf-8")
    train.train_task(run_config(tmp_path, seeds=[1, 2]), resume=True, quiet=True)
    file.write_text(json.dumps(old | {"depth": 3}), encoding="utf-8")
    with refused("config.json", "'depth'"):
        train.train_task(run_config(tmp_path), resume=True, quiet=True)


def test_a_run_that_goes_on_with_something_else_of_the_same_name_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Or seeds of different models, data or scorers would be averaged."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("nora 0.1 0.2\n", encoding="utf-8")
    given = {"inputs": {"vectors": str(vectors)}, "training": {"epochs": 1}}
    train.train_task(run_config(tmp_path, **given), quiet=True)
    more = run_config(tmp_path, seeds=[1, 2], **given)

    def cannot_go_on(said: str) -> None:
        with refused(said, "now it is", "--output"):
            train.train_task(more, resume=True, quiet=True)
        assert not (tmp_path / "run" / "seed-2").exists()

    for file, said in ((vectors, "vectors"), (Path(more.train), "train")):
        text = file.read_text(encoding="utf-8")
        file.write_text(text + text.replace("nora", "tom"), encoding="utf-8")
        cannot_go_on(f"sha256 of the file of {said}")
        file.write_text(text, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(ner, "TASK", dataclasses.replace(ner.TASK, version="99"))
        cannot_go_on("version of the task")
    (tmp_path / "bilm").rename(tmp_path / "first")
    write_tiny(tmp_path / "bilm", seed=5)
    cannot_go_on("sha256 of the biLM")
    (tmp_path / "bilm").rename(tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "bilm")
    assert len(train.train_task(more, resume=True, quiet=True).rows) == 2


def test_of_the_cache_its_precision_is_kept(tmp_path: Path) -> None:
    train.train_task(run_config(tmp_path, training={"epochs": 1}), quiet=True)
    elsewhere = {"folder": str(tmp_path / "elsewhere"), "dtype": "float32"}
    with refused("cache", "'float16'", "'float32'"):
        train.train_task(run_config(tmp_path, training={"epochs": 1}, cache=elsewhere), resume=True, quiet=True)
    del elsewhere["dtype"]
    train.train_task(
        run_config(tmp_path, training={"epochs": 1}, cache=elsewhere, seeds=[1, 2]), resume=True, quiet=True
    )


@pytest.mark.parametrize(
    ("task", "changed", "said"),
    [
        ("ner", {"hidden_dims": [6, 0]}, "model.hidden_dims is [6, 0]; at least 1 is"),
        ("ner", {"hidden_dims": []}, "model.hidden_dims is empty"),
        ("ner", {"dropout": 1.5}, "model.dropout is 1.5; from 0 to less than 1 is"),
        ("ner", {"dropout": float("nan")}, "model.dropout is nan"),
        ("snli", {"attention_dropout": 1.0}, "model.attention_dropout is 1.0"),
        ("sst5", {"phrase_tokens": -1}, "model.phrase_tokens is -1"),
        ("sst5", {"head_dropout": [0.2, 1.0]}, "model.head_dropout is [0.2, 1.0]"),
        ("snli", {"hidden_dim": 0}, "model.hidden_dim is 0"),
        ("srl", {"n_layers": 0}, "model.n_layers is 0"),
        ("squad", {"dropout": -0.1}, "model.dropout is -0.1"),
        ("coref", {"feed_forward": [0]}, "model.feed_forward is [0]"),
        ("coref", {"spans_per_token": -1.0}, "model.spans_per_token is -1.0"),
    ],
)
def test_networks_that_cannot_be(task: str, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(configs.ConfigError) as raised:
        configs.from_dict(train.tasks.find(task).config, changed, "model.")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("betas", [1.0, 2.0]), ("rho", 1.0), ("weight_decay", -1), ("clip_value", -1), ("epochs", 0), ("minutes", -1)],
)
def test_training_that_cannot_be(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(configs.ConfigError, match=f"training.{name} is "):
        run_config(tmp_path, training={name: value})


def test_a_network_that_cannot_be_built_leaves_no_run_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right then can be trained in the same folder."""

    class Failed(Exception):
        pass

    def failing(*_: object, **__: object) -> None:
        raise Failed

    with monkeypatch.context() as patch:
        patch.setattr(train, "build_network", failing)
        with pytest.raises(Failed):
            train.train_task(run_config(tmp_path), quiet=True)
    train.train_task(run_config(tmp_path, training={"epochs": 1}), quiet=True)


def test_examples_that_teach_nothing_are_refused(tmp_path: Path) -> None:
    """Otherwise a network of random weights would be scored."""
    question = {"id": "1", "context": "Mia sat .", "question": "Who ?", "answers": [{"text": "Bo", "answer_start": 0}]}
    file = tmp_path / "train.json"
    file.write_text(json.dumps(question), encoding="utf-8")
    with pytest.warns(IrregularInput), refused("train.json", "1 example", "answers"):
        train.train_task(run_config(tmp_path, task="squad", train=str(file)), quiet=True)
    assert not (tmp_path / "run" / "config.json").exists()


def test_another_bilm_is_refused(tmp_path: Path) -> None:
    train.train_task(run_config(tmp_path, training={"epochs": 1}), quiet=True)
    write_tiny(tmp_path / "other", seed=5)
    with refused("sha256", "biLM"):
        TrainedTask.load(tmp_path / "run", bilm=str(tmp_path / "other"))
    assert TrainedTask.load(tmp_path / "run", bilm=str(tmp_path / "bilm"))


def test_a_damaged_run_is_refused_in_one_line(tmp_path: Path) -> None:
    train.train_task(run_config(tmp_path, training={"epochs": 1}), quiet=True)
    file = tmp_path / "run" / "seed-1" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with refused("model.safetensors", "damaged"):
        TrainedTask.load(tmp_path / "run")
    with refused("trained task"):
        TrainedTask.load(tmp_path)


def test_data_are_found_in_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root" / "ner").mkdir(parents=True)
    here = tmp_path / "root" / "ner" / "x.conll"
    here.touch()
    assert files.resolve_data("ner/x.conll", str(tmp_path / "root")) == here
    monkeypatch.setenv("ELMO_DATA", str(tmp_path / "root"))
    assert files.resolve_data("ner/x.conll", None) == here
    monkeypatch.delenv("ELMO_DATA")
    with pytest.raises(InputError, match="ELMO_DATA"):
        files.find_file("ner/x.conll", None)


def test_the_penalty_of_the_mix_is_part_of_what_training_makes_small(tmp_path: Path) -> None:
    weights = {}
    for penalty in (0.0, 10.0):
        config = run_config(tmp_path, f"run-{penalty:g}", inputs={"penalty": penalty, "elmo": "input"})
        mix = train.train_task(config, quiet=True).rows[0]["mixes"]["input"]["weights"]
        weights[penalty] = max(mix) - min(mix)
    assert 2 * weights[10.0] < weights[0.0]


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_decay_leaves_the_vectors_of_words_that_training_does_not_contain(tmp_path: Path, optimizer: str) -> None:
    (tmp_path / "vectors.txt").write_text("nora 0.1 0.2\nzanzibar 0.3 -0.4\n", encoding="utf-8")
    (tmp_path / "dev.conll").write_text("Zanzibar\tO\n", encoding="utf-8")
    inputs = {"vectors": str(tmp_path / "vectors.txt"), "dropout": 0.0}
    training = {"optimizer": optimizer, "weight_decay": 0.5}
    train.train_task(
        run_config(tmp_path, inputs=inputs, training=training, dev=str(tmp_path / "dev.conll")), quiet=True
    )
    words = json.loads((tmp_path / "run" / "seed-1" / "task.json").read_text(encoding="utf-8"))["words"]
    table = load_file(tmp_path / "run" / "seed-1" / "model.safetensors")["inputs.vectors.weight"]
    found = dict(zip(words, table[2:].tolist(), strict=True))
    assert found["zanzibar"] == pytest.approx([0.3, -0.4])
    assert found["nora"] != pytest.approx([0.1, 0.2]), "it was trained"


def test_seeds_that_no_generator_takes_are_refused(tmp_path: Path) -> None:
    for seed in (-1, 1_700_000_000_000):
        with refused(f"[{seed}]", "4294967296"):
            run_config(tmp_path, seeds=[seed])


def test_vectors_that_are_not_read_need_not_be_there(tmp_path: Path) -> None:
    inputs = {"vectors": "nowhere.txt", "static": False, "elmo": "input"}
    report = train.train_task(run_config(tmp_path, inputs=inputs, seeds=[1]), quiet=True)
    assert len(report.rows) == 1


@pytest.mark.parametrize("name", ["seed-2", "seed-1/checkpoints"])
def test_a_file_in_the_place_of_a_folder_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    config = run_config(tmp_path, seeds=[1, 2])
    folder = Path(config.output)
    (folder / "seed-1").mkdir(parents=True)
    (folder / "config.json").write_text(configs.to_json(config), encoding="utf-8")
    (folder / name).write_text("mine", encoding="utf-8")
    with refused(folder / name, "move"):
        train.check_output(config, resume=True)
    (folder / name).unlink()
    train.check_output(config, resume=True)
