"""Counts the places of a file that its format does not allow, but that the official scorers read anyway.

A reader notes every place; one warning per file counts them and names the first. To refuse such files, turn the warning
into an error with `warnings.simplefilter("error", IrregularInput)` or, on the command line, `--strict`.
"""

import warnings
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from elmo.errors import IrregularInput

NAMED = 3
"""The most places of a problem that the warning names."""
MOST = 8
"""The most problems that the warning names."""


@dataclass
class IrregularPlaces:
    """The irregular places of one file."""

    source: str | Path
    places: dict[str, list[int | str]] = field(default_factory=dict)
    """The first places of each problem, as numbers of lines or names such as "question q1"."""
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, problem: str, place: int | str) -> None:
        """Counts a place of a problem, which is described without file and line."""
        self.counts[problem] = self.counts.get(problem, 0) + 1
        if self.counts[problem] <= NAMED:
            self.places.setdefault(problem, []).append(place)

    def tell(self) -> None:
        """Warns with `IrregularInput` of all noted places; gives no warning for a regular file."""
        if self.counts:
            said = "; ".join(self._said(problem) for problem in islice(self.counts, MOST))
            said += f"; and {len(self.counts) - MOST} more" if len(self.counts) > MOST else ""
            warnings.warn(IrregularInput(f"{self.source}: {said}; --strict refuses such a file"), stacklevel=3)

    def _said(self, problem: str) -> str:
        places, more = self.places[problem], self.counts[problem] > NAMED
        lines = all(isinstance(place, int) for place in places)
        label = ("line " if len(places) == 1 else "lines ") if lines else ""
        listed = ", ".join(f"{place:,}" if isinstance(place, int) else place for place in places)
        times = f" ({self.counts[problem]:,} times)" if self.counts[problem] > 1 else ""
        return f"{problem}{times}, {label}{listed}{', ...' if more else ''}"
