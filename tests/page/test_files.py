"""The files of the page, which need no browser."""

import argparse
import re
import threading
from pathlib import Path

import httpx
import pytest
from tabs import HEADERS

from elmo.cli import serving

STATIC = Path(serving.__file__).parents[1] / "server" / "static"


def test_page_and_its_files_need_no_key_but_the_rest_does(server):
    for path in ("/", *(f"/static/{file.name}" for file in STATIC.iterdir())):
        answer = httpx.get(server + path)
        assert answer.status_code == 200
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    for path in ("/info", "/static/", "/static/nothing.js"):
        assert httpx.get(server + path).status_code == 401, path


@pytest.mark.parametrize(
    "path",
    ["/static/app.py", "/static/..%2fapp.py", "/static/%2e%2e/page.py", "/static//etc/passwd"],
)
def test_no_path_opens_a_file(server, path):
    assert httpx.get(server + path, headers=HEADERS).status_code == 404


def test_page_has_no_inline_script_or_style_and_loads_nothing_from_elsewhere():
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page)
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        text = re.sub(r'<a href="https://[^"]*"', "", text)  # a link, which loads nothing
        assert not re.search(r"https?://|innerHTML|\beval\b", text), file.name


def test_explore_opens_the_browser_unless_it_may_not(monkeypatch, capsys):
    opened, done = [], threading.Event()

    def serve(config, host, port, key, started) -> None:
        assert (host, port, key) == ("127.0.0.1", 0, None)
        started("http://127.0.0.1:1")

    monkeypatch.setattr("elmo.server.run.serve", serve)
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), done.set()))
    for silent in (True, False):
        serving.explore_verb(argparse.Namespace(model="default", index=None, no_browser=silent))
        assert "http://127.0.0.1:1" in capsys.readouterr().out
        assert silent or done.wait(10)
        assert opened == ([] if silent else ["http://127.0.0.1:1"])
