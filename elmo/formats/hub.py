"""Models on the Hugging Face Hub, with the methods of its library: `from_pretrained`, `save_pretrained`, `push_to_hub`.

A repository holds the native format's files and a card: `config.json`, `model.safetensors`, `vocab.txt` or
`lexicon.json` if the model has words, `README.md`. They are read as strictly as a native folder: unknown or missing
keys and weights are errors. The package huggingface_hub is the extra `hub`.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from elmo import formats
from elmo.config import read_regular
from elmo.disk.files import real_path
from elmo.errors import InputError, in_one_line, pip_line, shown
from elmo.formats import native
from elmo.formats.examples import example, spoken
from elmo.formats.pull import is_offline
from elmo.formats.stored import Model, check_finite
from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig
from elmo.text.lexicon import Lexicon
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary

try:
    from huggingface_hub import ModelCard, PyTorchModelHubMixin, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
except ImportError as error:
    raise ImportError(f"HubModel needs huggingface_hub ({error}): {pip_line('hub')}") from error

LICENSE = "LICENSE"
"""The file of a model's licence, beside its weights."""
OPTIONS = ("revision", "token", "cache_dir", "force_download", "local_files_only")
"""The options of `HubModel.from_pretrained`, which are those of the mixin."""
SEVERAL = "multilingual"
"""The Hub's name for a model of several languages, in the place of a code."""

CARD = """---
{{ card_data }}
---

# {{ title }}

A bidirectional language model (biLM): it gives each word of a sentence {{ layers }} vectors of {{ dim }} numbers, which
know its context (ELMo, [Peters et al., 2018](https://arxiv.org/abs/1802.05365)).

```python
from elmo import Embedder, HubModel  # pip install 'elmo-torch[hub]'

model = HubModel.from_pretrained("{{ repository }}")
vectors = Embedder(model, text=model.text, vocabulary=model.vocabulary).embed([{{ example }}])
```

| | |
|---|---|
{% for name, value in facts %}| {{ name }} | {{ value }} |
{% endfor %}"""


class HubModel(BiLM, PyTorchModelHubMixin, library_name="elmo-torch", tags=["elmo", "bilm"], model_card_template=CARD):
    """A biLM that the Hub's library can load, save and push, with the other parts of a stored model.

    `from_pretrained("user/name")` also takes a folder's path; `of(model)` converts a loaded model.
    """

    # The mixin passes values of config.json to arguments of the same names, but none of our keys is called `config`.
    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self.beside = Model(config, {})
        """The softmax, the vocabulary, the text settings and the card, if any."""

    @classmethod
    def of(cls, model: Model) -> Self:
        """Converts a loaded model, whose weights it shares. The result is in evaluation mode."""
        with torch.device("meta"):
            made = cls(model.config)
        made.load_state_dict(model.weights, assign=True)
        made.beside = replace(model, weights={})
        return made.eval()

    @property
    def text(self) -> TextConfig | None:
        """How the model's training text was tokenised, for `Embedder`."""
        return self.beside.text

    @property
    def vocabulary(self) -> Vocabulary | Lexicon | None:
        """The ids of words for `Embedder`, if the model reads more than bytes."""
        return self.beside.inputs

    def stored(self) -> Model:
        """Returns the whole model, which any format of `elmo.formats` can save."""
        return replace(self.beside, weights={name: weight.detach() for name, weight in self.state_dict().items()})

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Loads the model of a folder or a Hub repository, which the Hub's library keeps in its own cache.

        `options` are the mixin's: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only` (set by
        ELMO_OFFLINE). Raises InputError for others, and if there is no such model or its files do not fit together.
        """
        name = str(pretrained_model_name_or_path)
        if unknown := sorted(options.keys() - set(OPTIONS)):
            raise InputError(
                f"{', '.join(unknown)}: not an option of HubModel.from_pretrained, which is always strict; it has"
                f" {', '.join(OPTIONS)}"
            )
        if is_offline():
            options["local_files_only"] = True
        # The mixin is not used, since it reads config.json less strictly and with errors of its own.
        folder = Path(name)
        if not name or not folder.is_dir():
            try:
                folder = Path(snapshot_download(name, allow_patterns=list(native.FILES), **options))
            except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
                why = in_one_line(error)
                raise InputError(f"{name}: not a folder, and not available from the Hub ({why})") from error
        if not native.recognizes(folder):
            native.check_json(folder)
            raise InputError(
                f"{name}: has no {native.CONFIG} of the format {native.FORMAT!r}; other formats are read from"
                " files: elmo.load, elmo convert"
            )
        model = native.load(folder)
        check_finite(name, model)
        return cls.of(model)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Uploads the files to a repository, created if necessary; returns the commit's address.

        `options` are the mixin's: `token`, `private`, `branch`, `commit_message`, `create_pr` and others.
        """
        card = {"repository": repo_id} | (options.pop("model_card_kwargs", None) or {})
        return super().push_to_hub(repo_id, model_card_kwargs=card, **options)

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> str | None:
        """Writes a folder that `from_pretrained` and `elmo.load` open; keeps an existing README.

        `options` are the mixin's: `model_card_kwargs`, `push_to_hub` and its options. The files are written to a
        folder of their own there and moved out of it when all are complete; the mixin itself would first remove the old
        ones. A push comes last: the files stay if it fails.
        """
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        named = folder if folder.is_symlink() else real_path(folder)  # "." has no name
        repository = options.pop("repo_id", None) or named.name
        pushes = options.pop("push_to_hub", False)
        written = {name: options.pop(name) for name in ("config", "model_card_kwargs") if name in options}
        # Inside the folder, which may be a mount or a link to one: files are not moved between file systems.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new.") as inside:
            new = Path(inside) / "model"
            super().save_pretrained(new, **written)
            saved = {file.name for file in new.iterdir()}
            for name in saved:
                if name in native.FILES or not (folder / name).exists():
                    (new / name).replace(folder / name)
        for name in set(native.FILES) - saved:
            (folder / name).unlink(missing_ok=True)
        return self.push_to_hub(repository, **written, **options) if pushes else None

    def _save_pretrained(self, save_directory: Path) -> None:
        native.save(self.stored(), save_directory, overwrite=True)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Makes the README from the model's own record."""
        lstm, beside = self.config.lstm, self.beside
        facts = [
            ("parameters", f"{sum(weight.numel() for weight in self.parameters()):,}"),
            ("LSTMs", f"{lstm.n_layers} layers of {lstm.dim} cells, projection {lstm.projection_dim}"),
            ("softmax", "none" if beside.lm_head is None else f"{len(beside.lm_head['bias']):,} words"),
            ("tokens", "not known" if beside.text is None else beside.text.tokens),
            *((key.replace("_", " "), cell) for key, value in beside.card.items() if (cell := _cell(value))),
        ]
        if perplexity := _perplexity(beside.card):
            facts.append(("perplexity on the held-out text", perplexity))
        words = beside.vocabulary.words if beside.vocabulary is not None else ()
        language = _language(beside.card, beside.text)
        sentence = example(language, words)
        values: dict[str, Any] = {"title": beside.card.get("name", "biLM"), "repository": "user/name", "facts": facts}
        values |= {
            "example": json.dumps(sentence, ensure_ascii=False),
            "layers": lstm.n_layers + 1,
            "dim": 2 * lstm.projection_dim,
        }
        made = super().generate_model_card(*args, **(values | kwargs))
        license = beside.card.get("license")
        if isinstance(license, str) and " " not in license:
            license = license.lower()  # as the Hub writes the names of licences
        for name, value in {"license": license, "language": language, "pipeline_tag": "feature-extraction"}.items():
            if isinstance(value, str):
                setattr(made.data, name, value)
        return made


def _cell(value: Any) -> str:
    """A plain value of the card as a table cell; empty for an unknown one and a nested table (the config has it)."""
    if value is None or isinstance(value, dict):
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}" if type(value) is int else str(value)
    return " ".join(text.replace("|", "\\|").split())


def _language(card: dict[str, Any], text: TextConfig | None) -> str | None:
    """The language as the Hub names it: an ISO code, without a region, or `multilingual`."""
    if card.get("language") == SEVERAL:
        return SEVERAL
    tag = spoken(card, text)
    return None if tag is None else tag.partition("-")[0].lower()


def _perplexity(card: dict[str, Any]) -> str:
    """The perplexities that `elmo train` wrote; empty if the card has none of this form."""
    measured = card.get("perplexity")
    policies = {"carry": "with carried state", "reset": "sentence by sentence"}
    means = {
        policy: row.get("mean")
        for policy, row in (measured.items() if isinstance(measured, dict) else ())
        if isinstance(row, dict)
    }
    return ", ".join(f"{means[p]:.1f} {how}" for p, how in policies.items() if isinstance(means.get(p), float))


def prepare(path: str | Path, repository: str, folder: Path, license: str | None, language: str | None) -> None:
    """Writes to `folder` what `push` uploads: the native format's files, copied from a native folder, and the card.

    A README.md in the model's folder is the card's text; if it lacks a header, it gets one from the model's record. A
    file LICENSE there is copied, too. Raises InputError for another licence than that of the model's card.
    """
    if language is not None and _language({"language": language}, None) is None:
        raise InputError(f"--language {shown(language)}: an ISO code such as de is expected, or {SEVERAL}")
    found = formats.find(path)
    home, is_native = found if found.is_dir() else found.parent, native.recognizes(found)
    if is_native:
        _copy(home, folder, native.FILES)
    model = _load_copy(folder, path) if is_native else formats.load(path)
    known = model.card.get("license")
    if license is not None and isinstance(known, str) and _letters(license) != _letters(known):
        raise InputError(
            f"{path}: its card has the licence {shown(known)}, and --license is {shown(license)}; omit --license, or"
            " change the card: elmo convert MODEL NEW --card card.json"
        )
    given = {"license": license, "language": language}
    card = model.card | {name: value for name, value in given.items() if value is not None}
    made = HubModel.of(replace(model, card=card))
    if not is_native:
        native.save(made.stored(), folder, overwrite=True)
    # Beside a file in another format, such as an archive among downloads, may be texts that are not of this model.
    has_texts = is_native or found.is_dir()
    if has_texts:
        _copy(home, folder, [LICENSE])
    title = card.get("name", repository.partition("/")[2])
    readme = made.generate_model_card(repository=repository, title=title)
    text = str(readme)
    if has_texts and (home / "README.md").is_file():
        own = _read_text(home / "README.md")
        if own.startswith("---") and (license or language):
            raise InputError(
                f"{home / 'README.md'}: has a header of its own; --license and --language would have no effect: write"
                " them there, or omit them"
            )
        text = own if own.startswith("---") else f"---\n{readme.data}\n---\n\n{own}"
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")


def _letters(license: str) -> str:
    """Returns a licence's name without its punctuation: CC BY-SA 3.0 is cc-by-sa-3.0."""
    return "".join(filter(str.isalnum, license.lower()))


def _copy(home: Path, folder: Path, names: Iterable[str]) -> None:
    """Copies those of the files that are there."""
    for name in names:
        if (home / name).is_file():
            shutil.copyfile(home / name, folder / name)


def _load_copy(folder: Path, path: str | Path) -> Model:
    """Loads the copy of a model: the original may change meanwhile. The errors name the files of the original."""
    try:
        return formats.load(folder)
    except InputError:
        formats.load(path)
        raise


def _read_text(file: Path) -> str:
    try:
        return read_regular(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error
