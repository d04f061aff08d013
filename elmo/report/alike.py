"""Which probes can be compared with one another: those that asked different models the same."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from elmo.probes import pos, wsd
from elmo.report.collect import Probe

NOT_ASKED = {"model", "cache", "checkpoint_minutes"}
"""Settings that do not change what is asked."""
USUAL_STATE = "reset"
"""How the LSTMs begin a sentence where a record, maybe of a version that knew no other way, does not say."""


def groups(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Probes of one kind by what they asked: those with the most scored instances first, then the least limited."""
    found: dict[str, list[Probe]] = {}
    for probe in probes:
        found.setdefault(_question(probe), []).append(probe)
    return sorted(found.values(), key=_weight, reverse=True)


def pretrained(probes: Sequence[Probe]) -> list[Probe]:
    """Those whose model is known to have learned from so many words: of a fine-tuned one only the last words are."""
    return [probe for probe in probes if words_read(probe) and not _fine_tuned(probe)]


def words_read(probe: Probe) -> int:
    """What the probe's model was trained on; 0 where it is not known."""
    return int(_bilm(probe).get("words_read") or 0)


def state(probe: Probe) -> str:
    """How its model's LSTMs began a sentence."""
    return str((probe.record.get("config") or {}).get("state") or USUAL_STATE)


def size(probe: Probe) -> tuple[int, ...]:
    """Cells and projection of the probe's model; without the latter where it has none, empty where it is not known."""
    return tuple(each for key in ("cells", "projection_dim") if (each := _bilm(probe).get(key)) is not None)


def _fine_tuned(probe: Probe) -> bool:
    """Whether its model began from one that had read another text."""
    origin = _bilm(probe).get("init_from")
    return bool(origin) and not origin.get("continues")


def _bilm(probe: Probe) -> dict[str, Any]:
    return probe.record.get("bilm") or {}


def _question(probe: Probe) -> str:
    """The version, the settings with files by their names, and what no model changes, which tells the files' content.

    A setting that is null counts as one that the record of an older version has not.
    """
    config = dict(probe.record.get("config") or {})
    if "train" in config:  # then `data` is where the files are looked for, not one of them
        config.pop("data", None)
    kept = {key: _named(value) for key, value in config.items() if key not in NOT_ASKED and value is not None}
    kept["state"] = state(probe)
    baselines = [row for row in probe.rows if row.get("layer") in (wsd.BASELINE, pos.BASELINE)]
    return json.dumps([probe.record.get("version"), kept, _instances(probe), baselines], sort_keys=True)


def _named(value: Any) -> Any:
    """A setting without the folders of its files."""
    if isinstance(value, list):
        return [_named(each) for each in value]
    return PurePath(value).name if isinstance(value, str) else value


def _weight(probes: Sequence[Probe]) -> tuple[int, float, int]:
    """Of probes that asked the same: instances, the limit of training, and how many they are."""
    limit = (probes[0].record.get("config") or {}).get("limit")
    return _instances(probes[0]), float("inf") if limit is None else float(limit), len(probes)


def _instances(probe: Probe) -> int:
    """How many were scored; 0 where the rows do not say."""
    return max((int(row.get("instances") or row.get("occurrences") or 0) for row in probe.rows), default=0)
