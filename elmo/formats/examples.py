"""The example sentence of a model's card, in the model's language."""

from collections.abc import Sequence

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


def example(language: str | None, words: Sequence[str] = ()) -> list[str]:
    """Returns the tokens of a sentence in a language (an ISO code).

    For an unknown language they are frequent words of the model, or an English sentence if it has no words.
    """
    code = (language or "").lower().partition("-")[0]
    if code in SENTENCES:
        return SENTENCES[code].split()
    known = [word for word in words[:1000] if word.isalpha()][:WORDS]
    return known if len(known) == WORDS else SENTENCES["en"].split()
