"""Examples in a model's language: the sentence of its card, and those with which the page of `elmo explore` begins."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo import config
from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig

TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
"""A language tag such as `en` or `pt-BR`, as HTML expects it; "English" is none."""
KEY = "examples"
"""The key of `PageExamples` in a model's card."""
SENTENCES = {
    "ca": "Ella va escriure una obra .",
    "da": "Hun skrev et skuespil .",
    "de": "Sie schrieb ein Stück .",
    "en": "She wrote a play .",
    "es": "Ella escribió una obra .",
    "eu": "Antzezlan bat idatzi zuen .",
    "fi": "Hän kirjoitti näytelmän .",
    "fr": "Elle a écrit une pièce .",
    "gl": "Ela escribiu unha obra .",
    "it": "Lei ha scritto un dramma .",
    "ja": "彼女 は 戯曲 を 書い た 。",
    "la": "Illa fabulam scripsit .",
    "nb": "Hun skrev et skuespill .",
    "nl": "Zij schreef een toneelstuk .",
    "no": "Hun skrev et skuespill .",
    "pl": "Ona napisała sztukę .",
    "pt": "Ela escreveu uma peça .",
    "ru": "Она написала пьесу .",
    "sv": "Hon skrev en pjäs .",
    "uk": "Вона написала п'єсу .",
    "zh": "她 写 了 一 部 戏剧 。",
}
WORDS = 4


def spoken(card: Mapping[str, Any], text: TextConfig | None) -> str | None:
    """Returns the language that a model's card names, or that of its tokenizer, or None if neither is a language tag.

    Tokens between spaces, and spaCy's rules for several languages (`xx`), have no language.
    """
    own = text.language if text is not None and text.tokens == "spacy" and text.language != "xx" else None
    named = (card.get("language"), own)
    return next((tag for tag in named if isinstance(tag, str) and TAG.fullmatch(tag)), None)


def example(language: str | None, words: Sequence[str] = ()) -> list[str]:
    """Returns the tokens of a sentence in a language (an ISO code).

    For an unknown language they are frequent words of the model, or an English sentence if it has no words.
    """
    code = (language or "").lower().partition("-")[0]
    if code in SENTENCES:
        return SENTENCES[code].split()
    known = [word for word in words[:1000] if word.isalpha()][:WORDS]
    return known if len(known) == WORDS else SENTENCES["en"].split()


@dataclass(frozen=True)
class Sense:
    """A sense of a word, with two uses of it."""

    name: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class TwoSenses:
    """A word in two senses."""

    word: str
    title: str
    """The label of its button."""
    senses: tuple[Sense, ...]
    note: str = ""
    """A remark below the example that tells the reader what it shows."""

    def __post_init__(self) -> None:
        if [len(sense.sentences) for sense in self.senses] != [2, 2]:
            raise config.ConfigError(f"the example {self.title!r} needs two senses with two sentences each")
        for sentence in (each for sense in self.senses for each in sense.sentences):
            if self.word.lower() not in sentence.lower():
                raise config.ConfigError(f"the example {self.title!r} has a sentence without {self.word!r}: {sentence}")


@dataclass(frozen=True)
class Uses:
    """A word and lines of text with it; in the last section of the page, a line may begin with `sense |`."""

    word: str
    text: str


@dataclass(frozen=True)
class PageExamples:
    """The examples of the page, by section; a model without its own has English ones."""

    senses: tuple[TwoSenses, ...]
    word: tuple[Uses, ...]
    expects: tuple[str, ...]
    uses: tuple[Uses, ...]

    def __post_init__(self) -> None:
        for name in ("senses", "word", "expects", "uses"):
            if not getattr(self, name):
                raise config.ConfigError(f"{name} is empty; give an example")


@dataclass(frozen=True)
class _Card:
    examples: PageExamples


def page_examples(card: Mapping[str, Any]) -> PageExamples | None:
    """Returns the examples in a model's card; None if it has none. Raises InputError if they are not such examples."""
    if KEY not in card:
        return None
    try:
        return config.from_dict(_Card, {KEY: card[KEY]}).examples
    except config.ConfigError as error:
        raise InputError(f"the card's {KEY}: {error}; see the docs of elmo convert --card, or remove them") from error
