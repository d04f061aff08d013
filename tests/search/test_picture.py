"""Pictures of a word's uses: the plane is that of the principal components, and the commands write it."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from command import run
from matplotlib import font_manager
from refusals import refusal, refused

import elmo
from elmo.search.picture import project_to_plane

TEXTS = ["They went to see the play. The play was long.", "Let us play chess. We play cards every day."]


def test_the_plane_keeps_distances_of_flat_vectors_and_is_the_same_again() -> None:
    draw = np.random.default_rng(0)
    flat = draw.normal(size=(12, 2)) @ draw.normal(size=(2, 7)) + 3
    points, parts = project_to_plane(flat)
    distances = np.linalg.norm(flat[:, None] - flat, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points, axis=-1), distances, atol=1e-9)
    assert sum(parts) == pytest.approx(1)
    np.testing.assert_array_equal(points, project_to_plane(flat)[0])
    assert project_to_plane(np.ones((3, 4)))[1] == [0, 0]


def test_plot_draws_every_use_at_each_layer_and_a_notebook_shows_it() -> None:
    figure = elmo.plot("play", TEXTS, layers=[0, 1, 2])
    assert [np.shape(axes.collections[0].get_offsets())[0] for axes in figure.axes] == [4, 4, 4]
    assert figure._repr_png_()[:4] == b"\x89PNG"  # type: ignore[attr-defined]
    with refused("chess", "two uses"):
        elmo.plot("chess", TEXTS)


def test_words_with_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    word = r"$\frac$"
    figure = elmo.plot(word, [["a", word, "b"], ["$", word, "c"]], layers=[0])
    figure.savefig(tmp_path / "uses.svg")  # with the user's own settings
    shown = [text.get_text() for text in [*figure.axes[0].texts, *figure.texts, figure._suptitle] if text]  # type: ignore[attr-defined]
    assert all(word in text for text in shown)
    assert len(shown) >= 3


STIX = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "STIXGeneral.ttf"
ONLY_IN_STIX = "\u1d8d"


def test_an_installed_font_is_used_for_characters_that_the_usual_one_lacks(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "plain.ttf").write_bytes(STIX.read_bytes())
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    entries = font_manager.fontManager.ttflist
    others = [
        font_manager.FontEntry(fname=str(tmp_path / f"{name}.ttf"), name=f"A {name} font", weight=400)
        for name in ("broken", "plain")
    ]
    usual = [entry for entry in entries if "mpl-data" in entry.fname]
    sentences = [[ONLY_IN_STIX, "one"], ["two", ONLY_IN_STIX]]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    with pytest.warns(UserWarning, match=ONLY_IN_STIX):
        without = elmo.plot(ONLY_IN_STIX, sentences, layers=[0])._repr_png_()  # type: ignore[attr-defined]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*usual, *others])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = elmo.plot(ONLY_IN_STIX, sentences, layers=[0])
        assert figure._repr_png_() != without  # type: ignore[attr-defined]


def test_commands_write_figures(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    text = ("--text", tmp_path / "text.txt", "--quiet")
    done = run("neighbors", "play", *text, "--figure", tmp_path / "play.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "play.svg").read_text(encoding="utf-8")
    for name, said in (("play.svg", "--overwrite"), ("play.gif", ".svg")):
        refusal(run("neighbors", "play", *text, "--figure", tmp_path / name), said)
    senses = run("probe", "senses", "--quiet", "--figure", tmp_path / "senses.png")
    assert senses.returncode == 0, senses.stderr
    assert (tmp_path / "senses.png").read_bytes()[:4] == b"\x89PNG"
