"""The benchmark's yardsticks are right: the plain loop does elmo's work, and what is counted is what there is."""

import importlib
import json
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import pytest
import torch
from command import run
from refusals import refusal

from elmo import cli, ops
from elmo.bench import embedding, job, machine, process
from elmo.embedding.embedder import Embedder
from elmo.formats import Model, native
from elmo.machine import peak_memory
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig

CONFIG = BiLMConfig(
    LstmConfig(dim=24, projection_dim=8), CharCnnConfig(embedding_dim=4, filters=((1, 6), (3, 10)), n_highway=2)
)
SENTENCES = [
    ["The", "harbour", "was", "quiet", "."],
    ["Boats"],
    ["Nobody", "saw", "the", "lights", "go", "out", "along", "the", "quay", "."],
    [],
    ["It", "rained", "."],
]


embed, peers, plain = map(importlib.import_module, ("embed", "peers", "plain"))


@pytest.fixture
def model(tmp_path) -> Path:
    native.save(Model(CONFIG, BiLM(CONFIG).state_dict()), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "lstm", [CONFIG.lstm, LstmConfig(8, 8, n_layers=3, cell_clip=None, use_skip_connections=False)]
)
def test_plain_loop_gives_the_vectors_of_elmo(lstm):
    bilm = BiLM(BiLMConfig(lstm, CONFIG.char_cnn)).requires_grad_(False)
    layers = plain.run(bilm, SENTENCES)
    for row, vectors in enumerate(Embedder(bilm).embed(SENTENCES)):
        theirs = layers[:, row, 1 : len(SENTENCES[row]) + 1]
        torch.testing.assert_close(torch.from_numpy(vectors), theirs, rtol=0, atol=1e-5)


def test_plain_loop_is_measured(model):
    measured = plain.measure(str(model), SENTENCES, 2, rounds=2)
    assert measured.batch == 2
    assert len(measured.rounds) == 2
    assert measured.tokens_per_second == pytest.approx(19 / min(measured.rounds))


def test_flops_and_bytes_of_the_published_size():
    assert embedding.lstm_flops(LstmConfig()) == 150_994_944
    gates, projection = 4 * 4096 * 512, 4096 * 512
    assert embedding.lstm_bytes(LstmConfig(), 20, "float32") == 4 * 4 * (gates + 22 * (gates + projection))
    assert embedding.lstm_bytes(LstmConfig(), 20, "int8") == 4 * (gates + 22 * (gates + projection))


def test_flops_are_those_of_the_weights():
    """Every weight of the LSTMs is used once a token, but for the biases."""
    for lstm in (CONFIG.lstm, LstmConfig(8, 8, n_layers=3)):
        weights = [w for layer in BiLM(BiLMConfig(lstm, CONFIG.char_cnn)).layers for w in layer.parameters()]
        assert embedding.lstm_flops(lstm) == 2 * sum(w.numel() for w in weights if w.dim() == 3)


def test_throughput_is_of_new_words_and_its_parts_fit():
    embedder = Embedder(BiLM(CONFIG))
    measured = embedding.throughput(embedder, SENTENCES, rounds=3)
    assert measured.tokens == 19
    assert measured.tokens_per_second == 19 / sorted(measured.rounds)[1]
    assert 0 < measured.encoder_seconds < measured.seconds, "no word may be remembered from the round before"
    assert 0 < measured.lstm_seconds < measured.seconds - measured.encoder_seconds
    flops = (19 + 2 * len(SENTENCES)) * embedding.lstm_flops(CONFIG.lstm)
    assert measured.lstm_gflops == pytest.approx(1e-9 * flops / measured.lstm_seconds)
    rounds = embedding.throughput(embedder, SENTENCES, rounds=1, seconds=0.2).rounds
    assert sum(rounds[:-1]) < 0.2 <= sum(rounds), "it goes on for the time given, and no longer"


def test_sentences_are_cut_to_length():
    assert embedding.cut_runs(SENTENCES, 4, 2) == [["The", "harbour", "was", "quiet"], [".", "Boats", "Nobody", "saw"]]
    assert [len(sentence) for sentence in embedding.cut_runs(SENTENCES, 20, 3)] == [20, 20, 20]


def test_a_fresh_process_has_memory_of_its_own():
    """Had it that of the process that starts it, no number of this benchmark would mean anything."""
    held = torch.ones(200_000_000)
    assert peak_memory() > 4 * len(held)
    assert process.in_fresh_process(peak_memory) < 4 * len(held)


def test_a_command_is_timed_and_its_memory_known():
    program = "import time; x = bytes(10**8); time.sleep(0.2); print('tokens/s 12')"
    done = peers.run_measured([sys.executable, "-c", program])
    assert 0.2 < done.seconds < 60
    assert done.peak_bytes > 100e6
    assert done.output == "tokens/s 12\n"
    with pytest.raises(subprocess.CalledProcessError):
        peers.run_measured([sys.executable, "-c", "raise SystemExit(3)"])


def test_limits_are_those_of_the_fastest_library():
    peaks = [machine.Peak("float32", "torch", 10.0, (1, 1, 1)), machine.Peak("float32", "onednn", 30.0, (1, 1, 1))]
    limits = machine.Limits("2026-01-01", "a processor", 2, "2.0", "cpu", peaks, 1e9)
    assert limits.peak("float32") == 30.0
    assert limits.peak("int8") == 0.0


def test_peers_are_commands_that_get_the_sentences(tmp_path):
    count = f"{sys.executable} -c 'import sys; print(open(sys.argv[1]).read().split().index(\"rained\"))'"
    peer = peers.run(f"a counter={count}", SENTENCES, tmp_path / "sentences.txt")
    assert peer.name == "a counter"
    assert 0 < peer.tokens_per_second < 19 / 0.001
    assert (tmp_path / "sentences.txt").read_text(encoding="utf-8").splitlines()[1:] == [
        "Boats",
        "Nobody saw the lights go out along the quay .",
        "",
        "It rained .",
    ]
    program = tmp_path / "program.py"
    program.write_text("print('loading')\nprint('tokens/s 12.5')\n", encoding="utf-8")
    assert peers.run(f"teller={sys.executable} {program}", SENTENCES, tmp_path / "s.txt").tokens_per_second == 12.5
    with pytest.raises(SystemExit, match="NAME=COMMAND"):
        peers.run("nameless", SENTENCES, tmp_path / "s.txt")


@pytest.mark.usefixtures("quick")
def test_benchmark_of_embedding_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    """All of it, at a toy's size."""
    monkeypatch.setitem(embed.SIZES, "original", CONFIG)
    arguments = ["--tokens", "40", "--rounds", "1", "--batch", "4", "--peer", "again=echo"]
    monkeypatch.setattr(sys, "argv", ["embed.py", *arguments, "--output", str(tmp_path / "out.json")])
    monkeypatch.delenv("ELMO_SHARED", raising=False)
    embed.main()
    page = capsys.readouterr().out
    for start in (
        "**elmo, float32**",
        "**elmo, int8**",
        "plain loop | 4",
        "again |",
        "float32, times the fastest peer",
        "float32, LSTMs, of the fastest product",
    ):
        assert f"\n| {start}" in page
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert result["plain"][0]["tokens_per_second"] > 0
    assert result["tokens"] >= 40
    assert embed.file_name(result["limits"], "small").startswith(result["limits"]["date"])


@pytest.fixture
def quick(monkeypatch) -> None:
    """All in this process, at a size that takes no time."""
    monkeypatch.setattr(process, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(process, "import_seconds", lambda: 0.5)
    monkeypatch.setattr(process, "first_vector_seconds", lambda *_: 1.5)
    monkeypatch.setattr(job, "measure_model", partial(job.measure_model, seconds=0.05))
    monkeypatch.setattr(machine, "measure_limits", partial(machine.measure_limits, seconds=0.002))
    monkeypatch.setattr(machine, "STREAM_BYTES", 100_000)
    monkeypatch.setattr(machine, "ROWS", (8, 32))


def test_measuring_happens_in_a_process_of_its_own(model):
    limits = machine.Limits("2026-01-01", "a processor", 2, "2.0", "cpu", [], 1e9)
    measured = process.in_fresh_process(embedding.measure, str(model), "int8", SENTENCES, "cpu", limits, 1, 0.0, 2)
    assert measured.tokens_per_second > 0
    assert measured.lstm_of_peak == 0.0  # it is unknown
    assert measured.sentence_of_bandwidth == measured.sentence_bandwidth / 1e9
    assert measured.peak_bytes > 50_000_000
    assert 0.99 < (measured.smallest_cosine or 0) <= (measured.mean_cosine or 0) <= 1.0 + 1e-6


def test_importing_elmo_is_a_part_of_the_time_to_the_first_vector(model):
    assert 0 < process.import_seconds(1) < process.first_vector_seconds(model, "cpu", 1)


@pytest.mark.usefixtures("quick")
def test_bench_command_measures_all(model, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["bench", str(model), "--json", "--max-words", "60"])
    printed = capsys.readouterr()
    measured = json.loads(printed.out)
    assert measured["tokens"] >= 60
    here = [precision for precision in job.PRECISIONS if not ops.find_support(precision).problem]
    assert [row["precision"] for row in measured["rows"]] == here
    assert list(measured["not_measured"]) == [precision for precision in job.PRECISIONS if precision not in here]
    for row in measured["rows"]:
        assert row["tokens_per_second"] > 0
        assert 0 < row["lstm_of_peak"] < 1
        assert row["lstm_share"] + row["encoder_share"] < 1
        assert 0.99 < (row["smallest_cosine"] or 1.0) <= 1.0 + 1e-6
    assert {peak["precision"] for peak in measured["limits"]["peaks"]} == set(job.PRECISIONS)
    assert measured["limits"]["bandwidth"] > 0
    assert measured["import_seconds"] == 0.5
    assert measured["first_vector_seconds"] == 1.5
    assert "measuring int8" in printed.err


@pytest.mark.usefixtures("quick")
def test_bench_command_prints_a_table(model, capsys, monkeypatch):
    true = ops.find_support
    slow = ops.Support(("torch",), "float32 is faster")
    monkeypatch.setattr(ops, "find_support", lambda precision: slow if precision == "bfloat16" else true(precision))
    with pytest.raises(SystemExit, match="0"):
        cli.main(["bench", str(model), "--max-words", "60"])
    lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in lines[0]
    assert "from the start to the first vector: 1.50 s" in lines
    assert lines[-1] == "bfloat16: not measured, float32 is faster"
    measured = ["float32", "int8", *["int8-weights"] * (not true("int8-weights").problem)]
    assert [line.split()[0] for line in lines[-len(measured) - 1 : -1]] == measured


def test_ctrl_c_ends_the_measuring_process_without_a_word(capfd):
    """It reaches both processes, and the other one says that it was interrupted."""
    with pytest.raises(BrokenProcessPool):
        process.in_fresh_process(signal.raise_signal, signal.SIGINT)
    assert capfd.readouterr().err == ""


def test_bench_command_names_what_cannot_be_used(model, tmp_path):
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    refusal(run("bench", model, "--text", tmp_path / "empty.txt", "--pretokenized"), tmp_path / "empty.txt")
