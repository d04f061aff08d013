"""`elmo train`: plain text -> a pretrained biLM, in one folder.

The folder holds `model/`, which `elmo.load` opens, and the record of how it was made: `train.json` (the configuration),
`corpus.json` and `vocab.txt` (what was counted), `text/` (the text as ids), `metrics.jsonl`, `tensorboard/`,
`checkpoints/`; and `sessions.json` if it was resumed with other settings.
"""

import dataclasses
import filecmp
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from elmo import config as configs
from elmo import ops
from elmo.disk.files import remove_leftovers
from elmo.disk.run import check_same, holds_run, lock_folder
from elmo.errors import InputError
from elmo.formats import Description, Model, describe, native
from elmo.formats import load as load_model
from elmo.machine import peak_memory
from elmo.pretraining.agreement import check_agreement
from elmo.pretraining.batches import LmReader, ReaderConfig, prefetch
from elmo.pretraining.counting import TEXT, count_corpus, record_session
from elmo.pretraining.division import divide_checkpoint
from elmo.pretraining.initial import begin_from, check_source, names_of
from elmo.pretraining.objective import LanguageModel, muon_shapes
from elmo.pretraining.order import MAX_CHARACTERS
from elmo.pretraining.perplexity import HeldOut, Perplexity, Policy, perplexities, sum_losses
from elmo.pretraining.replay import Replay, can_replay
from elmo.pretraining.settings import TrainConfig, check_numbers, fixed_settings, read_record
from elmo.pretraining.shares import SharedReader, check_shares
from elmo.text import corpus
from elmo.text.records import check_text
from elmo.text.vocabulary import CorpusCounts, Vocabulary
from elmo.training.checkpoint import START, load_checkpoint, newest_checkpoint
from elmo.training.distributed import Fabric, is_one_of_several, launch, leave_out, naming_lost, processes_to_start
from elmo.training.loop import Carried, Stepper, Steps, Training, check_finite, fit, seed_step, with_remedy
from elmo.training.monitor import Logger, Monitor
from elmo.training.optim import build_optimizer
from elmo.training.sharding import Shard
from elmo.training.stopping import RunStopped
from elmo.types import LmBatch, LstmState

PIECES = 8
"""Per stream and epoch of a small corpus, if its lines are short enough."""


@dataclass(frozen=True)
class RunPlan:
    """What a run will do: counted, not configured."""

    counts: CorpusCounts
    words: int
    """Positions per epoch: tokens and sentence ends."""
    words_a_step: int
    steps: int


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
        paths, heldout, source = _checked(config, resume or dry_run, source)
    except (InputError, OSError) as error:
        if not is_one_of_several():  # the others must learn of it
            raise
        problem = error
    fabric = launch(config.accelerator, devices, nodes, config.precision, config.wait_minutes)
    with naming_lost(fabric):
        texts = check_agreement(fabric, config, paths, heldout, problem)
        with nullcontext() if dry_run else _alone(fabric, config, resume):
            try:
                done = _train(fabric, config, paths, heldout, texts, source, resume, dry_run, quiet, loggers)
            except RunStopped:
                _leave_group()
                raise
    _leave_group()
    return done


def _leave_group() -> None:
    """A process that ends with its group may abort (pytorch/pytorch#190489)."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _checked(
    config: TrainConfig, may_exist: bool, source: Description | None
) -> tuple[list[Path], list[Path], Description | None]:
    """The training and held-out texts, and the model to start from, after all checks that are possible beforehand."""
    check_numbers(config)
    paths, heldout = (
        corpus.expand_patterns(config.train),
        corpus.expand_patterns(config.heldout) if config.heldout else [],
    )
    _check_files([*paths, *heldout])
    check_shares(paths, config.streams, config.shares, config.devices * config.nodes)
    _check_output(config, may_exist)
    _check_heldout(heldout, paths)
    begun = (Path(config.output) / "corpus.json").exists()
    return paths, heldout, _checked_source(config, begun, source)


def _train(
    fabric: Fabric,
    config: TrainConfig,
    paths: list[Path],
    heldout_paths: list[Path],
    texts: dict[str, str],
    source: Description | None,
    resume: bool,
    dry_run: bool,
    quiet: bool,
    loggers: Sequence[Logger],
) -> dict[str, Any]:
    """What `pretrain` does after all checks but those of the text itself."""
    folder = Path(config.output)
    checkpoint = newest_checkpoint(folder / "checkpoints")
    fingerprint = texts["train"]
    ids, (vocabulary, counts, origin) = count_corpus(
        fabric, paths, fingerprint, config, source, keep=not dry_run, quiet=quiet
    )
    plan = make_plan(config, counts)
    characters = config.model.ids_per_token
    heldout = HeldOut(heldout_paths, config.text, vocabulary, characters, config.evaluate_words)

    seed_step(config.seed, -1, 0)
    language_model = LanguageModel(config.model, len(vocabulary), config.objective, sparse=True)
    replays = _replays(fabric, config, language_model)
    language_model.sparse = not replays
    if config.init_from is not None and not (checkpoint is not None and resume):
        begin_from(language_model, vocabulary, load_model(config.init_from))
    tables = list(language_model.lm_head.parameters()) if 0 < config.objective.negatives < len(vocabulary) else []
    leave_out(language_model, tables)
    model = fabric.setup_module(language_model)
    in_parts = config.optim.sharded and tables and fabric.world_size > 1
    shards = [Shard.of(tables[0], fabric.global_rank, fabric.world_size)] if in_parts else []
    rows = [shards[0].own, *tables[1:]] if shards else language_model.lm_head.parameters()
    rate = torch.zeros((), device=fabric.device) if replays else None
    bare = build_optimizer(language_model.bilm.parameters(), config.optim, rows, muon_shapes(language_model.bilm), rate)
    optimizer: Any = fabric.setup_optimizers(bare)  # an optimizer in all but type
    reader = _reader_config(config, fabric, counts)
    state = language_model.bilm.initial_state(len(reader.own_streams))
    begin = START
    if checkpoint is not None and resume:
        tensors, begin = load_checkpoint(checkpoint, fabric, language_model, optimizer, divide_checkpoint, shards)
        if begin.step > plan.steps:
            raise InputError(
                f"{checkpoint}: is at step {begin.step:,}, but epochs and max_words give only {plan.steps:,} steps;"
                " raise them, or name another --output"
            )
        state = LstmState(*tensors)
    for remark in _remarks(plan, config) if fabric.is_global_zero else ():
        warnings.warn(remark, stacklevel=2)
    loss = partial(_loss, compiled=config.compiled)
    training = Training(fabric, model, optimizer, loss, config.loop, config.optim, config.seed, tables, shards)
    steps: Stepper
    batches = None
    if rate is not None:
        steps = Replay(
            training, language_model, rate, ids, vocabulary, reader, state, begin.position, config.deterministic
        )
    else:
        workers = 1 if config.prefetch else 0
        kind = LmReader if config.shares == 1 else SharedReader
        batches = prefetch(ids, vocabulary, reader, begin.position, workers, reader=kind)
        steps = Steps(training, batches, state)
    if dry_run:
        with nullcontext() if batches is None else closing(batches):
            return _estimate(training, steps, plan, begin.step)

    def evaluate(step: int) -> dict[str, Any]:
        measured = _measure(fabric, language_model, heldout)
        means = {f"the perplexity ({policy})": perplexity.summary()["mean"] for policy, perplexity in measured.items()}
        check_finite(language_model, means, f"after step {step}")
        if fabric.is_global_zero and (other := _other_file(folder / "model")):  # the run goes on without
            warnings.warn(f"{folder / 'model'}: not replaced, since it also holds {other!r}; move it out", stacklevel=2)
        elif fabric.is_global_zero:
            write_model(
                language_model, vocabulary, config, folder, step * plan.words_a_step, measured, origin, fingerprint
            )
        numbers: dict[str, Any] = {
            f"{policy}_{name}": perplexity.summary()[name]
            for policy, perplexity in measured.items()
            for name in ("forward", "backward", "mean")
        }
        if measured:
            numbers["measured_on"] = {"heldout": texts["heldout"], "words": measured["carry"].tokens}
        return numbers

    if begin.step == plan.steps and not fabric.broadcast(fabric.is_global_zero and _is_exported(config, plan, origin)):
        with with_remedy(folder):
            numbers = {"tokens": plan.steps * plan.words_a_step, **evaluate(plan.steps)}
        # The run now ends at this step, or measures other text; or only its model was missing.
        with Monitor(folder if fabric.is_global_zero else None, plan.steps, plan.steps, quiet) as monitor:
            if fabric.is_global_zero and not _is_recorded(folder, numbers):
                monitor.record(plan.steps, numbers)
    if fabric.is_global_zero:
        record_session(config, begin.step)  # a resumed run's changed settings, now that all checks have passed
    with nullcontext() if batches is None else closing(batches), ops.sorted_sums(config.deterministic):
        fit(training, steps, evaluate, folder, plan.steps, plan.words_a_step, begin, quiet, loggers)
    if not fabric.broadcast(fabric.is_global_zero and _is_exported(config, plan, origin)):
        raise InputError(
            f"{folder / 'model'}: is not from the last step, since other files are there; move them out, then --resume"
        )
    done = {"model": str(folder / "model"), "steps": plan.steps, "words": plan.steps * plan.words_a_step}
    return done | ({"perplexity": _perplexities(folder / "model")} if fabric.is_global_zero else {})


def _perplexities(model: Path) -> str:
    """Those in the model's card, of each state policy."""
    measured = native.describe(model).card["perplexity"]
    found = ", ".join(f"{numbers['mean']:,.1f} (state {policy})" for policy, numbers in measured.items())
    return found or "not measured: give held-out text, --heldout"


def _usable_precision(config: TrainConfig) -> Literal["32-true", "bf16-mixed"]:
    """The precision asked for, or float32 on a CPU without bfloat16 instructions, where it is several times faster."""
    problem = ops.find_support("bfloat16").problem
    if config.precision == "32-true" or _on_gpu(config) or not problem:
        return config.precision
    warnings.warn(f"precision bf16-mixed: {problem}; training with precision=32-true", stacklevel=3)
    return "32-true"


def _on_gpu(config: TrainConfig) -> bool:
    return config.accelerator != "cpu" and torch.cuda.is_available()


def _replays(fabric: Fabric, config: TrainConfig, model: LanguageModel) -> bool:
    """Whether a CUDA graph replays the steps: on one GPU."""
    alone = fabric.world_size == 1 and config.loop.accumulate == 1
    return alone and config.replayed and can_replay(model, fabric.device)


def _remarks(plan: RunPlan, config: TrainConfig) -> Iterator[str]:
    """What is said before a run that cannot become anything: too little text, or a rate that never reaches its peak."""
    if plan.words < plan.words_a_step:
        yield (
            f"the text has {plan.words:,} words and sentence ends, fewer than the {plan.words_a_step:,} of one step; a"
            " language model needs hundreds of thousands: name more files, or fine-tune a model (--init-from)"
        )
    warmup = config.optim.warmup_steps
    if plan.steps < warmup:
        yield (
            f"the learning rate rises for {warmup:,} steps, but the run has {plan.steps:,}: use fewer streams, more"
            " epochs or a smaller optim.warmup_steps"
        )


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
                _check_output(config, resume)
                remove_leftovers(Path(config.output) / "model")
            except (InputError, OSError) as error:
                problem = error
        problem = fabric.broadcast(problem)
        if problem is not None:
            raise problem
        yield


def make_plan(config: TrainConfig, counts: CorpusCounts) -> RunPlan:
    """Computes the number of steps."""
    words = counts.tokens + counts.sentences
    a_step = config.streams * config.window * config.loop.accumulate
    wanted = min(config.epochs * words, config.max_words or math.inf)
    return RunPlan(counts, words, a_step, max(1, math.ceil(wanted / a_step)))


def write_model(
    model: LanguageModel,
    vocabulary: Vocabulary,
    config: TrainConfig,
    folder: Path,
    words: int,
    measured: dict[Policy, Perplexity],
    origin: dict[str, Any] | None,
    fingerprint: str,
) -> None:
    """Writes `folder/model`, with a card that says how it was made; `origin` is from `initial.origin_of`."""
    card = {
        "made_by": "elmo train",
        "date": datetime.now(UTC).date().isoformat(),
        "words_read": _words_read(words, origin),
        "train": names_of(config.train),
        "fingerprint": fingerprint,
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        "heldout": names_of(config.heldout),
        "perplexity": {policy: perplexity.summary() for policy, perplexity in measured.items()},
    }
    if origin is not None:
        card["init_from"] = origin
    stored = Model(config.model, model.bilm.state_dict(), model.lm_head.state_dict(), vocabulary, config.text, card)
    native.save(stored, folder / "model", overwrite=True, store=config.store)


def _words_read(words: int, origin: dict[str, Any] | None) -> int:
    """Words of this text, plus what the first model has read of it if the run continues that."""
    return words + (origin["words_read"] if origin is not None and origin["continues"] else 0)


def _is_exported(config: TrainConfig, plan: RunPlan, origin: dict[str, Any] | None) -> bool:
    """Whether the folder's model is from the last step, was measured on this held-out text, and is stored so."""
    path = Path(config.output) / "model"
    before = read_record(Path(config.output) / "train.json")
    if any(getattr(before, name) != getattr(config, name) for name in ("heldout", "evaluate_words", "store")):
        return False
    if not native.recognizes(path):
        return False
    card = native.describe(path).card
    words = _words_read(plan.steps * plan.words_a_step, origin)
    return card["words_read"] == words and card["heldout"] == names_of(config.heldout)


def _is_recorded(folder: Path, numbers: dict[str, Any]) -> bool:
    """Whether the last line of `metrics.jsonl` has these numbers."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1]) if lines else {}
    return all(last.get(name) == value for name, value in configs.without_nonfinite(numbers).items())


def _loss(
    model: nn.Module, batch: LmBatch, carried: Carried, common: torch.Generator | None, compiled: bool
) -> tuple[Tensor, Carried]:
    with ops.compiled_steps(compiled):
        return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)


def _measure(fabric: Fabric, model: LanguageModel, heldout: HeldOut) -> dict[Policy, Perplexity]:
    """The full-softmax perplexities of both state policies; every process reads a part of the text."""
    if not heldout.paths:
        return {}
    sums = sum_losses(model.bilm, model.lm_head, heldout, fabric.global_rank, fabric.world_size)
    return perplexities(fabric.all_reduce(sums, reduce_op="sum"))  # type: ignore[arg-type]


def _reader_config(config: TrainConfig, fabric: Fabric, counts: CorpusCounts) -> ReaderConfig:
    return ReaderConfig(
        config.streams, config.window, config.seed, rank=fabric.global_rank, world=fabric.world_size,
        max_characters=config.model.ids_per_token, document_characters=piece_characters(counts, config.streams),
        shares=config.shares,
    )  # fmt: skip


def piece_characters(counts: CorpusCounts, streams: int) -> int:
    """How much of a document a stream gets at once, so that every stream gets several pieces per epoch.

    With fewer pieces than streams, some streams would start the text again before the rest of it is read.
    """
    if counts.characters is None:
        return MAX_CHARACTERS
    return max(1, min(MAX_CHARACTERS, counts.characters // (PIECES * streams)))


def _check_files(paths: list[Path]) -> None:
    """Refuses files of other kinds, and pipes, such as a shell's `<(command)`: they can be read only once."""
    for path in paths:
        check_text(path)
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is not a file on disk; training reads a text several times: write it to a file")


def _check_heldout(paths: list[Path], trained: list[Path]) -> None:
    """Refuses held-out text that is training text, or has no words, before hours of training.

    `file_lines` refuses other faults.
    """
    known, sizes = {path.resolve() for path in trained}, defaultdict[int, list[Path]](list)
    for path in trained:
        sizes[path.stat().st_size].append(path)
    for path in paths:
        if path.resolve() in known:
            raise InputError(f"{path}: is both training and held-out text; leave it out of one of them")
        same = next((other for other in sizes[path.stat().st_size] if filecmp.cmp(path, other, shallow=False)), None)
        if same is not None:
            raise InputError(f"{path}: is held-out text, and the same as {same}, which is trained on; leave out one")
    if paths and not sum(bool(line.strip()) for path in paths for line in corpus.file_lines(path)):  # to the last line
        raise InputError(f"{', '.join(map(str, paths))}: contains no words; give held-out text, one paragraph per line")


def _checked_source(config: TrainConfig, begun: bool, source: Description | None) -> Description | None:
    """The model that the run starts from; None if there is none, or if the run has begun and no longer needs it.

    Raises InputError for a vocabulary or model that it cannot start from.
    """
    found = None
    if config.init_from is None:
        if config.init_vocab != "keep":
            raise InputError(
                f"init_vocab is {config.init_vocab!r}, but there is no model to start from; add --init-from MODEL"
            )
    elif not begun:
        found = describe(config.init_from) if source is None else source
        check_source(found, config.init_from, config.init_vocab, config.model, config.vocab)
    if config.vocab is not None and not begun:
        Vocabulary.load(Path(config.vocab), distinct=True)
    return found


def _check_output(config: TrainConfig, may_exist: bool) -> None:
    """Refuses to overwrite a run, or to resume one with settings that must not change."""
    folder = Path(config.output)
    record = folder / "train.json"
    if not holds_run(record, besides=(TEXT,)):
        return
    checkpoint = newest_checkpoint(folder / "checkpoints")
    if checkpoint is None and native.recognizes(folder / "model"):  # a new run would replace it
        raise InputError(
            f"{config.output}: holds a model but no checkpoint to resume; start from the model: --init-from"
            f" {config.output} and another --output"
        )
    if not may_exist:
        at = f"at {checkpoint.name}" if checkpoint else "without a checkpoint"
        raise InputError(f"{config.output}: holds a run ({at}); add --resume to continue it, or name another --output")
    if other := _other_file(folder / "model"):
        raise InputError(f"{folder / 'model'}: also holds {other!r}; move it out: training replaces this folder")
    old, new = fixed_settings(read_record(record)), fixed_settings(config)
    check_same(record, old, new)


def _other_file(model: Path) -> str | None:
    """The name of something in the model's folder that is not the model's; the folder is then not replaced."""
    names = sorted(path.name for path in model.iterdir()) if model.is_dir() else []
    return next((name for name in names if name not in native.FILES), None)


def _estimate(training: Training[LmBatch], steps: Stepper, plan: RunPlan, done: int) -> dict[str, Any]:
    """Times a few real steps, at a rate of zero, and extrapolates to those after `done`, without evaluations."""
    times = []
    for step in range(4):
        began = time.perf_counter()
        float(steps.step(step, 0.0)[1])  # waits for a GPU
        times.append(time.perf_counter() - began)
    seconds = sorted(times[1:])[1] * (plan.steps - done)  # the first step allocates memory for the others
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
        "hours": round(seconds / 3600, 2),
    }
