"""Replays training steps with a CUDA graph: only the places in the text and the rate change from step to step.

Forward and backward pass, clipping and the optimizer are captured once (`elmo.ops.captured`), with the text of the
window looked up on the GPU (`elmo.pretraining.resident`).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from elmo import ops
from elmo.errors import Failure, lack_of_memory
from elmo.pretraining.batches import LmReader, Places, ReaderConfig
from elmo.pretraining.ids import Ids
from elmo.pretraining.objective import LanguageModel
from elmo.pretraining.resident import copy_to_device
from elmo.pretraining.shares import SharedReader
from elmo.text.vocabulary import Vocabulary
from elmo.training.loop import Carried, Training, TrainingError, seed_step
from elmo.types import LmBatch, LstmState

ROOM = "room"
"""The name, in a position, of the numbers of distinct words and of slots for them."""


def can_replay(model: LanguageModel, device: torch.device) -> bool:
    """Returns whether the kernels of a captured step work here for such a network."""
    sampled = 0 < model.objective.negatives < len(model.lm_head.bias)
    fits = not sampled or model.objective.negatives <= ops.WIDEST_ROW
    return fits and ops.has_kernels(torch.zeros(1, device=device))


class Replay:
    """A `Stepper` for one process.

    A window with more distinct words than there is room for is noticed before it is trained on: the step is captured
    anew with more room, which takes a second. `distinct` says how many there were.
    """

    def __init__(
        self,
        training: Training[LmBatch],
        model: LanguageModel,
        rate: Tensor,
        ids: Ids,
        vocabulary: Vocabulary,
        reader: ReaderConfig,
        carried: LstmState,
        position: dict[str, Any] | None,
        deterministic: bool = False,
    ) -> None:
        self._training, self._model, self._rate, self._deterministic = training, model, rate, deterministic
        for group in training.optimizer.param_groups:
            group["lr"] = rate  # loading a checkpoint has copied it
        device = rate.device
        encoder: Any = model.bilm.token_encoder
        self._ids = ids
        self._reader = (LmReader if reader.shares == 1 else SharedReader)(ids, vocabulary, reader, position)
        self._text = copy_to_device(ids, vocabulary, reader.max_characters, encoder.config.widest, device)
        shape = len(reader.own_streams), reader.window
        self._places = torch.zeros(shape, dtype=torch.long, device=device)
        self._keep = torch.zeros(shape, dtype=torch.bool, device=device)
        self.carried: Carried = LstmState(*(part.to(device).clone() for part in carried))
        self._loss, self._norm = torch.zeros((), device=device), torch.zeros((), device=device)
        self._number = torch.zeros((), dtype=torch.long, device=device)
        self._failed = torch.full((), -1, dtype=torch.long, device=device)
        self.distinct = [0] * len(self._text.characters)
        """The most distinct words of a window so far, for each group of words."""
        self.slots: list[int] = []
        """The numbers of slots for them. A resumed run has those of the run before: others would change last bits."""
        room = (position or {}).get(ROOM, {"distinct": [], "slots": []})
        if len(room["distinct"]) == len(room["slots"]) == len(self.distinct):
            self.distinct, self.slots = room["distinct"], room["slots"]
        self._replay: ops.Launch | None = None

    def step(self, number: int, rate: float) -> tuple[Tensor, Tensor]:
        """Makes a step, as `Stepper` describes; returns before the GPU has done it."""
        window = self._reader.places()
        found = self._text.distinct(self._ids.windows(window.places).inputs)
        self.distinct = [max(pair) for pair in zip(self.distinct, found, strict=True)]
        fits = all(count <= room for count, room in zip(found, self.slots, strict=False))
        if not fits or not self.slots:
            self._replay = None  # frees the memory of the graph; a capture takes as much work as two steps
            self.slots = self._text.slots(self.distinct, self._places.numel())
        self._fill(window, number, rate)
        if self._replay is None:
            self._replay = self._captured()
        seed_step(self._training.seed, number, self._training.fabric.global_rank)
        self._replay()
        return self._loss.clone(), self._norm.clone()

    def check(self) -> None:
        """Checks the steps, as `Stepper` describes; waits for the GPU."""
        failed = int(self._failed)
        if failed >= 0:
            raise TrainingError(f"step {failed + 1}: the loss or a gradient is not finite")

    def position(self) -> dict[str, Any]:
        """Returns the position, as `Stepper` describes."""
        return self._reader.position() | {ROOM: {"distinct": self.distinct, "slots": self.slots}}

    def _fill(self, window: Places, number: int, rate: float) -> None:
        """Sends what a step depends on, in order with the steps before it."""
        for target, source in ((self._places, window.places), (self._keep, window.keep)):
            tensor = torch.from_numpy(source)
            # torch keeps pinned memory until it has been copied, so the CPU does not wait.
            target.copy_(tensor.pin_memory() if target.is_cuda else tensor, non_blocking=True)
        self._rate.fill_(rate)
        self._number.fill_(number)

    def _captured(self) -> ops.Launch:
        try:
            return ops.capture(self._whole, self._rate.device, self._state)
        except RuntimeError as error:
            if lack_of_memory(error):
                raise
            reason = str(error).strip().partition("\n")[0]
            raise Failure(f"a CUDA graph cannot repeat the step ({reason}); go on with replayed=false") from error

    def _state(self) -> Iterator[Tensor]:
        """All tensors that a step changes, without those that `_fill` sets."""
        yield from self._model.parameters()
        for values in self._training.optimizer.state.values():
            yield from (value for value in values.values() if isinstance(value, Tensor))
        yield from (*self.carried, self._loss, self._norm, self._failed)

    def _whole(self) -> None:
        """Makes one step, as `elmo.training.loop.train_step` does."""
        training, model = self._training, self._model
        with ops.sorted_sums(self._deterministic):
            window = self._text.window(self._places, self._keep, self.slots)
            with training.fabric.autocast():
                loss, after = model(*window, LstmState(*self.carried))
            loss.backward()
            gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            norm = nn.utils.get_total_norm(gradients)
            if limit := training.optim.clip_norm:
                nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
            training.optimizer.step()
        del gradients
        for parameter in model.parameters():  # before a capture there may be none: they belong to the graph
            parameter.grad = None
        failed = ~(torch.isfinite(loss) & torch.isfinite(norm)) & (self._failed < 0)
        self._failed.copy_(torch.where(failed, self._number, self._failed))
        for target, source in zip((*self.carried, self._loss, self._norm), (*after, loss, norm), strict=True):
            target.copy_(source.detach())
