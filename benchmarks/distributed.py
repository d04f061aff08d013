"""Measures training by several processes: the bytes that a step sends, and words per second.

    python benchmarks/distributed.py                    # 1,024/128, 50,000 words, 64 x 20 tokens, 1, 2, 4 processes
    python benchmarks/distributed.py --size base --processes 2
    python benchmarks/distributed.py --rate 1gbit       # over a loopback device of 1 Gbit/s, which all processes share

Every row of the table is the step of `elmo train` in processes of its own, which divide the 64 streams. `rows` sends
the rows of the softmax that some process has touched, as `elmo train` does; `dense` sends all of them, as it did
before. The bytes are those that the loopback device of a network namespace counts (Linux, root), headers included: all
that the processes send, divided by their number. `scale.py` uses two more rows: in `apart`, as many processes send
nothing, each with its part of the streams; in `wire`, they only send what `rows` sends.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from train import SIZES, windows

from elmo import ops
from elmo.bench.machine import measure_limits
from elmo.model.bilm import BiLMConfig
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.pretraining.settings import SMALL
from elmo.training.distributed import launch, leave_out
from elmo.training.loop import Carried, LoopConfig, Training, seed_step, train_step
from elmo.training.optim import OptimConfig, build_optimizer
from elmo.types import LmBatch

MODELS = SIZES | {"small": SMALL}


def on_the_wire(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures the messages of a step, with made-up content."""
    fabric = launch("cpu", int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["NODES"]), "32-true")
    dense, touched = (torch.zeros(1000 * int(size)) for size in arguments.thousands)
    marks = torch.zeros(arguments.words, dtype=torch.uint8)
    times = []
    for _ in range(arguments.steps + 5):
        began = time.perf_counter()
        for part in dense.split(25 * 2**18):  # DistributedDataParallel has buckets of this size
            distributed.all_reduce(part)
        for part in (marks, touched):
            distributed.all_reduce(part)
        times.append(1000 * (time.perf_counter() - began))
    fabric.barrier()
    distributed.destroy_process_group()
    return {"times": times[5:], "milliseconds": sorted(times[5:])[arguments.steps // 2]}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the median step of this process, and the bytes that all steps sent."""
    world = int(os.environ["WORLD_SIZE"])
    fabric = launch("cpu", int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["NODES"]), "32-true")
    config: BiLMConfig = MODELS[arguments.size]
    objective = ObjectiveConfig(arguments.negatives, 0.1, 0.5)
    seed_step(1, -1, 0)
    network = LanguageModel(config, arguments.words, objective, sparse=arguments.row != "dense")
    optim = OptimConfig(warmup_steps=0, decay=0.0)
    optimizer = build_optimizer(network.bilm.parameters(), optim, network.lm_head.parameters())
    tables = list(network.lm_head.parameters()) if arguments.row == "rows" else []
    leave_out(network, tables)
    model, optimizer = fabric.setup(network, optimizer)
    words = [f"w{number:x}" for number in range(arguments.words)]
    batches = windows(words, arguments.rows, arguments.window, 8)
    parts = arguments.count if arguments.row == "apart" else world
    mine = slice(arguments.rows * fabric.global_rank // parts, arguments.rows * (fabric.global_rank + 1) // parts)
    batches = [part_of(batch, mine) for batch in batches]
    state = network.bilm.initial_state(arguments.rows // parts)
    times, sent, cpu = [], 0, 0.0

    def loss_of(model: nn.Module, batch: LmBatch, carried: Carried, common: Any) -> tuple[Tensor, Carried]:
        with ops.compiled_steps(ops.can_compile()):
            return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, carried, common)

    training = Training(fabric, model, optimizer, loss_of, LoopConfig(), optim, 1, tables)
    for step in range(arguments.steps + 5):
        if step == 5:
            fabric.barrier()
            sent, cpu = bytes_sent(), time.process_time()
        began = time.perf_counter()
        following = iter(batches[step % len(batches) :])
        _, _, state, _ = train_step(training, following, state, step)
        times.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    fabric.barrier()
    sent = bytes_sent() - sent
    middle = sorted(times[5:])[arguments.steps // 2]
    dense = sum(p.numel() for name, p in network.named_parameters() if not (tables and "lm_head" in name))
    if world > 1:
        distributed.destroy_process_group()
    return {
        "words_a_second": arguments.rows * arguments.window / middle,
        "milliseconds": 1000 * middle,
        "bytes_a_step": sent / arguments.steps / world,
        "dense": dense,
        "cpu_milliseconds": 1000 * cpu / arguments.steps,
        "times": [1000 * each for each in times[5:]],
    }


def part_of(batch: LmBatch, streams: slice) -> LmBatch:
    """Returns the streams of one process, with their words."""
    inputs = batch.inputs[:, streams]
    kept, index = inputs.unique(return_inverse=True)
    ids = batch.char_ids[kept]
    ids = torch.cat([ids, ids.new_zeros(-len(ids) % 64, ids.shape[1])])
    of_these = {name: getattr(batch, name)[:, streams] for name in ("targets", "keep", "starts")}
    return replace(batch, char_ids=ids, inputs=index, **of_these)


def bytes_sent() -> int:
    """Returns the bytes that all network devices of this namespace have sent."""
    lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines)


def started(
    arguments: argparse.Namespace, row: str, processes: int, thousands: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    """Measures a row in processes of its own, and in a network namespace of its own if the system allows it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    is_root = sys.platform == "linux" and os.geteuid() == 0
    slow = f" && tc qdisc add dev lo root tbf rate {arguments.rate} burst 256kb latency 20ms" if arguments.rate else ""
    alone = ["unshare", "--net", "sh", "-c", f'ip link set lo up{slow} && exec "$@"', "sh"] if is_root else []
    variables = os.environ | {
        "OMP_NUM_THREADS": str(arguments.threads),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    given = []
    for name in ("size", "words", "negatives", "rows", "window", "steps", "threads"):
        given += [f"--{name}", str(getattr(arguments, name))]
    given += ["--row", row, "--count", str(processes), "--port", str(port), "--thousands", *map(str, thousands)]
    inside = [sys.executable, __file__, *given]
    done = subprocess.run([*alone, *inside], env=variables, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def together(arguments: argparse.Namespace) -> None:
    """Starts the processes of a row, as torchrun does; the first prints the result."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(arguments.port), "NODES": "1"}
    many = {"WORLD_SIZE": str(arguments.count), "LOCAL_WORLD_SIZE": str(arguments.count), "TORCHELASTIC_RUN_ID": "-"}
    processes = []
    for rank in range(arguments.count):
        own = os.environ | address | many | {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
        if arguments.row == "apart":
            alone = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK")
            own |= dict(zip(alone, "1100", strict=True)) | {"MASTER_PORT": str(arguments.port + rank)}
        command = [sys.executable, __file__, *sys.argv[1:], "--process"]
        processes.append(subprocess.Popen(command, env=own, stdout=None if rank == 0 else subprocess.DEVNULL))
    sys.exit(max(process.wait() for process in processes))


def main() -> None:
    arguments = parse()
    if arguments.process:
        print(json.dumps((on_the_wire if arguments.row == "wire" else measure)(arguments)))
        return
    if arguments.row:
        together(arguments)
    if arguments.rate and (sys.platform != "linux" or os.geteuid() != 0):
        sys.exit("--rate needs a network namespace: run it on Linux as root")
    machine = measure_limits(MODELS[arguments.size].lstm)
    print(f"{machine.processor}, {os.cpu_count()} processors; size {arguments.size}, {arguments.words:,} words")
    print(f"{'processes':>9}  {'softmax':8}{'MB a step':>10}{'ms a step':>11}{'CPU ms':>8}{'words/s':>9}")
    found = []
    for turn in range(arguments.turns):
        for processes in arguments.processes:
            for row in ("dense", "rows") if processes > 1 else ("rows",):
                m = started(arguments, row, processes)
                found.append({"turn": turn, "processes": processes, "softmax": row} | m)
                columns = f"{m['bytes_a_step'] / 1e6:10.1f}{m['milliseconds']:11.0f}"
                columns += f"{m['cpu_milliseconds']:8.0f}{m['words_a_second']:9,.0f}"
                print(f"{processes:9}  {row:8}{columns}", flush=True)
    if arguments.output:
        settings = {name: value for name, value in vars(arguments).items() if name in ("size", "words", "negatives")}
        arguments.output.write_text(
            json.dumps({"settings": settings, "rows": found}, indent=1) + "\n", encoding="utf-8"
        )


def add_numbers(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say what a step is and how often it is measured."""
    parser.add_argument("--size", choices=sorted(MODELS), default="small")
    parser.add_argument("--words", type=int, default=50_000, help="of the softmax")
    parser.add_argument("--negatives", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=64, help="streams of all processes together")
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of every process")
    parser.add_argument("--rate", help="limit of the loopback device, as tc writes it (1gbit); Linux, root, iproute2")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_numbers(parser)
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    for name in ("--row", "--count", "--port"):
        parser.add_argument(name, type=str if name == "--row" else int, help=argparse.SUPPRESS)
    parser.add_argument("--thousands", type=int, nargs=2, default=[0, 0], help=argparse.SUPPRESS)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
