"""Keeps a text in the memory of a GPU, where windows are looked up by their places in the text.

Words are numbered anew by length. Most are short, and a group of words has only the characters of its longest word. The
distinct words of a window fill a fixed number of slots in each group, since a CUDA graph has fixed shapes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from elmo.pretraining.ids import BEGIN, END, Ids
from elmo.text.characters import PADDING, encode_words
from elmo.text.vocabulary import Vocabulary

SHORT = 14
"""The most characters of a short word, marks included."""
AT_ONCE = 2**22
"""The most positions, or characters, that are prepared together."""
SPARE, STEP = 1.15, 64
"""The slots for distinct words are those of the first windows times `SPARE`, rounded up to a multiple of `STEP`."""


class Window(NamedTuple):
    """The tensors of `LmBatch`, but with words in groups."""

    groups: list[Tensor]
    inputs: Int[Tensor, "2 B T"]
    targets: Int[Tensor, "2 B T"]
    keep: Bool[Tensor, "2 B T"]
    starts: Bool[Tensor, "2 B T"]


@dataclass(frozen=True)
class ResidentText:
    """The text on a device; word ids are those of `Ids` in the order of `number`."""

    forward: Int[Tensor, " N"]
    """The text, as in `Ids.tokens`."""
    backward: Int[Tensor, " N"]
    """The text with the words of each sentence in reverse."""
    known: Int[Tensor, " W"]
    """The vocabulary's id of every word."""
    characters: list[Tensor]
    """The characters of the words of each group, `(w, c)`."""
    number: Int[np.ndarray, " W"]
    """The new id of every word of the lexicon."""

    def group_sizes(self) -> list[int]:
        """Returns the number of words of each group."""
        return [len(group) for group in self.characters]

    def distinct(self, words: Int[np.ndarray, "..."]) -> list[int]:
        """Returns how many distinct words of each group there are among ids of the lexicon."""
        there = np.zeros(len(self.number), np.bool_)
        there[self.number[words]] = True
        return [int(part.sum()) for part in np.split(there, np.cumsum(self.group_sizes())[:-1])]

    def slots(self, distinct: list[int], positions: int) -> list[int]:
        """Returns the number of slots for each group, given the most `distinct` words that windows had so far."""
        wanted = [-(-int(SPARE * count + 1) // STEP) * STEP for count in distinct]
        return [min(count, size, 2 * positions) for count, size in zip(wanted, self.group_sizes(), strict=True)]

    def window(self, places: Int[Tensor, "B T"], keep: Bool[Tensor, "B T"], slots: list[int]) -> Window:
        """Returns the window at these places of the text; a word beyond the slots of its group becomes another one."""
        begin, end = int(self.number[BEGIN]), int(self.number[END])
        before = (places - 1).clamp(min=0)
        starts = (places == 0) | (self.forward[before] == end)
        forward = torch.where(starts, begin, self.forward[before])
        inputs = torch.stack([forward, torch.where(starts, end, self.backward[before])]).long()
        ahead, back = self.forward[places], self.backward[places]
        targets = torch.stack([ahead, torch.where(back == end, begin, back)])
        rows, groups = self._slots_of(inputs, slots)
        return Window(
            groups, rows[inputs], self.known[targets].long(), keep.expand(2, -1, -1), starts.expand(2, -1, -1)
        )

    def _slots_of(self, inputs: Int[Tensor, "2 B T"], slots: list[int]) -> tuple[Int[Tensor, " W"], list[Tensor]]:
        """Every word's row among the distinct ones, and the characters of these."""
        there = torch.zeros(len(self.number), dtype=torch.int32, device=inputs.device)
        there.index_fill_(0, inputs.flatten(), 1)
        rows, groups, filled = [], [], 0
        for marks, characters, room in zip(there.split(self.group_sizes()), self.characters, slots, strict=True):
            rank = marks.cumsum(0) - 1
            fits = (marks > 0) & (rank < room)
            words = torch.arange(len(marks), device=inputs.device)
            chosen = rank.new_zeros(room + 1, dtype=torch.long)
            chosen.scatter_(0, torch.where(fits, rank, room).long(), words)
            groups.append(characters[chosen[:room]].long())
            rows.append((rank.clamp(0, max(0, room - 1)) + filled).long())
            filled += room
        return torch.cat(rows), groups


def copy_to_device(
    ids: Ids, vocabulary: Vocabulary, max_characters: int, widest: int, device: torch.device
) -> ResidentText:
    """Copies a text to a device; `widest` is the width of the model's widest filter."""
    characters = _characters(ids.words, max_characters)
    lengths = (characters != PADDING).sum(1)
    longest = int(lengths.max())
    limits = [SHORT, longest] if longest > SHORT else [longest]
    group = np.searchsorted(limits, lengths)
    order = np.argsort(group, kind="stable")
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    groups = [
        torch.from_numpy(characters[order][group[order] == g][:, : min(max_characters, limit + widest)]).to(device)
        for g, limit in enumerate(limits)
    ]
    known = torch.from_numpy(ids.of_vocabulary(vocabulary)[order]).to(device)
    size = len(ids.tokens)
    forward, backward = (torch.empty(size, dtype=torch.int32, device=device) for _ in range(2))
    parts = [slice(start, min(size, start + AT_ONCE)) for start in range(0, size, AT_ONCE)]
    for part in parts:
        forward[part] = torch.from_numpy(number[ids.tokens[part]]).to(device)
    ends = torch.from_numpy(ids.sentence_ends).to(device)
    for part in parts:
        backward[part] = forward[_mirrored(torch.arange(part.start, part.stop, device=device), ends)]
    return ResidentText(forward, backward, known, groups, number)


def _mirrored(places: Int[Tensor, " N"], ends: Int[Tensor, " sentences"]) -> Int[Tensor, " N"]:
    """Returns what `Ids.mirrored` returns, but on the device: a CPU takes seconds for a large text."""
    sentence = torch.searchsorted(ends, places)
    end = ends[sentence]
    begin = torch.where(sentence > 0, ends[sentence - 1] + 1, 0)
    return torch.where(places == end, end, begin + end - 1 - places)


def _characters(words: list[str], max_characters: int) -> Int[np.ndarray, "W C"]:
    parts = range(0, len(words), max(1, AT_ONCE // max_characters))
    return np.concatenate(
        [encode_words(words[start : start + parts.step], max_characters).astype(np.int16) for start in parts]
    )
