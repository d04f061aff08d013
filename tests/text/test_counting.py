"""A run's record of its settings."""

import json
from pathlib import Path

from hypothesis import strategies as st
from refusals import refused

from elmo.pretraining import counting
from elmo.pretraining.settings import TrainConfig
from elmo.training.optim import OptimConfig

WORD = st.text(min_size=1, max_size=3)


def test_sessions_are_those_whose_steps_count(tmp_path: Path) -> None:
    """A run without a change has no record of them; those that a run has gone back before are forgotten."""
    seen = []
    counting.write_record(TrainConfig(("a.txt",), str(tmp_path)))
    for step, lr in ((0, 1.0), (10, 1.0), (20, 2.0), (20, 3.0), (30, 3.0), (15, 5.0), (10, 1.0), (0, 7.0)):
        config = TrainConfig(("a.txt",), str(tmp_path), streams=step + 1, optim=OptimConfig(lr=lr))
        counting.record_session(config, step)
        file = tmp_path / "sessions.json"
        sessions = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        seen.append([(each["step"], each["settings"]["optim"]["lr"]) for each in sessions])
    assert seen == [
        [],
        [],
        [(0, 1), (20, 2)],
        [(0, 1), (20, 3)],
        [(0, 1), (20, 3)],
        [(0, 1), (15, 5)],
        [(0, 1)],
        [(0, 7)],
    ]
    file.write_text("[{}]", encoding="utf-8")
    with refused("sessions.json", "damaged", "remove"):
        counting.record_session(TrainConfig(("a.txt",), str(tmp_path)), 20)
