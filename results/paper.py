"""The numbers of the paper (Peters et al. 2018, "Deep contextualized word representations"), shown beside ours."""

Key = tuple[str, str, str]
"""A quantity, a task (`elmo task list`), and an arm or layer of the results here; "" if the number belongs to none."""


def _tasks(quantity: str, **values: float) -> dict[Key, float]:
    return {(quantity, task, ""): value for task, value in values.items()}


def _arms(quantity: str, task: str, arms: tuple[str, ...], *values: float) -> dict[Key, float]:
    return {(quantity, task, arm): value for arm, value in zip(arms, values, strict=True)}


LAYERS = ("none", "top", "lambda-1", "lambda-0.001")
PLACES = ("input", "both", "output")
TYPES = ("static", "layer-0", "elmo", "static-elmo")
PUBLISHED = {
    **_tasks("error reduction", squad=24.9, snli=5.8, srl=17.2, coref=9.8, ner=21.0, sst5=6.8),  # Table 1
    **_arms("layers", "squad", LAYERS, 80.8, 84.7, 85.0, 85.2),  # Table 2
    **_arms("layers", "snli", LAYERS, 88.1, 89.1, 89.3, 89.5),
    **_arms("layers", "srl", LAYERS, 81.6, 84.1, 84.6, 84.8),
    **_arms("places", "squad", PLACES, 85.1, 85.6, 84.8),  # Table 3
    **_arms("places", "snli", PLACES, 88.9, 89.5, 88.7),
    **_arms("places", "srl", PLACES, 84.7, 84.3, 80.9),
    **_arms("types", "squad", TYPES, 80.8, 81.4, 85.3, 85.6),  # Table 7
    **_arms("types", "snli", TYPES, 88.1, 88.5, 89.1, 89.5),
    **_arms("types", "srl", TYPES, 81.6, 81.7, 84.5, 84.7),
    **_arms("wsd", "", ("1", "2"), 67.4, 69.0),  # Table 5
    **_arms("pos", "", ("1", "2"), 97.3, 96.8),  # Table 6
    **_tasks("updates", srl=100 * 10 / 486),  # section 5.4
    **_tasks("data", srl=10.0),
}
"""The published numbers, in percent. Tables 2, 3 and 7 are on development data.

`updates` are the epochs with ELMo to the baseline's best score, as a share of the baseline's own epochs. `data` is the
part of the data with which the baseline scores what ELMo does with 1 %."""


def cell(quantity: str, task: str = "", arm: str = "", form: str = "{:.1f}") -> str:
    """Formats the paper's number as a table cell, which is empty if there is none."""
    found = PUBLISHED.get((quantity, task, arm))
    return "" if found is None else form.format(found)
