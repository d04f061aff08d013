"""The command line, and programs that import elmo, in processes of their own, as a user runs them.

Importing torch, lightning and spaCy takes seconds, so most runs are forked from one process that has done it (the fork
server of multiprocessing) and do what `python -m elmo` does from there on. `run_fresh` starts the interpreter itself.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerProcess
from pathlib import Path

# LanceDB itself starts a thread when it is imported, which a fork would lose; pandas and others are what it imports.
PRELOADED = [
    *("elmo.pretraining.train", "elmo.embedding.job", "tensorboard.summary.writer.record_writer", "h5py"),
    *("spacy.lang.en", "pysbd", "pandas", "pyarrow.parquet", "lance_namespace"),
    *("elmo_lab.cli.cove", "elmo_lab.cli.probes", "elmo_lab.cli.report", "elmo_lab.cli.tasks"),
]
TIMEOUT = 300


class Command:
    """`elmo` with arguments, or a program, running; what it prints goes to files."""

    def __init__(self, *arguments: object, variables: dict[str, str] | None = None, program: str | None = None) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._folder = tempfile.TemporaryDirectory()
        self._printed = Path(self._folder.name)
        names = [str(argument) for argument in arguments]
        self.process: ForkServerProcess = context.Process(
            target=_run, args=(names, program, self._printed, variables or {})
        )
        self.process.start()
        self.peak = 0
        """Most memory in use, in bytes, of it or of a process that it started; known when it has ended."""

    def wait(self) -> "subprocess.CompletedProcess[str]":
        """What `subprocess.run` would return."""
        self.process.join(TIMEOUT)
        if self.process.exitcode is None:
            raise TimeoutError(f"the command did not end in {TIMEOUT} s: {self.kill().stderr}")
        return self._completed()

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        os.kill(self.process.pid or 0, signal.SIGINT)

    def kill(self) -> "subprocess.CompletedProcess[str]":
        """Ends it at once, without a chance to tidy up."""
        self.process.kill()
        self.process.join()
        return self._completed()

    def _completed(self) -> "subprocess.CompletedProcess[str]":
        files = (self._printed / name for name in ("stdout", "stderr"))
        printed = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
        done = subprocess.CompletedProcess([], self.process.exitcode or 0, *printed)
        peak = self._printed / "peak"
        self.peak = int(peak.read_text()) if peak.exists() else 0
        self._folder.cleanup()
        return done


def run(*arguments: object, variables: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs `elmo` with `arguments` to its end."""
    return Command(*arguments, variables=variables).wait()


def printed(*arguments: object) -> str:
    """Runs `elmo` with `arguments`, which must be without an error; returns what it prints."""
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_program(program: str, variables: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Runs a program in Python, which imports elmo by itself."""
    return Command(variables=variables, program=program).wait()


def run_fresh(*arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
    """The same with a new interpreter."""
    command = [sys.executable, "-m", "elmo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, **options)  # type: ignore[call-overload]


def _run(arguments: list[str], program: str | None, printed: Path, variables: dict[str, str]) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(printed / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
    os.environ.update(variables)
    if "FILE_SIZE_LIMIT" in variables:
        limit = int(variables["FILE_SIZE_LIMIT"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv = ["elmo", *arguments]
    multiprocessing.set_start_method(None, force=True)  # what a new interpreter begins with
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background

    import torch

    from elmo.cli import main

    torch.set_num_threads(1)
    try:
        if program is None:
            main(arguments)
        else:
            _execute(program)
    finally:
        peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        unit = 1 if sys.platform == "darwin" else 1024
        (printed / "peak").write_text(str(max(peaks) * unit), encoding="utf-8")


def _execute(program: str) -> None:
    """Of what the fork server has imported, elmo is forgotten: the program has what it imports itself."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "elmo"]:
        del sys.modules[name]
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
