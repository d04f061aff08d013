"""Groups comparable probes: those that asked different models the same question."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from elmo.formats.source import is_bilm
from elmo_lab.probes import pos, wsd
from elmo_lab.report.collect import Probe, is_fine_tuned

NOT_ASKED = {"model", "cache", "checkpoint_minutes"}
"""Settings that do not change the question."""
USUAL_STATE = "reset"
"""The LSTM state policy of records that name none, such as those of older versions."""


def groups(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Probes of one kind, grouped by question: those with the most scored instances first, then the least limited."""
    found: dict[str, list[Probe]] = {}
    for probe in probes:
        found.setdefault(_question(probe), []).append(probe)
    return sorted(found.values(), key=_weight, reverse=True)


def pretrained(probes: Sequence[Probe]) -> list[Probe]:
    """Probes of models whose words of training are known; of a fine-tuned model only the last ones are."""
    return [probe for probe in probes if words_read(probe) and has_bilm(probe) and not is_fine_tuned(_bilm(probe))]


def has_bilm(probe: Probe) -> bool:
    """Whether the probe's model is a biLM."""
    return is_bilm(_bilm(probe))


def words_read(probe: Probe) -> int:
    """Words that the probe's model was trained on; 0 if unknown."""
    return int(_bilm(probe).get("words_read") or 0)


def state(probe: Probe) -> str:
    """The LSTM state policy of the probe."""
    return str((probe.record.get("config") or {}).get("state") or USUAL_STATE)


def size(probe: Probe) -> tuple[int, ...]:
    """Cells and projection of the probe's model; without the latter if it has none, empty if unknown."""
    return tuple(each for key in ("cells", "projection_dim") if (each := _bilm(probe).get(key)) is not None)


def _bilm(probe: Probe) -> dict[str, Any]:
    return probe.record.get("bilm") or {}


def _question(probe: Probe) -> str:
    """The version, the settings with file names, and what depends on the files but not on the model.

    A null setting counts as missing, as in records of older versions.
    """
    config = dict(probe.record.get("config") or {})
    if "train" in config:  # then `data` is the folder of the files, not one of them
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
    """The rank of a group: instances, the limit of training, and the number of probes."""
    limit = (probes[0].record.get("config") or {}).get("limit")
    return _instances(probes[0]), float("inf") if limit is None else float(limit), len(probes)


def _instances(probe: Probe) -> int:
    """Number of scored instances; 0 if the rows do not say."""
    return max((int(row.get("instances") or row.get("occurrences") or 0) for row in probe.rows), default=0)
