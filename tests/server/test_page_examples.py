"""A model's own examples: `elmo convert --card` puts them into its card, and the page begins with them."""

import copy
import json
from pathlib import Path
from typing import Any

import httpx
from command import printed, run
from refusals import refusal, refused
from served import asked, running_service
from tiny import tiny_model

from elmo.formats import native
from elmo.formats.examples import page_examples
from elmo.server.service import Service

EXAMPLES: dict[str, Any] = {
    "senses": [
        {
            "word": "ius",
            "title": "ius: law, broth",
            "senses": [
                {"name": "law", "sentences": ["Ius dicit.", "Hoc ius est."]},
                {"name": "broth", "sentences": ["Ius bibit.", "Hoc ius olet."]},
            ],
            "note": "The forms are the same.",
        }
    ],
    "word": [{"word": "ius", "text": "Ius dicit.\nIus bibit."}],
    "expects": ["Arma virumque cano."],
    "uses": [{"word": "ius", "text": "law | Ius dicit.\nbroth | Ius bibit."}],
}


def served(service: Service, path: str) -> httpx.Response:
    return asked(service, lambda client: client.get(path))


def test_the_page_begins_with_the_models_examples_and_else_with_its_own(tmp_path: Path) -> None:
    native.save(tiny_model(), tmp_path / "plain")
    facts = tmp_path / "card.json"
    facts.write_text(json.dumps({"license": "CC0-1.0", "examples": EXAMPLES}), encoding="utf-8")
    printed("convert", tmp_path / "plain", tmp_path / "own", "--card", facts)
    info = run("info", tmp_path / "own")
    assert "CC0-1.0" in info.stdout
    assert "bibit" not in info.stdout
    assert json.loads(run("info", tmp_path / "own", "--json").stdout)["card"]["examples"] == EXAMPLES

    with running_service(tmp_path / "served", native.load(tmp_path / "own")) as service:
        script = served(service, "/static/examples.js").text
        assert json.loads(script.removeprefix("export const EXAMPLES = ").removesuffix(";\n")) == EXAMPLES
        assert "examples" not in served(service, "/card").json()
        assert served(service, "/static/main.js").status_code == 200
    with running_service(tmp_path / "english", native.load(tmp_path / "plain")) as service:
        assert "crane" in served(service, "/static/examples.js").text


def test_examples_that_the_page_cannot_show_are_refused_by_their_key(tmp_path: Path) -> None:
    changes: list[tuple[str, Any]] = [
        ("word", lambda all: all.update(word=[])),
        ("uses", lambda all: all.pop("uses")),
        ("exspects", lambda all: all.update(exspects=["?"])),
        ("expects", lambda all: all.update(expects="Arma virumque cano.")),
        ("two sentences", lambda all: all["senses"][0]["senses"][0]["sentences"].pop()),
        ("'ius'", lambda all: all["senses"][0]["senses"][0]["sentences"].__setitem__(0, "Sine verbo.")),
    ]
    for named, change in changes:
        examples = copy.deepcopy(EXAMPLES)
        change(examples)
        with refused(named, "examples"):
            page_examples({"examples": examples})
    for examples in (None, [], "Arma"):
        with refused("examples"):
            page_examples({"examples": examples})
    assert page_examples({}) is None


def test_a_card_that_is_none_changes_no_model(tmp_path: Path) -> None:
    native.save(tiny_model(), tmp_path / "model")
    facts = tmp_path / "card.json"
    for text in ("[1]", "{", '{"examples": {}}'):
        facts.write_text(text, encoding="utf-8")
        refusal(run("convert", tmp_path / "model", tmp_path / "new", "--card", facts), "card")
    refusal(run("convert", tmp_path / "model", tmp_path / "new", "--card", tmp_path / "none.json"), "none.json")
    refusal(run("convert", tmp_path / "model", tmp_path / "new", "--card", facts, "--to", "allennlp"), "--card", "--to")
    assert not (tmp_path / "new").exists()
