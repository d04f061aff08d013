"""The tokenizer of `elmo.integrations.transformers`, which turns words into the ids of their characters.

As in transformers, it is separate from the model, so that data can be prepared without one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Int
from torch import Tensor, nn

from elmo.embedding.texts import SplitText, split_texts
from elmo.errors import InputError, pip_line, shown
from elmo.formats import native
from elmo.text.batching import to_batch
from elmo.text.given import SENTENCES, TEXTS, check_outer, token_lists
from elmo.text.marks import BOS, EOS
from elmo.text.records import Span
from elmo.text.tokenizer import WHITESPACE, Tokenizer

try:
    from transformers import BatchEncoding, PreTrainedTokenizer
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoTokenizer needs transformers ({error}): {pip_line('transformers')}") from error

PAD = "<PAD>"
IGNORED = {"verbose"}


@dataclass(frozen=True)
class Encoding:
    """One text in a `BatchEncoding`: its tokens, and their places in the text."""

    tokens: list[str]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]

    @property
    def special_tokens_mask(self) -> list[int]:
        return [int(word is None) for word in self.word_ids]

    @property
    def sequence_ids(self) -> list[int | None]:
        return [None if word is None else 0 for word in self.word_ids]

    def padded(self, size: int) -> Self:
        missing = size - len(self.tokens)
        return type(self)(
            [*self.tokens, *[PAD] * missing], [*self.word_ids, *[None] * missing], [*self.offsets, *[(0, 0)] * missing]
        )


class ElmoTokenizer(PreTrainedTokenizer):
    """Turns text into the ids of its words' characters, (B, T, C).

    A row is a text, and has the boundaries `<S>` and `</S>` around each of its sentences. Sentences and words are those
    of `Embedder.embed`, or the words of one sentence are given (`is_split_into_words`). `ElmoTokenizer` needs the
    model's `config.json` and, for a model that reads words, the list of its words.
    """

    vocab_files_names = {  # noqa: RUF012  (as its base class has it)
        "config_file": native.CONFIG,
        "vocab_file": native.VOCABULARY,
        "lexicon_file": native.LEXICON,
    }

    def __init__(
        self, config_file: str, vocab_file: str | None = None, lexicon_file: str | None = None, **others: Any
    ) -> None:
        folder = Path(config_file).parent
        config, text, words = native.load_inputs(folder)
        self._max_characters = 50 if config.char_cnn is None else config.char_cnn.max_characters_per_token
        self._vocabulary = words if config.char_cnn is None else None
        self._size = config.ids_per_token
        self._tokenizer = Tokenizer(text or WHITESPACE)
        self._normalize = () if text is None else text.normalize
        names = [native.CONFIG] if config.char_cnn else [native.CONFIG, native.VOCABULARY, native.LEXICON]
        self._files = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
        super().__init__(**({"pad_token": PAD} | others))

    def __call__(  # type: ignore[override]
        self,
        text: Any,
        text_pair: Any = None,
        *,
        is_split_into_words: bool = False,
        padding: Any = False,
        truncation: Any = None,
        max_length: int | None = None,
        add_special_tokens: bool = True,
        return_tensors: Any = None,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
        return_attention_mask: bool | None = None,
        **others: Any,
    ) -> BatchEncoding:
        """Encodes texts as in transformers. Offsets count from the start of the text or, for given words, of the word.

        Raises InputError for what is no text, and for pairs of texts and sentences without boundaries, which ELMo
        cannot read.
        """
        self._check_sides()
        refused = {"text_pair": text_pair is not None, "add_special_tokens=False": not add_special_tokens}
        refused |= {name: value for name, value in others.items() if name not in IGNORED}
        if named := ", ".join(name for name, value in refused.items() if value):
            raise InputError(
                f"ElmoTokenizer has no {named}; it reads one text at a time, with the boundaries of its sentences"
            )
        strategy, cut, size, _ = self._get_padding_truncation_strategies(padding, truncation, max_length)
        limit = None if size is None or cut.value == "do_not_truncate" else size
        is_batch, texts = self._of_words(text) if is_split_into_words else self._of_text(text)
        encodings = [_encoding(each, limit) for each in texts]
        ids = self._ids(encodings)
        if strategy.value != "do_not_pad":
            wanted = size if strategy.value == "max_length" else None
            ids = nn.functional.pad(ids, (0, 0, 0, max(0, (wanted or 0) - ids.shape[1])))
            encodings = [encoding.padded(ids.shape[1]) for encoding in encodings]
        columns: dict[str, Any] = {"input_ids": ids}
        if return_attention_mask is not False:
            columns["attention_mask"] = (ids[:, :, 0] != 0).long()
        lengths = [len(encoding.tokens) for encoding in encodings]
        if not return_tensors or len(set(lengths)) > 1:
            columns = {name: _lists(column, lengths) for name, column in columns.items()}
        if return_offsets_mapping:
            columns["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_special_tokens_mask:
            columns["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if not return_tensors and not is_batch:
            columns = {name: column[0] for name, column in columns.items()}
        return BatchEncoding(columns, encodings, return_tensors, n_sequences=1)  # type: ignore[arg-type]

    def encode(  # type: ignore[override]
        self, text: Any, text_pair: Any = None, add_special_tokens: bool = True, **options: Any
    ) -> Any:
        """Returns the ids of one text or of its words, as in transformers."""
        return self.encode_plus(text, text_pair, add_special_tokens, **options)["input_ids"]

    def encode_plus(  # type: ignore[override]
        self, text: Any, text_pair: Any = None, add_special_tokens: bool = True, **options: Any
    ) -> BatchEncoding:
        """Encodes one text or its words, as in transformers."""
        options = {"is_split_into_words": isinstance(text, list | tuple)} | options
        return self(text, text_pair, add_special_tokens=add_special_tokens, **options)

    def batch_encode_plus(  # type: ignore[override]
        self, batch_text_or_text_pairs: Any, add_special_tokens: bool = True, **options: Any
    ) -> BatchEncoding:
        """Encodes several texts, as in transformers."""
        return self(batch_text_or_text_pairs, add_special_tokens=add_special_tokens, **options)

    def tokenize(self, text: str, **_: Any) -> list[str]:
        """Returns the words of a text."""
        return list(SplitText.of(text, self._tokenizer).tokens)

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:  # type: ignore[override]
        """Returns the tokens of ids, as `decode` needs them. Raises InputError for words, whose ids may be cut off."""
        if np.ndim(ids) > 1 or (np.asarray(ids) >= len(self)).any():
            raise InputError("the ids are those of characters, which are not decoded; batch.tokens(row) has the words")
        return super().convert_ids_to_tokens(ids, skip_special_tokens)

    def get_vocab(self) -> dict[str, int]:
        """Returns only the padding token, since every other token has the ids of its characters instead of one id."""
        return {PAD: 0}

    @property
    def vocab_size(self) -> int:
        return 1

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Writes the tokenizer's files; files of a model that exist already are not replaced."""
        files = {Path(save_directory) / name: content for name, content in self._files.items()}
        for file, content in files.items():
            if not file.exists():
                file.write_bytes(content)
        return tuple(map(str, files))

    def _of_text(self, text: Any) -> tuple[bool, list[SplitText]]:
        """Returns whether several texts are given, and the texts."""
        is_batch = not isinstance(text, str)
        texts = list(check_outer(text, f"a text, or {TEXTS}")) if is_batch else [text]
        if any(isinstance(each, list | tuple) for each in texts):
            raise InputError(f"{shown(text)} has lists; lists of words need is_split_into_words=True")
        return is_batch, list(split_texts(texts, text, lambda: self._tokenizer))

    def _of_words(self, words: Any) -> tuple[bool, list[SplitText]]:
        """Returns whether several sentences are given, and the sentences."""
        if isinstance(words, str):
            raise InputError(f"{shown(words)} is a string; is_split_into_words=True needs a list of words")
        given = list(check_outer(words, SENTENCES))
        is_batch = any(isinstance(each, Iterable) and not isinstance(each, str | bytes) for each in given)
        return is_batch, [SplitText.of_tokens(sentence) for sentence in token_lists(given if is_batch else [given])]

    def _ids(self, encodings: list[Encoding]) -> Int[Tensor, "B T C"]:
        sentences = [encoding.tokens[1:-1] for encoding in encodings]
        return to_batch(sentences, self._max_characters, self._vocabulary, self._normalize).char_ids

    def _pad(self, encoded_inputs: Any, *arguments: Any, **options: Any) -> Any:
        """Pads as transformers does, but with rows of ids instead of numbers."""
        self._check_sides(options.get("padding_side"))
        padded = super()._pad(encoded_inputs, *arguments, **options)
        padded["input_ids"] = [row or [0] * self._size for row in padded["input_ids"]]
        return padded

    def _check_sides(self, padding_side: str | None = None) -> None:
        """Raises InputError unless padding and truncation are on the right, where the model expects them."""
        for name, side in (("padding", padding_side or self.padding_side), ("truncation", self.truncation_side)):
            if side != "right":
                raise InputError(f"{name}_side is {side!r}; only 'right' is supported: tokenizer.{name}_side = 'right'")

    def _convert_token_to_id(self, token: str) -> int:
        if token not in self.get_vocab():
            raise InputError(f"{token!r} has no id, but the ids of its characters; call the tokenizer: tokenizer(text)")
        return self.get_vocab()[token]


def _encoding(text: SplitText, limit: int | None) -> Encoding:
    """Returns a text with boundaries around its sentences, cut at `limit` tokens; the last one is always `</S>`."""
    spans = text.offsets if text.text else [(0, len(token)) for token in text.tokens]
    if spans is None:  # spaCy does not get what UTF-8 cannot express
        raise InputError(f"{shown(text.text, 40)} has half of a surrogate pair; give whole characters")
    tokens: list[str] = []
    words: list[int | None] = []
    offsets: list[Span] = []
    for begin, end in text.sentences or [(0, 0)]:
        if limit is not None:
            end = min(end, begin + max(0, limit - len(tokens) - 2))
            if tokens and begin == end:
                break
        tokens += [BOS, *text.tokens[begin:end], EOS]
        words += [None, *range(begin, end), None]
        offsets += [(0, 0), *spans[begin:end], (0, 0)]
    return Encoding(tokens, words, offsets)


def _lists(column: Tensor, lengths: list[int]) -> list[Any]:
    return [row[:length].tolist() for row, length in zip(column, lengths, strict=True)]
