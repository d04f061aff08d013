"""Does the work of `elmo train`: pretrains a biLM on plain text, in one folder.

The folder holds `model/`, which `elmo.load` opens, and the record of how it was made: `train.json` (the configuration),
`corpus.json` and `vocab.txt` (what was counted), `text/` (the text as ids), `metrics.jsonl`, `tensorboard/`,
`checkpoints/`; and `sessions.json` if it was resumed with other settings.
"""

import dataclasses
import statistics
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from elmo import ops
from elmo.disk.files import remove_leftovers
from elmo.disk.run import lock_folder
from elmo.errors import InputError
from elmo.formats import Description
from elmo.formats import load as load_model
from elmo.machine import peak_memory
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.checks import check_agreement, check_output, check_run
from elmo.pretraining.counting import count_corpus, record_session
from elmo.pretraining.division import divide_checkpoint
from elmo.pretraining.initial import begin_from, check_source
from elmo.pretraining.objective import LanguageModel, muon_shapes
from elmo.pretraining.output import is_exported, is_recorded, other_file, perplexities_in, write_model
from elmo.pretraining.perplexity import HeldOut, Perplexity, Policy, perplexities, sum_losses
from elmo.pretraining.plan import RunPlan, make_plan, piece_characters, remarks
from elmo.pretraining.prefetch import prefetch
from elmo.pretraining.replay import Replay, can_replay
from elmo.pretraining.settings import TrainConfig
from elmo.pretraining.shares import SharedReader
from elmo.terminal import Counter
from elmo.text.vocabulary import Vocabulary
from elmo.training.checkpoint import START, RankProgress, load_checkpoint, newest_checkpoint
from elmo.training.distributed import Fabric, is_one_of_several, launch, leave_out, naming_lost, processes_to_start
from elmo.training.loop import Carried, Stepper, Steps, Training, check_finite, fit, seed_step, with_remedy
from elmo.training.monitor import Logger, Monitor
from elmo.training.optim import build_optimizer
from elmo.training.sharding import Shard
from elmo.training.stopping import RunStopped
from elmo.types import LmBatch, LstmState

REPLAYS = 10
"""The steps of a CUDA graph that `--dry-run` measures together: the CPU prepares one while the GPU makes another."""
ENOUGH = 20.0
"""The seconds after which `--dry-run` measures no further step: one of a large model takes a minute on a CPU."""


def pretrain(
    config: TrainConfig,
    resume: bool = False,
    dry_run: bool = False,
    quiet: bool = False,
    loggers: Sequence[Logger] = (),
    source: Description | None = None,
) -> dict[str, Any]:
    """Trains, or with `dry_run` estimates the cost; returns the numbers to print. `loggers` are those of `Monitor`.

    `source` describes the model `config.init_from`, if the caller has opened it.

    Raises InputError if configuration or text cannot be used, or if the output holds another run.
    """
    devices, nodes = processes_to_start(config.devices, config.nodes, config.accelerator, resume)
    config = dataclasses.replace(config, devices=devices, nodes=nodes, precision=_usable_precision(config))
    config = dataclasses.replace(config, compiled=config.compiled and not _on_gpu(config) and ops.can_compile())
    problem: InputError | OSError | None = None
    paths, heldout = [], []
    try:
        paths, heldout, source = check_run(config, resume or dry_run, source)
    except (InputError, OSError) as error:
        if not is_one_of_several():  # otherwise the other processes must learn of it
            raise
        problem = error
    fabric = launch(config.accelerator, devices, nodes, config.precision, config.wait_minutes)
    with naming_lost(fabric):
        texts = check_agreement(fabric, config, paths, heldout, problem)
        with nullcontext() if dry_run else _alone(fabric, config, resume):
            try:
                run = _prepare(fabric, config, paths, heldout, texts, source, resume, not dry_run, quiet)
                done = _estimate(run, quiet) if dry_run else _train(run, quiet, loggers)
            except RunStopped:
                _leave_group()
                raise
    _leave_group()
    return done


def _leave_group() -> None:
    """A process that ends with its group may abort (pytorch/pytorch#190489)."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@dataclass(frozen=True)
class _Run:
    """A run that is ready, with its network, its texts and its steps."""

    config: TrainConfig
    fingerprints: Mapping[str, str]
    """The fingerprints of the texts `train` and `heldout`."""
    plan: RunPlan
    vocabulary: Vocabulary
    origin: dict[str, Any] | None
    """The entry of the card on the model that the run started from."""
    language_model: LanguageModel
    training: Training[LmBatch]
    steps: Stepper
    reading: AbstractContextManager[Any]
    """Closes the process that reads the text ahead."""
    begin: RankProgress
    heldout: HeldOut

    @property
    def folder(self) -> Path:
        return Path(self.config.output)

    @property
    def writes(self) -> bool:
        """Whether this process writes the run's files."""
        return self.training.fabric.is_global_zero

    def is_exported(self) -> bool:
        """Returns whether the model of the last step is written; all processes learn it from the first."""
        words = self.plan.all_words
        return self.training.fabric.broadcast(self.writes and is_exported(self.config, words, self.origin))


def _prepare(
    fabric: Fabric,
    config: TrainConfig,
    paths: list[Path],
    heldout: list[Path],
    fingerprints: Mapping[str, str],
    source: Description | None,
    resume: bool,
    keep: bool,
    quiet: bool,
) -> _Run:
    """Counts the text, makes or resumes the network, and opens its batches.

    Raises InputError if the text cannot be used, or if the checkpoint is beyond the run's end.
    """
    checkpoint = newest_checkpoint(Path(config.output) / "checkpoints") if resume else None
    ids, counted = count_corpus(fabric, paths, fingerprints["train"], config, source, keep, quiet)
    vocabulary, counts, origin = counted
    plan = make_plan(config, counts)
    language_model = _network(fabric, config, vocabulary, None if checkpoint is not None else config.init_from)
    training, rate = _training(fabric, config, language_model)
    reader = ReaderConfig(
        config.streams, config.window, config.seed, rank=fabric.global_rank, world=fabric.world_size,
        max_characters=config.model.ids_per_token, document_characters=piece_characters(counts, config.streams),
        shares=config.shares,
    )  # fmt: skip
    state = language_model.bilm.initial_state(len(reader.own_streams))
    begin = START
    if checkpoint is not None:
        tensors, begin = load_checkpoint(
            checkpoint, fabric, language_model, training.optimizer, divide_checkpoint, list(training.shards)
        )
        if begin.step > plan.steps:
            raise InputError(
                f"{checkpoint}: is at step {begin.step:,}, but epochs and max_words give only {plan.steps:,} steps;"
                " raise them, or name another --output"
            )
        state = LstmState(*tensors)
    for remark in remarks(plan, config) if fabric.is_global_zero else ():
        warnings.warn(remark, stacklevel=2)
    reading: AbstractContextManager[Any] = nullcontext()
    if rate is not None:
        steps: Stepper = Replay(
            training, language_model, rate, ids, vocabulary, reader, state, begin.position, config.deterministic
        )
    else:
        kind = LmReader if config.shares == 1 else SharedReader
        batches = prefetch(ids, vocabulary, reader, begin.position, config.prefetch, reader=kind)
        reading, steps = closing(batches), Steps(training, batches, state)
    measured_on = HeldOut(heldout, config.text, vocabulary, config.model.ids_per_token, config.evaluate_words)
    return _Run(
        config, fingerprints, plan, vocabulary, origin, language_model, training, steps, reading, begin, measured_on
    )


def _network(fabric: Fabric, config: TrainConfig, vocabulary: Vocabulary, init_from: str | None) -> LanguageModel:
    """A new network, or one with the weights of the model `init_from`."""
    seed_step(config.seed, -1, 0)
    language_model = LanguageModel(config.model, len(vocabulary), config.objective, sparse=True)
    alone = fabric.world_size == 1 and config.loop.accumulate == 1  # a CUDA graph replays the steps of a single GPU
    language_model.sparse = not (alone and config.replayed and can_replay(language_model, fabric.device))
    if init_from is not None:
        source = load_model(init_from)
        check_source(source, init_from, config.init_vocab, config.model, config.vocab)  # it may have changed since
        begin_from(language_model, vocabulary, source)
    return language_model


def _training(
    fabric: Fabric, config: TrainConfig, language_model: LanguageModel
) -> tuple[Training[LmBatch], Tensor | None]:
    """The network and its optimizer as `fabric` sets them up, and the rate that a CUDA graph reads, if one replays."""
    words = len(language_model.lm_head.bias)
    tables = list(language_model.lm_head.parameters()) if 0 < config.objective.negatives < words else []
    leave_out(language_model, tables)
    model = fabric.setup_module(language_model)
    in_parts = config.optim.sharded and tables and fabric.world_size > 1
    shards = [Shard.of(tables[0], fabric.global_rank, fabric.world_size)] if in_parts else []
    rows = [shards[0].own, *tables[1:]] if shards else language_model.lm_head.parameters()
    rate = None if language_model.sparse else torch.zeros((), device=fabric.device)
    bare = build_optimizer(language_model.bilm.parameters(), config.optim, rows, muon_shapes(language_model.bilm), rate)
    optimizer: Any = fabric.setup_optimizers(bare)  # an optimizer in all but type
    loss = partial(_loss, compiled=config.compiled)
    return Training(fabric, model, optimizer, loss, config.loop, config.optim, config.seed, tables, shards), rate


def _train(run: _Run, quiet: bool, loggers: Sequence[Logger]) -> dict[str, Any]:
    """Trains to the last step; returns the numbers to print."""
    folder, plan, model = run.folder, run.plan, run.folder / "model"
    if run.begin.step == plan.steps and not run.is_exported():
        _write_again(run, quiet)
    if run.writes:
        record_session(run.config, run.begin.step)  # a resumed run's changed settings, now that all checks have passed
    evaluate = partial(_evaluate, run)
    with run.reading, ops.sorted_sums(run.config.deterministic):
        fit(run.training, run.steps, evaluate, folder, plan.steps, plan.words_a_step, run.begin, quiet, loggers)
    if not run.is_exported():
        raise InputError(
            f"{model}: is not from the last step, since other files are there; move them out, then --resume"
        )
    done = {"model": str(model), "steps": plan.steps, "words": plan.all_words}
    return done | ({"perplexity": perplexities_in(model)} if run.writes else {})


def _write_again(run: _Run, quiet: bool) -> None:
    """Writes the model of a finished run: it now ends at this step, measures other text, or lacks only its model."""
    steps = run.plan.steps
    with with_remedy(run.folder):
        numbers = {"tokens": run.plan.all_words, **_evaluate(run, steps)}
    with Monitor(run.folder if run.writes else None, steps, steps, quiet) as monitor:
        if run.writes and not is_recorded(run.folder, numbers):
            monitor.record(steps, numbers)


def _evaluate(run: _Run, step: int) -> dict[str, Any]:
    """Measures the model after a step, and writes it unless other files are in its folder; returns what to log.

    Raises TrainingError if a weight or a perplexity is not finite.
    """
    fabric, bilm, lm_head = run.training.fabric, run.language_model.bilm, run.language_model.lm_head
    measured: dict[Policy, Perplexity] = {}
    if run.heldout.paths:  # every process reads a part of the text
        sums = sum_losses(bilm, lm_head, run.heldout, fabric.global_rank, fabric.world_size)
        measured = perplexities(fabric.all_reduce(sums, reduce_op="sum"))  # type: ignore[arg-type]
    summaries = {policy: perplexity.summary() for policy, perplexity in measured.items()}
    means = {f"the perplexity ({policy})": summary["mean"] for policy, summary in summaries.items()}
    check_finite(run.language_model, means, f"after step {step}")
    model = run.folder / "model"
    if run.writes and (other := other_file(model)):  # the run goes on without writing the model
        warnings.warn(f"{model}: not replaced, since it also holds {other!r}; move it out", stacklevel=2)
    elif run.writes:
        words, fingerprint = step * run.plan.words_a_step, run.fingerprints["train"]
        write_model(
            run.language_model, run.vocabulary, run.config, run.folder, words, measured, run.origin, fingerprint
        )
    parts = ("forward", "backward", "mean")
    numbers: dict[str, Any] = {
        f"{policy}_{name}": summary[name] for policy, summary in summaries.items() for name in parts
    }
    if measured:
        numbers["measured_on"] = {"heldout": run.fingerprints["heldout"], "words": measured["carry"].tokens}
    return numbers


def _usable_precision(config: TrainConfig) -> Literal["32-true", "bf16-mixed"]:
    """The precision asked for, or float32 on a CPU without bfloat16 instructions, where it is several times faster."""
    problem = ops.find_support("bfloat16").problem
    if config.precision == "32-true" or _on_gpu(config) or not problem:
        return config.precision
    warnings.warn(f"precision bf16-mixed: {problem}; training with precision=32-true", stacklevel=3)
    return "32-true"


def _on_gpu(config: TrainConfig) -> bool:
    return config.accelerator != "cpu" and torch.cuda.is_available()


@contextmanager
def _alone(fabric: Fabric, config: TrainConfig, resume: bool) -> Iterator[None]:
    """Creates the run's folder and locks it for the block.

    Raises InputError, in all processes of this run, if another run uses the folder, or has since it was checked.
    """
    problem: InputError | OSError | None = None
    with ExitStack() as stack:
        if fabric.is_global_zero:
            try:
                stack.enter_context(lock_folder(Path(config.output)))
                check_output(config, resume)
                remove_leftovers(Path(config.output) / "model")
            except (InputError, OSError) as error:
                problem = error
        problem = fabric.broadcast(problem)
        if problem is not None:
            raise problem
        yield


def _loss(
    model: nn.Module, batch: LmBatch, carried: Carried, common: torch.Generator | None, compiled: bool
) -> tuple[Tensor, Carried]:
    with ops.compiled_steps(compiled):
        return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)


def _estimate(run: _Run, quiet: bool) -> dict[str, Any]:
    """Times a few real steps, at a rate of zero, and extrapolates to those after `done`, without evaluations."""
    training, plan, done = run.training, run.plan, run.begin.step
    together = 1 if isinstance(run.steps, Steps) else REPLAYS
    with run.reading, Counter("steps", quiet or not run.writes).waiting("timing a few steps"):
        _seconds_of(run.steps, 1)  # compiles, and allocates memory for the others
        times: list[float] = []
        while len(times) < 3 and training.fabric.broadcast(sum(times) < ENOUGH):
            times.append(_seconds_of(run.steps, together))
    sizes = {name: parameter.numel() for name, parameter in training.model.named_parameters()}
    softmax_size = sum(size for name, size in sizes.items() if "lm_head" in name)
    device = training.fabric.device
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()
    return {
        "parameters": sum(sizes.values()) - softmax_size,
        "softmax parameters": softmax_size,
        "words per epoch": plan.words,
        "steps": plan.steps,
        **({"steps left": plan.steps - done} if done else {}),
        "words per step": plan.words_a_step,
        "memory": f"{peak / 2**30:.1f} GiB" if peak else "unknown",
        "hours": round(statistics.median(times) * (plan.steps - done) / 3600, 2),
    }


def _seconds_of(steps: Stepper, count: int) -> float:
    """The seconds of a step, of `count`."""
    began = time.perf_counter()
    norms = [steps.step(step, 0.0)[1] for step in range(count)]
    float(norms[-1])  # reading the norm waits for a GPU
    return (time.perf_counter() - began) / count
