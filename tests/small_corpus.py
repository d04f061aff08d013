"""A corpus for tests: sentences of a few grammars, a subject a document, so that there is something to learn."""

import random
from pathlib import Path

SUBJECTS = {
    "sea": (["sailor", "captain", "gull", "harbour"], ["rows", "sails", "drifts", "waits"], ["waves", "storm", "boat"]),
    "farm": (["farmer", "horse", "dog", "miller"], ["ploughs", "sleeps", "eats", "waits"], ["barn", "field", "fence"]),
    "court": (["judge", "lawyer", "witness", "clerk"], ["speaks", "writes", "listens", "waits"], ["bench", "case"]),
}
PLACES = ["near", "under", "behind", "beside"]


def sentences(rng: random.Random, subject: str, count: int) -> list[str]:
    """Tokens between spaces."""
    who, does, what = SUBJECTS[subject]
    return [
        " ".join(
            ["The", rng.choice(who), rng.choice(does)]
            + (["quietly"] if rng.random() < 0.3 else [])
            + ([rng.choice(PLACES), "the", rng.choice(what)] if rng.random() < 0.7 else [])
            + ["."]
        )
        for _ in range(count)
    ]


def write_corpus(path: Path, documents: int, seed: int = 0) -> Path:
    """One sentence a line, a blank line between documents."""
    rng = random.Random(seed)
    texts = ["\n".join(sentences(rng, rng.choice(list(SUBJECTS)), rng.randint(3, 9))) for _ in range(documents)]
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path
