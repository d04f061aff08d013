"""Output takes its place when it is whole, and what was there before is not lost on the way."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from command import run
from links import link
from refusals import refusal, refused

from elmo.disk import files
from elmo.disk.files import atomic_path, remove_leftovers
from elmo.disk.lock import LOCK, locked
from elmo.disk.run import lock_folder


def write(path: Path, text: str) -> None:
    with atomic_path(path, overwrite=True, holds=("*",)) as folder:
        folder.mkdir()
        (folder / "file").write_text(text)


def test_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "disk", "old")
    link(tmp_path / "link", tmp_path / "disk")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]


def test_writers_of_one_process_number_do_not_share_a_file(tmp_path: Path) -> None:
    """Threads have the same, and so have processes of several containers."""
    with atomic_path(tmp_path / "out") as first:
        first.write_text("first")
        with atomic_path(tmp_path / "out") as second:
            second.write_text("second, and longer")
        (tmp_path / "out").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "first"


@pytest.mark.parametrize("is_there", [True, False])
def test_what_killed_processes_left_goes_or_comes_back(tmp_path: Path, is_there) -> None:
    """Of this output only: a folder that was moved aside is the output, if there is no other."""
    write(tmp_path / ".out.12.old", "old")
    if is_there:
        write(tmp_path / "out", "new")
    others = {".out.partial", ".out.x.old", ".other.12.partial", "out.12.partial"}
    for name in (".out.12.partial", ".out.3f5e.partial", *others):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"out", *others}
    assert (tmp_path / "out" / "file").read_text() == ("new" if is_there else "old")


def test_what_was_left_a_day_ago_goes_when_its_output_is_written(tmp_path: Path, monkeypatch) -> None:
    """A folder is as old as its newest file, since another process may be writing it. One belongs to another user."""
    delete = shutil.rmtree

    def of_others(path: Path) -> None:
        if path.name == ".out.3.partial":
            raise PermissionError
        delete(path)

    monkeypatch.setattr(shutil, "rmtree", of_others)
    names = {f".out.{number}.partial" for number in range(5)} | {".out.12.old", ".other.12.partial"}
    for name in sorted(names):
        write(tmp_path / name, "left")
        for path in (tmp_path / name / "file", tmp_path / name):
            os.utime(path, (1, 1))
    (tmp_path / ".out.ab.partial").touch()
    os.utime(tmp_path / ".out.ab.partial", (1, 1))
    (tmp_path / ".out.1.partial" / "file").touch()
    (tmp_path / ".out.2.partial" / "new").touch()
    os.utime(tmp_path / ".out.2.partial", (1, 1))
    write(tmp_path / "out", "new")
    kept = {".out.1.partial", ".out.2.partial", ".out.3.partial", ".out.12.old", ".other.12.partial"}
    assert {path.name for path in tmp_path.iterdir()} == {"out", *kept}


def test_old_folder_comes_back_when_the_new_one_cannot_be_moved(tmp_path: Path, monkeypatch) -> None:
    write(tmp_path / "out", "old")
    replace = Path.replace

    def broken(path: Path, target: Path) -> Path:
        if path.suffix == ".partial":
            raise OSError("the disk is gone")
        return replace(path, target)

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())  # a system without renameat2
    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match=re.escape("the disk is gone")):
        write(tmp_path / "out", "new")
    assert (tmp_path / "out" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_moved_into_place_is_on_the_disk(tmp_path: Path, monkeypatch) -> None:
    """A power cut after the move must not find an empty file."""
    seen: list[object] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(os.fstat(file).st_ino) or fsync(file))
    monkeypatch.setattr(Path, "replace", lambda path, target: seen.append(target) or replace(path, target))
    write(tmp_path / "out", "new")
    assert seen == [(tmp_path / "out" / "file").stat().st_ino, tmp_path / "out"]


@pytest.mark.parametrize("system", ["with renameat2", "without"])
def test_of_two_that_end_together_the_first_stays(tmp_path: Path, monkeypatch, system: str) -> None:
    """The other one appears while this one is flushed to the disk, which takes as long as all the rest."""
    if system == "without":
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    fsync = os.fsync

    def slow(file: int) -> None:
        (tmp_path / "out").write_text("of the other")
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(FileExistsError, match="overwrite"), atomic_path(tmp_path / "out") as file:
        file.write_text("late")
    assert (tmp_path / "out").read_text() == "of the other"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_meanwhile_stays(tmp_path: Path, overwrite: bool) -> None:
    def late() -> None:
        with atomic_path(tmp_path / "out", overwrite, holds=("file",)) as folder:
            folder.mkdir()
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "thesis").touch()

    with pytest.raises(FileExistsError):
        late()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "thesis"]


def test_a_folder_that_takes_no_files_is_named_before_any_work(tmp_path: Path, monkeypatch) -> None:
    """The superuser may write everywhere, so the system's answer is put in."""
    link(tmp_path / "link.txt", tmp_path / "closed" / "out.txt")
    (tmp_path / "closed").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and access(path, mode))
    for name in ("closed/out.txt", "link.txt"):
        with refused((tmp_path / name).parent, "elsewhere", error=PermissionError):
            files.check_output(tmp_path / name)
    files.check_output(tmp_path / "out.txt")


@pytest.mark.parametrize("letter", ["x", "語"])
def test_a_name_that_is_too_long_is_named(tmp_path: Path, letter: str) -> None:
    """Its unfinished file has a longer one."""
    most = files.LONGEST_NAME // len(letter.encode())
    with atomic_path(tmp_path / (most * letter)) as unfinished:
        unfinished.touch()
    path = tmp_path / ((most + 1) * letter)
    with refused(path, "bytes", error=OSError):
        files.check_output(path)


def test_an_unfinished_file_is_not_named(tmp_path: Path) -> None:
    """Its name is hidden, and another at each call."""
    with refused("name an output elsewhere", error=OSError) as caught, atomic_path(tmp_path / "out.txt") as unfinished:
        (unfinished / "part").touch()
    assert caught.value.filename == str(tmp_path / "out.txt")  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
def test_a_pipe_or_a_link_to_itself_is_no_output(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    link(tmp_path / "loop.npz", "loop.npz")
    for name, match in (("pipe.npz", "pipe.npz"), ("loop.npz", "link")):
        with refused(match, error=OSError), atomic_path(tmp_path / name, overwrite=True):
            pass
        refusal(run("embed", tmp_path / "text", tmp_path / name, "--overwrite", "--resume"), match)
    assert (tmp_path / "pipe.npz").is_fifo()


@pytest.mark.parametrize(
    "arguments",
    [
        "embed text loop --engine local",
        "embed text vectors.npz --rows loop",
        "embed loop vectors.npz",
        "index text loop --overwrite",
        "text folder loop",
        "train --train loop --heldout text --output run",
        "neighbors a --text text --figure loop.svg --overwrite",
    ],
)
def test_a_link_to_itself_is_one_line(tmp_path: Path, arguments: str) -> None:
    for name in ("loop", "loop.svg"):
        link(tmp_path / name, name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a b a\n")
    (tmp_path / "text").write_text("a b a\n")
    verb, *others = arguments.split()
    names = {"loop", "loop.svg", "text", "folder", "vectors.npz", "run"}
    refusal(run(verb, *(tmp_path / other if other in names else other for other in others)), "loop")


def test_an_array_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """NumPy's error has neither the file nor the reason of the system."""
    with refused("counts.npy", "2 written", "--resume", error=OSError), files.run_file(tmp_path / "counts.npy"):
        raise OSError("9 requested and 2 written")
    assert not list(tmp_path.iterdir())


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["os.fsync", "ctypes.CDLL" if sys.platform == "linux" else "pathlib.Path.replace"])
def test_what_is_finished_is_there_until_it_is_in_its_place(tmp_path: Path, monkeypatch, step: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("new")
    (tmp_path / "made.old").mkdir()  # of the user
    with monkeypatch.context() as patch:
        patch.setattr(step, killed)
        with pytest.raises(KeyboardInterrupt):
            files.move_into_place(tmp_path / "made", tmp_path / "out")
    assert (tmp_path / "made" / "file").read_text() == "new"
    files.move_into_place(tmp_path / "made", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.old", "out"]
    assert (tmp_path / "out" / "file").read_text() == "new"


@pytest.mark.parametrize("kind", ["same", "symbolic", "hard"])
@pytest.mark.parametrize(
    "command",
    [
        "types INPUT OUTPUT --pretokenized",
        "embed INPUT vectors.npz --rows OUTPUT --pretokenized",
        "embed INPUT vectors.npz --rows OUTPUT --pretokenized --resume",
        "embed INPUT OUTPUT --kind text --pretokenized",
        "allennlp INPUT OUTPUT --all",
        "task sentences sst5 INPUT OUTPUT",
        "task sentences sst5 INPUT --output OUTPUT",
        "task predict run INPUT --output OUTPUT",
    ],
)
def test_output_never_replaces_its_own_input(tmp_path: Path, monkeypatch, command: str, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    suffix = ".txt" if command.startswith("types") else ".npz"
    text, output = tmp_path / f"text{suffix}", tmp_path / f"{'text' if kind == 'same' else 'other'}{suffix}"
    text.write_text("They play chess .\nThe play opened .\n")
    before = text.read_bytes()
    if kind == "symbolic":
        link(output, text)
    elif kind == "hard":
        output.hardlink_to(text)
    done = run(*command.replace("INPUT", text.name).replace("OUTPUT", output.name).split(), "--overwrite")
    refusal(done, "input")
    assert text.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {text.name, output.name}


def test_a_folder_is_gone_after_one_step(tmp_path: Path, monkeypatch) -> None:
    """A kill in the middle of removing it leaves nothing of its name."""
    write(tmp_path / "folder", "old")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            files.remove(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    assert all(map(files.is_unfinished, tmp_path.iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2")
def test_a_folder_is_replaced_without_a_moment_in_which_there_is_none(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    with mock.patch.object(Path, "replace", autospec=True, side_effect=Path.replace) as moved:
        write(tmp_path / "out", "new")
    assert tmp_path / "out" not in [call.args[0] for call in moved.call_args_list]
    assert (tmp_path / "out" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_run_without_a_place_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused("run", "--output", error=OSError), lock_folder(tmp_path / "file" / "run"):
        pass


def test_a_lock_is_one_and_leaves_nothing(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / LOCK) as one, locked(tmp_path / "new" / LOCK) as other:
        assert (one, other) == (True, False)
    assert not list((tmp_path / "new").iterdir())
    with locked(tmp_path / "new" / LOCK) as again:
        assert again


def test_waiting_processes_have_a_lock_one_after_another(tmp_path: Path) -> None:
    """Though each removes the file of the lock that the others wait for."""
    program = (
        "import sys; from pathlib import Path; from elmo.disk.lock import locked\n"
        f"count, lock = Path({str(tmp_path / 'count')!r}), Path({str(tmp_path / 'lock')!r})\n"
        "for _ in range(40):\n"
        "    with locked(lock, wait=True):\n"
        "        count.write_text(str(int(count.read_text()) + 1))\n"
    )
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "120"


def test_a_lock_ends_with_its_process_though_a_child_of_it_lives_on(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from elmo.disk.lock import locked\n"
        f"with locked(Path({str(tmp_path)!r}, '.lock')) as mine:\n"
        "    begun, begins = os.pipe()\n"
        "    child = os.fork()\n"
        "    if not child: os.write(begins, b'.'), time.sleep(60)\n"
        "    os.read(begun, 1)  # what a child does about the lock it can only do once it runs\n"
        "    print(child, mine, flush=True)\n"
        "    os._exit(0)\n"
    )
    done = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert done.stdout is not None
    child, mine = done.stdout.readline().split()
    done.wait()
    try:
        with locked(tmp_path / LOCK) as free:
            assert (mine, free) == ("True", True)
    finally:
        os.kill(int(child), signal.SIGKILL)
        done.stdout.close()
