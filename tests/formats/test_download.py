"""A file from a server that drops, lies, forgets and breaks is whole and right in the end, or is not there at all."""

import errno
import hashlib
import random
import shutil
import socket
from collections import namedtuple
from http.client import HTTPConnection
from pathlib import Path

import pytest
from bad_server import BadServer, Resource
from refusals import refused

from elmo.formats import download as module
from elmo.formats.download import DownloadError, ExpectedFile, download, part_of

CONTENT = random.Random(7).randbytes(1_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
RIGHT = ExpectedFile(len(CONTENT), SHA256)


@pytest.fixture
def target(tmp_path, direct) -> Path:
    return tmp_path / "weights.hdf5"


def refusal(urls, target, wanted=None) -> str:
    """The one line of the error; nothing is at the target."""
    with pytest.raises(DownloadError) as caught:
        download(urls, target, wanted)
    assert not target.exists()
    assert "\n" not in str(caught.value)
    assert caught.value.filename is None, "the command line would print the file instead"
    return str(caught.value)


def names(target: Path) -> list[str]:
    """What is in the folder of the target."""
    return [path.name for path in target.parent.iterdir()]


def ranges(server: BadServer, url: str) -> list[str | None]:
    """The range of each request."""
    return [request.get("Range") for request in server.at(url).requests]


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 1000))


@pytest.mark.parametrize("wanted", [None, ExpectedFile(len(CONTENT)), ExpectedFile(sha256=SHA256), RIGHT], ids=str)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_whole_file_arrives(server, target, wanted, chunked):
    seen = []
    digest = download([server.add("/f", CONTENT, chunked=chunked)], target, wanted, lambda *size: seen.append(size))
    assert digest == SHA256
    assert target.read_bytes() == CONTENT
    assert names(target) == [target.name]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    total = None if chunked and (wanted is None or wanted.size is None) else len(CONTENT)
    assert seen[-1] == (len(CONTENT), total)


def test_existing_file_is_replaced_only_by_a_whole_one(server, target):
    target.write_bytes(b"old")
    with pytest.raises(DownloadError):
        download([server.add("/gone", b"", failures=[404])], target)
    assert target.read_bytes() == b"old"
    for content in (CONTENT, b""):
        assert download([server.add("/f", content)], target) == hashlib.sha256(content).hexdigest()
        assert target.read_bytes() == content


# Connections that break


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({"drop_after": [300_000, 0, 400_000, 1]}, [None, 300_000, 300_000, 700_000, 700_001]),
        ({"failures": [503, 500, 429]}, [None] * 4),
        ({"drop_after": [300_000], "ranges": False}, [None, 300_000]),  # the whole file is not put behind its part
        ({"drop_after": [300_000], "wrong_range": True}, [None, 300_000, None]),
        ({"drop_after": [300_000], "etag": None}, [None, None]),  # the part may be of another file
        ({"drop_after": [300_000], "etag": 'W/"v1"'}, [None, None]),
    ],
)
def test_dropped_connections_go_on_where_they_ended_if_that_is_safe(server, target, how, asked):
    url = server.add("/f", CONTENT, **how)
    assert download([url], target) == SHA256
    assert ranges(server, url) == [None if begin is None else f"bytes={begin}-" for begin in asked]
    assert all(request["If-Range"] == '"v1"' for request in server.at(url).requests if "Range" in request)


def test_with_a_known_hash_connections_go_on_without_a_mark_of_the_version(server, target):
    url = server.add("/f", CONTENT, drop_after=[300_000, 400_000], etag=None)
    assert download([url], target, RIGHT) == SHA256
    assert ranges(server, url) == [None, "bytes=300000-", "bytes=700000-"]
    url = server.add("/g", CONTENT, drop_after=[500_000], chunked=True)
    assert download([url], target, RIGHT) == SHA256


def test_next_call_goes_on_where_the_last_one_ended(server, target):
    url = server.add("/f", CONTENT, drop_after=[600_000] + [0] * (module.RETRIES + 1))
    assert "600,000 of 1,000,000 bytes" in refusal([url], target)
    assert part_of(target).stat().st_size == 600_000
    assert download([url], target) == SHA256
    assert server.at(url).requests[-1]["Range"] == "bytes=600000-"
    assert names(target) == [target.name]


def test_a_server_that_never_goes_on_is_given_up(server, target):
    url = server.add("/f", CONTENT, drop_after=[0] * 100)
    assert "127.0.0.1" in refusal([url], target)
    assert len(server.at(url).requests) == module.RETRIES + 1
    url = server.add("/g", CONTENT, drop_after=[300_000] * 100, ranges=False)
    assert "ended after 300,000" in refusal([url], target.with_name("g"))


@pytest.mark.parametrize("checks_version", [True, False])
def test_file_that_changes_between_two_requests_is_read_anew(server, target, checks_version):
    def replaced(resource: Resource) -> None:
        if len(resource.requests) == 2:
            resource.content, resource.etag = CONTENT[::-1], '"v2"'

    url = server.add("/f", CONTENT, drop_after=[300_000], on_request=replaced, checks_version=checks_version)
    download([url], target)
    assert target.read_bytes() == CONTENT[::-1]


def test_wrong_mixture_of_two_versions_is_found_by_its_hash(server, target):
    def replaced(resource: Resource) -> None:
        if len(resource.requests) == 2:
            resource.content = CONTENT

    url = server.add("/f", CONTENT[::-1], drop_after=[300_000], etag=None, on_request=replaced)
    assert download([url], target, RIGHT) == SHA256
    assert ranges(server, url) == [None, "bytes=300000-", None]


def test_whole_part_of_an_earlier_call_is_recognised(server, target):
    part_of(target).write_bytes(CONTENT)
    url = server.add("/f", CONTENT)
    assert download([url], target, RIGHT) == SHA256
    assert server.at(url).requests == []
    part_of(target).write_bytes(CONTENT)
    assert download([url], target, ExpectedFile(sha256=SHA256)) == SHA256  # the server says 416
    assert ranges(server, url) == ["bytes=1000000-"]


@pytest.mark.parametrize(
    "junk", [CONTENT + b"more", b"x" * len(CONTENT), b"x" * 10], ids=["longer", "as long", "short"]
)
def test_part_with_other_content_is_not_kept(server, target, junk):
    part_of(target).write_bytes(junk)
    assert download([server.add("/f", CONTENT)], target, RIGHT) == SHA256


def test_damaged_record_of_a_part_means_a_new_beginning(server, target):
    part_of(target).write_bytes(CONTENT[:1000])
    for record in ("no json", "[]", '{"url": 3}'):
        target.with_name(target.name + ".part.json").write_text(record)
        url = server.add("/f", CONTENT)
        assert download([url], target) == SHA256
        assert "Range" not in server.at(url).requests[0]


# Lies


def test_length_that_is_too_large(server, target):
    """The rest never comes; that the file ends there is believed when the server says so of a range (416)."""
    url = server.add("/f", CONTENT, claimed_length=len(CONTENT) + 5)
    assert download([url], target) == SHA256
    url = server.add("/g", CONTENT, claimed_length=len(CONTENT) + 5, ranges=False)
    assert "1,000,000 of 1,000,005 bytes" in refusal([url], target.with_name("g"))


@pytest.mark.parametrize(
    ("content", "how", "wanted", "said"),
    [
        (CONTENT, {"claimed_length": len(CONTENT) - 5}, RIGHT, "999,995 bytes"),
        (CONTENT, {"claimed_length": len(CONTENT) + 5}, RIGHT, "1,000,005 bytes"),
        (CONTENT, {"claimed_length": len(CONTENT) - 5, "ranges": False}, ExpectedFile(sha256=SHA256), "has sha256"),
        (CONTENT[::-1], {}, RIGHT, f"has sha256 {hashlib.sha256(CONTENT[::-1]).hexdigest()}; {SHA256}"),
        (CONTENT * 3, {"chunked": True}, RIGHT, "1,000,000 bytes"),
    ],
    ids=["shorter", "longer", "cut", "another", "endless"],
)
def test_file_other_than_the_published_one(server, target, content, how, wanted, said):
    url = server.add("/f", content, **how)
    message = refusal([url], target, wanted)
    assert all(word in message for word in said.split("; "))
    assert len(server.at(url).requests) == 1 or "ranges" in how or "chunked" in how
    assert not part_of(target).exists() or part_of(target).stat().st_size <= len(CONTENT) + module.CHUNK
    assert "sha256" not in said or names(target) == []


# Mirrors, statuses, redirects


def test_mirrors_are_tried_in_turn(server, target, monkeypatch):
    look_up = socket.getaddrinfo

    def resolver(host: str, *arguments: object, **options: object) -> object:
        if host == "no-such-host.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    bad = [
        server.add("/gone", b"", failures=[404] * 9),
        server.add("/forbidden", b"", failures=[403] * 9),
        server.add("/broken", b"", failures=[500] * 9),
        server.add("/wrong", CONTENT[::-1]),
        "http://no-such-host.invalid/f",
    ]
    message = refusal(bad, target, RIGHT)
    for reason in ("404 Not Found: the file is no longer there", "403", "500", "has sha256", "no such host"):
        assert reason in message
    assert [len(server.at(url).requests) for url in bad[:4]] == [1, 1, module.RETRIES + 1, 1]
    last = server.add("/unasked", CONTENT)
    assert download([*bad, server.add("/f", CONTENT), last], target, RIGHT) == SHA256
    assert server.at(last).requests == []


def test_mirror_goes_on_with_the_part_of_another_where_the_hash_is_known(server, target):
    first = server.add("/f", CONTENT, drop_after=[400_000] + [0] * 9)
    second = server.add("/g", CONTENT, etag='"other"')
    assert download([first, second], target, RIGHT) == SHA256
    assert server.at(second).requests[0]["Range"] == "bytes=400000-"
    assert "If-Range" not in server.at(second).requests[0]


def test_mirror_begins_anew_where_the_hash_is_not_known(server, target):
    first = server.add("/f", CONTENT[::-1], drop_after=[400_000] + [0] * 9)
    second = server.add("/g", CONTENT, etag='"other"')
    assert download([first, second], target) == SHA256
    assert "Range" not in server.at(second).requests[0]


@pytest.mark.parametrize("failure", [404, 500])
def test_part_of_a_mirror_is_kept_while_a_dead_address_is_asked(server, target, failure):
    dead = server.add("/dead", b"", failures=[failure] * 99)
    mirror = server.add("/f", CONTENT, drop_after=[400_000] + [0] * (module.RETRIES + 1))
    refusal([dead, mirror], target)
    assert download([dead, mirror], target) == SHA256
    assert server.at(mirror).requests[-1]["Range"] == "bytes=400000-"
    assert all("Range" not in request for request in server.at(dead).requests)


def test_redirects_are_followed_with_the_range(server, target):
    end = server.add("/end", CONTENT, drop_after=[300_000])
    url = server.add("/f", b"", redirect=server.add("/next", b"", redirect=end))
    assert download([url], target, RIGHT) == SHA256
    assert ranges(server, end) == [None, "bytes=300000-"]


def test_redirect_in_a_circle_to_a_file_and_to_what_is_no_address(server, target):
    assert "302" in refusal([server.add("/f", b"", redirect="/f")], target)
    secret = target.with_name("secret")
    secret.write_bytes(CONTENT)
    for elsewhere in (secret.as_uri(), "ftp://127.0.0.1/f"):
        assert "is not followed" in refusal([server.add("/g", b"", redirect=elsewhere)], target)
    for nowhere in ("http://[::1", "http://.no/f", "http://127.0.0.1:x/f"):
        url = server.add("/h", b"", redirect=nowhere)
        assert "address is invalid: its own or one that it redirects to (" in refusal([url], target)
        assert len(server.at(url).requests) == 1


@pytest.mark.parametrize("proxy", ["http:/proxy:8080", "http://.proxy:8080", "http://proxy:port"])
def test_proxy_that_is_no_address(target, monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    assert "http_proxy" in refusal(["http://example.org/f"], target)


def test_encrypted_addresses_do_not_lead_to_plain_ones(server, target, monkeypatch):
    """For https, too, connections to the server are not encrypted here."""
    monkeypatch.setattr("http.client.HTTPSConnection", lambda host, timeout, **_: HTTPConnection(host, timeout=timeout))
    plain = server.add("/f", CONTENT)
    away = server.add("/g", b"", redirect=plain).replace("http:", "https:")
    stays = server.add("/h", b"", redirect=plain.replace("http:", "https:")).replace("http:", "https:")
    assert "https" in refusal([away], target)
    assert download([stays], target) == SHA256


def test_nobody_listens(target):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert "connection refused" in refusal([f"http://127.0.0.1:{port}/f"], target)
    assert "address" in refusal([], target)


def test_silence(target, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    monkeypatch.setattr(module, "RETRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "no answer in" in refusal([f"http://127.0.0.1:{port}/f"], target)


# The disk


def test_full_disk_is_told_and_the_part_is_kept(server, target, monkeypatch):
    url = server.add("/f", CONTENT, drop_after=[300_000] + [0] * 9)
    refusal([url], target)
    fill_disk(monkeypatch)
    url = server.add("/f", CONTENT)
    with refused("700,000", "1,000", error=OSError) as caught:
        download([url], target)
    assert caught.value.errno == errno.ENOSPC
    assert not isinstance(caught.value, DownloadError)
    assert part_of(target).stat().st_size == 300_000


def test_part_of_an_old_version_is_gone_before_anything_of_the_new_one_is_noted(server, target, monkeypatch):
    """Whatever ends the call between the two: here a full disk."""
    refusal([server.add("/f", CONTENT, drop_after=[300_000] + [0] * 9)], target)
    url, new = server.add("/f", CONTENT[::-1], etag='"v2"'), CONTENT[::-1]
    with monkeypatch.context() as full:
        fill_disk(full)
        with refused("free some", "ELMO_CACHE", error=OSError):
            download([url], target)
    download([url], target)
    assert target.read_bytes() == new


def test_wrong_file_that_always_breaks_off_is_read_twice_at_most(server, target):
    url = server.add("/f", CONTENT[::-1], drop_after=[300_000, 10**9] * 20)
    assert "is expected" in refusal([url], target, RIGHT)
    assert len(server.at(url).requests) == 4


def test_folder_that_cannot_be_written(server, target):
    with pytest.raises(FileNotFoundError):
        download([server.add("/f", CONTENT)], target.parent / "no" / "f")
