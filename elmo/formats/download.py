"""Downloads one file: resumes with HTTP ranges, verifies it, and moves it into place atomically.

- The received part is kept beside the target as `NAME.part`, and this call or a later one continues it.
- An interrupted download continues only if the server confirms that the file is unchanged (`If-Range`), or if the
  sha256 is known.
- Addresses are tried in turn. A wrong length or hash counts as a failure of its address.
"""

import errno
import json
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse, InvalidURL
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener, getproxies

from elmo.config import load_json
from elmo.disk.files import DISK_FULL
from elmo.disk.sums import sha256_of

TIMEOUT = 60.0
"""A connection counts as broken after as many seconds without a byte."""
RETRIES = 4
"""The most failures of an address in a row without progress."""
MOST_TRIES = 100
PAUSE = 1.0
"""The seconds before the first retry without progress; they double each time."""
CHUNK = 1 << 18

Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes received and the total."""


class DownloadError(OSError):
    """No address provided the file; the message says why each failed."""


class _Failure(Exception):
    """An address failed, and trying it again is pointless."""


@dataclass(frozen=True)
class ExpectedFile:
    """What is known about the file in advance."""

    size: int | None = None
    """The size in bytes."""
    sha256: str | None = None


def download(
    urls: Sequence[str], target: Path, wanted: ExpectedFile | None = None, progress: Progress | None = None
) -> str:
    """Downloads the file to `target` and returns its sha256.

    Raises DownloadError, and OSError if writing fails; the received part is kept for the next call.
    """
    wanted = wanted or ExpectedFile()
    part = _Part(target, wanted, progress or (lambda done, total: None))
    reasons = []
    for url in urls:
        try:
            digest = _from(url, part)
        except _Failure as failure:
            reasons.append(f"{urlsplit(url).netloc}: {failure}")
            continue
        part.finish(target)
        return digest
    raise DownloadError(f"{target.name} could not be downloaded ({'; '.join(reasons) or 'no address is known'})")


def part_of(target: Path) -> Path:
    """Returns the path of the received part of a file."""
    return target.with_name(target.name + ".part")


class _Part:
    """The received part of the file, and what the server said about it."""

    def __init__(self, target: Path, wanted: ExpectedFile, progress: Progress) -> None:
        self.path = part_of(target)
        self.wanted = wanted
        self.progress = progress
        self.is_joined = True
        """Whether the bytes may come from more than one response, and so from two versions of the file."""
        self._record = target.with_name(target.name + ".part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def validator(self, url: str) -> str | None:
        """Returns the `If-Range` value with which to continue the same file: "" for none, and None to start over."""
        try:
            known = load_json(self._record)
        except (OSError, ValueError):
            known = {}
        if isinstance(known, dict) and known.get("url") == url and known.get("validator"):
            return str(known["validator"])
        return "" if self.wanted.sha256 or not self.size else None

    def begin(self, url: str, headers: HTTPMessage) -> None:
        """Starts over from the first byte, and records the server's name for this version.

        No byte of another version is left, since the process may end at any time.
        """
        self.path.unlink(missing_ok=True)
        self.is_joined = False
        etag = headers.get("ETag", "")
        validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
        self._record.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8", newline="\n")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def finish(self, target: Path) -> None:
        self.path.replace(target)
        self._record.unlink(missing_ok=True)


def _from(url: str, part: _Part) -> str:
    """Reads the whole file from one address and verifies it; retries once if a resumed file is wrong."""
    _read(url, part)
    digest = sha256_of(part.path)
    if part.is_joined and part.wanted.sha256 not in (None, digest):
        part.discard()
        _read(url, part)
        digest = sha256_of(part.path)
    if part.wanted.sha256 not in (None, digest):
        part.discard()
        raise _Failure(f"the file has sha256 {digest}, {part.wanted.sha256} is expected")
    return digest


def _read(url: str, part: _Part) -> None:
    """Reads until the file is complete, through broken connections."""
    opener, fruitless, problem = build_opener(_Redirects), 0, ""
    if part.wanted.size is not None and part.size >= part.wanted.size:
        if part.size == part.wanted.size:
            return
        part.discard()
    for _ in range(MOST_TRIES):
        before = part.size
        problem = _try(opener, url, part)
        if problem is None:
            return
        fruitless = 0 if part.size > before else fruitless + 1
        if fruitless > RETRIES:
            break
        if fruitless:
            time.sleep(PAUSE * 2 ** (fruitless - 1))
    raise _Failure(problem)


def _try(opener: OpenerDirector, url: str, part: _Part) -> str | None:
    """Makes one request; returns its problem, or None if the file is complete.

    Raises _Failure if further requests to this address are pointless.
    """
    headers = {"User-Agent": "elmo-torch", "Accept-Encoding": "identity"}
    validator = part.validator(url)
    if part.size and validator is not None:  # otherwise the response is the whole file, which replaces the part
        headers |= {"Range": f"bytes={part.size}-"} | ({"If-Range": validator} if validator else {})
    try:
        with opener.open(Request(url, headers=headers), timeout=TIMEOUT) as response:
            return _receive(response, url, part)
    except HTTPError as error:
        with error:
            return _refused(error, part)
    except (OSError, HTTPException, ValueError) as error:
        return _broken(error, part, url)


def _receive(response: HTTPResponse, url: str, part: _Part) -> str | None:
    """Writes the response to the part; returns what `_try` returns."""
    have, total = 0, response.length
    if response.status == 206:
        have = part.size
        start, total = _content_range(response.headers)
        if start != have:
            part.discard()
            return f"the server does not send bytes from {have:,} on ({response.headers.get('Content-Range')})"
        if _is_another(part.validator(url) or "", response.headers):  # some servers ignore If-Range
            part.discard()
            return "the file has changed since its first part came"
        part.is_joined = True
    expected = part.wanted.size if total is None else total
    if part.wanted.size not in (None, expected):
        raise _Failure(f"the file has {expected:,} bytes, {part.wanted.size:,} are expected")
    if have == 0:
        part.begin(url, response.headers)
    needed, free = (expected or 0) - have, shutil.disk_usage(part.path.parent).free
    if needed > free:
        said = f"{needed:,} bytes are needed, {free:,} are free; free some, or set ELMO_CACHE to another folder"
        raise OSError(errno.ENOSPC, said, str(part.path.parent))
    with part.path.open("ab" if have else "wb") as file:
        while chunk := response.read(CHUNK):
            file.write(chunk)
            have += len(chunk)
            part.progress(have, expected)
            if expected is not None and have > expected:
                raise _Failure(f"the server sends more than the expected {expected:,} bytes")
    if expected is not None and have < expected:
        return f"the connection ended after {have:,} of {expected:,} bytes"
    return None


def _refused(error: HTTPError, part: _Part) -> str | None:
    """The problem that a status other than 2xx means."""
    if error.code == 416:  # the range starts at or after the end; the file may be complete
        whole = error.headers.get("Content-Range", "") == f"bytes */{part.size}"
        if whole and part.wanted.size in (None, part.size):
            return None
        part.discard()
        return "the file's length has changed"
    said = " ".join(f"{error.code} {error.reason}".split())
    if error.code < 400:
        raise _Failure(f"the redirect is not followed: {said}")
    if error.code in (404, 410):
        raise _Failure(f"{said}: the file is no longer there")
    if error.code < 500 and error.code not in (408, 429):
        raise _Failure(said)
    return said


def _broken(error: OSError | HTTPException | ValueError, part: _Part, url: str) -> str:
    """The problem that a network failure means. Raises disk errors, which, unlike those of sockets, name a file."""
    reason: Any = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, InvalidURL) or not isinstance(error, OSError | HTTPException):
        scheme = urlsplit(url).scheme
        which = f"the proxy's in {scheme}_proxy, " if scheme in getproxies() else ""
        raise _Failure(f"an address is invalid: {which}its own or one that it redirects to ({error}); correct it")
    if isinstance(error, OSError) and error.filename is not None:
        raise error
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        free = shutil.disk_usage(part.path.parent).free
        said = f"{error.strerror} after {part.size:,} bytes, {free:,} are free; free some and pull again"
        raise OSError(error.errno, said, str(part.path)) from error
    if isinstance(reason, socket.gaierror):
        raise _Failure("no such host; it no longer exists, or this machine has no network")
    if isinstance(reason, ConnectionRefusedError):
        raise _Failure("connection refused")
    if isinstance(reason, ssl.SSLCertVerificationError):
        raise _Failure(f"its certificate is not trusted ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return f"no answer in {TIMEOUT:.0f} s"
    return " ".join(str(reason).split()) or type(reason).__name__


def _content_range(headers: HTTPMessage) -> tuple[int | None, int | None]:
    """The first byte and the total length in the response to a range request, if they are given."""
    unit, _, rest = headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    first = span.partition("-")[0]
    if unit != "bytes" or not first.isdigit():
        return None, None
    return int(first), int(total) if total.isdigit() else None


def _is_another(validator: str, headers: HTTPMessage) -> bool:
    """Whether the response names another version of the file than `validator`."""
    name = "ETag" if validator.startswith('"') else "Last-Modified"
    return bool(validator) and headers.get(name, validator) != validator


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, except from https to http and to other schemes."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise _Failure(f"it redirects to {newurl}, which is not followed from {old}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
