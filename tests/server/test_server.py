"""`elmo serve` as clients see it: a process of its own, packages that people use, and everything that goes wrong."""

import base64
import io
import re
import socket
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest
from command import run, run_program
from places import ROOT
from refusals import names, refusal, refused
from safetensors.numpy import load as load_safetensors
from served import Served, start, stop

import elmo
from elmo import formats
from elmo.cli.arguments import DEMO_TEXT
from elmo.pretraining.scoring import Scorer

TEXTS = Path(str(DEMO_TEXT)).read_text(encoding="utf-8").splitlines()[:12]
TOKENS = [text.split() for text in TEXTS]
KEY = "a-key-of-some-length"


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="module")
def server(logged) -> Iterator[Served]:
    served = start(logged)
    yield served
    stop(served)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Served]:
    """With a key and small limits."""
    log = tmp_path_factory.mktemp("guarded") / "log"
    served = start(log, "--most-sentences", "3", "--most-tokens", "50", ELMO_API_KEY=KEY)
    yield served
    stop(served)
    assert KEY not in log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def embedder() -> elmo.Embedder:
    return elmo.load(device="cpu")


def unit(vectors) -> np.ndarray:
    return np.stack(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)


def near(seen, expected, atol=1e-5) -> None:
    np.testing.assert_allclose(np.asarray(seen), expected, rtol=0, atol=atol)


def test_vectors_are_those_of_the_embedder_in_every_type(server, embedder):
    expected = embedder.embed(TOKENS)
    asked = {"sentences": [TEXTS[0], *TOKENS[1:]]}
    found = server.post("/vectors", asked).json()["sentences"]
    assert [each["tokens"] for each in found] == TOKENS
    for each, vectors in zip(found, expected, strict=True):
        near(each["vectors"], vectors)
    for kind, read in (
        ("application/x-npz", lambda data: np.load(io.BytesIO(data))),
        ("application/x-safetensors", load_safetensors),
    ):
        named = read(server.post("/vectors", asked, headers={"accept": kind}).content)
        for number, vectors in enumerate(expected):
            near(named[str(number)], vectors)
    arrow = server.post("/vectors", asked, headers={"accept": "application/vnd.apache.arrow.stream"}).content
    for row, vectors in zip(pa.ipc.open_stream(arrow).read_all().to_pylist(), expected, strict=True):
        near(np.reshape(row["vectors"], row["shape"]), vectors)


@pytest.mark.parametrize(
    ("layers", "pool"), [("average", "mean"), (0, "max"), ([0.1, 0.2, 0.7], None), ("concat", "sum")]
)
def test_layers_and_pools_are_those_of_the_embedder(server, embedder, layers, pool):
    expected = embedder.embed(TOKENS, layers, pool)
    asked = {"sentences": TOKENS, "layers": layers, "pool": pool}
    for each, vectors in zip(server.post("/vectors", asked).json()["sentences"], expected, strict=True):
        near(each["vectors"], vectors, 1e-4)
    if pool is not None:
        half = server.post("/vectors", asked | {"dtype": "float16"}, headers={"accept": "application/x-npy"}).content
        array = np.load(io.BytesIO(half))
        assert array.dtype == np.float16
        near(array, np.stack(expected), 0.02 * np.abs(expected).max())


def test_sentences_read_twice(server, embedder):
    twice = elmo.Embedder(embedder.bilm, device="cpu", state="echo").embed(TOKENS[:2], "top")
    asked = {"sentences": TOKENS[:2], "layers": "top", "state": "echo"}
    for each, vectors in zip(server.post("/vectors", asked).json()["sentences"], twice, strict=True):
        near(each["vectors"], vectors)


TWO = "He said: stop. They left!\nThen it rained ."


def test_a_text_is_split_as_the_embedder_splits_it(server, embedder):
    """Two sentences in one line, and a second line."""
    expected = embedder.embed([TWO, "They left."], "average")
    assert len(expected[0].sentences) > 1
    asked = {"sentences": [TWO, "They left."], "layers": "average"}
    for each, vectors in zip(server.post("/vectors", asked).json()["sentences"], expected, strict=True):
        assert each["tokens"] == list(vectors.tokens)
        assert each["sentence_ends"] == [end for _, end in vectors.sentences]
        near(each["vectors"], vectors)
    pooled = embedder.embed([TWO], "average", "mean")
    near(server.post("/embed", {"inputs": TWO, "normalize": False}).json(), np.stack(pooled))
    near(server.post("/embed_all", {"inputs": TWO}).json()[0], expected[0])
    near([server.post("/v1/embeddings", {"input": TWO}).json()["data"][0]["embedding"]], unit(pooled))
    pair = {"source_sentence": TWO, "sentences": [TWO]}
    near(server.post("/similarity", {"inputs": pair}).json(), [1.0])
    marks = [row["text"] for row in server.post("/tokenize", {"inputs": TWO}).json()[0]]
    assert marks.count("<S>") == marks.count("</S>") == len(expected[0].sentences)
    assert [mark for mark in marks if mark not in ("<S>", "</S>")] == list(expected[0].tokens)


def test_a_line_is_a_sentence_where_that_is_asked_for(server, embedder):
    lines = [embedder.split(line.replace(". ", " ")) for line in TWO.split("\n")]
    (each,) = server.post("/vectors", {"sentences": [TWO], "lines": True}).json()["sentences"]
    assert len(each["sentence_ends"]) == len(lines) == 2
    begin, end = [0, *each["sentence_ends"]][:2]
    near(each["vectors"][0][begin:end], embedder.embed([each["tokens"][begin:end]], 0)[0])


def test_scores_and_substitutes_are_of_the_sentence(server):
    scorer = Scorer(formats.load("default"))
    scored = server.post("/score", {"sentences": [TWO, TOKENS[0]]}).json()["sentences"]
    parts = [scored[0]["tokens"][begin:end] for begin, end in pairwise([0, *scored[0]["sentence_ends"]])]
    assert len(parts) > 1
    for whole, sentences in zip(scored, (parts, TOKENS[:1]), strict=True):
        expected = list(scorer.score(sentences))
        for name in ("forward", "backward", "known"):
            near(whole[name], np.concatenate([vars(each)[name] for each in expected]), 1e-4)
        for name in ("end", "begin"):
            near(whole[name], [vars(each)[name] for each in expected], 1e-4)
    asked = {"sentence": TWO, "position": len(parts[0]), "k": 4}
    found = server.post("/substitutes", asked).json()["substitutes"]
    assert [each["word"] for each in found] == [each.word for each in scorer.substitutes(parts[1], 0, 4)]


def test_the_client_of_openai(server, embedder):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    expected = unit(embedder.embed(TOKENS, "average", "mean"))
    for encoding in ("float", "base64"):
        found = client.embeddings.create(model="default", input=TEXTS, encoding_format=encoding)
        for each, vector in zip(found.data, expected, strict=True):
            value = each.embedding
            near(np.frombuffer(base64.b64decode(value), "<f4") if isinstance(value, str) else value, vector)
        assert found.usage.prompt_tokens == sum(map(len, TOKENS))
    assert [model.id for model in client.models.list()] == ["english-base"]
    assert client.models.retrieve("english-base").id == "english-base"
    with refused("'another'", error=openai.NotFoundError):
        client.models.retrieve("another")
    many = client.embeddings.create(model="default", input=["a"] * 2048)
    assert len(many.data) == 2048
    longer = client.embeddings.create(model="default", input=TEXTS[0], extra_body={"normalize": False})
    near(longer.data[0].embedding, embedder.embed(TOKENS[:1], "average", "mean")[0])
    with refused("input 1", error=openai.BadRequestError):
        client.embeddings.create(model="default", input=["a", ""])
    with refused("token ids", "check_embedding_ctx_length=False", error=openai.BadRequestError):
        client.embeddings.create(model="default", input=[1, 2, 3])
    with pytest.raises(openai.BadRequestError, match="dimensions is 7"):
        client.embeddings.create(model="default", input="a", dimensions=7)


def test_the_client_of_hugging_face(server, embedder):
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(base_url=server.url + "/embed")
    found = client.feature_extraction(TEXTS[0], normalize=False)
    near(found[0], embedder.embed(TOKENS[:1], "average", "mean")[0])
    found = client.feature_extraction(TEXTS[0])
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
    client = hub.InferenceClient(model=server.url)  # sends to /, as to text-embeddings-inference
    found = client.feature_extraction(TEXTS[0], truncate=True, truncation_direction="left")
    vectors = unit(embedder.embed(TOKENS[:3], "average", "mean"))
    near(found[0], vectors[0])
    near(client.sentence_similarity(TEXTS[0], TEXTS[1:3]), vectors[1:] @ vectors[0])


def test_text_embeddings_inference(server):
    info = httpx.get(server.url + "/info").json()
    assert (info["model_id"], info["elmo"]["dim"], info["elmo"]["layers"]) == ("english-base", 512, 3)
    assert info["max_concurrent_requests"] == 512
    assert httpx.get(server.url + "/health").status_code == httpx.get(server.url + "/ping").status_code == 200
    texts = {"source_sentence": TEXTS[0], "sentences": TEXTS[:2]}
    found = server.post("/similarity", {"inputs": texts, "parameters": {"truncate": True}}).json()
    nulls = {"inputs": TEXTS[0], "truncate": None}  # as its clients may write what they leave out
    assert server.post("/embed", nulls).json() == server.post("/embed", {"inputs": TEXTS[0]}).json()
    assert found[0] == pytest.approx(1)
    assert found[1] < 0.99
    (tokens,) = server.post("/tokenize", {"inputs": "A dog  barked."}).json()
    assert [token["text"] for token in tokens] == ["<S>", "A", "dog", "barked", ".", "</S>"]
    assert [token["special"] for token in tokens] == [True, False, False, False, False, True]
    assert [(token["start"], token["stop"]) for token in tokens[1:-1]] == [(0, 1), (2, 5), (7, 13), (13, 14)]
    vocabulary = formats.load("default").vocabulary
    assert vocabulary is not None
    assert [vocabulary.words[token["id"]] for token in tokens] == ["<S>", "A", "dog", "barked", ".", "</S>"]


def test_load_balancers_may_ask_with_head(server):
    for path in ("/", "/health"):
        answer = httpx.head(server.url + path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == httpx.get(server.url + path).headers["content-type"]


def test_the_commands_of_the_docs(server, tmp_path):
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    commands = re.findall(r"^curl (?:.*\\\n)*.*$", page, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        command = command.replace("localhost:8080", server.url)
        done = subprocess.run(["bash", "-c", command], capture_output=True, cwd=tmp_path, check=True)
        assert done.stdout.startswith(b"{") != (" -o " in command)
        assert b'"error"' not in done.stdout
    assert np.load(tmp_path / "vectors.npz")["0"].shape == (3, 5, 512)


ERRORS = {
    "no json": ("/vectors", b"{", 422, "not JSON"),
    "no utf-8": ("/embed", b'{"inputs": "\xff"}', 422, "not JSON in UTF-8"),
    "a string of tokens": ("/vectors", b'{"sentences": "a b"}', 422, "sentences"),
    "numbers": ("/vectors", b'{"sentences": [["a"], 1]}', 422, "sentences[1]"),
    "no token": ("/embed", b'{"inputs": ["a", null]}', 422, "inputs[1]"),
    "token ids": ("/embed", b'{"inputs": [[1, 2]]}', 422, "token ids"),
    "no inputs": ("/embed", b'{"inputs": []}', 400, "no sentences"),
    "nothing": ("/vectors", b'{"sentences": []}', 400, "no sentences"),
    "an unknown name": ("/vectors", b'{"sentences": ["a"], "path": "/etc/passwd"}', 422, "path"),
    "layers without end": ("/vectors", b'{"sentences": ["a"], "layers": [0, 0, 0, 0]}', 400, "3 layers"),
    "an unknown layer": ("/vectors", b'{"sentences": ["a"], "layers": 9}', 400, "layers is 9"),
    "an empty text": ("/embed", b'{"inputs": ["a", " "]}', 400, "input 1 is empty"),
    "no such place": ("/substitutes", b'{"sentence": "a b", "position": 7}', 400, "position is 7"),
    "no index": ("/neighbors", b'{"sentence": "a b", "position": 0}', 400, "--index FOLDER"),
    "another route": ("/embeddings", b"{}", 404, "no such route; /docs lists"),
    "a slash too many": ("/vectors/", b"{}", 404, "no such route"),
    "another method": ("/info", b"{}", 405, "send GET"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line_of_json_with_the_remedy(server, name):
    path, body, status, message = ERRORS[name]
    answer = httpx.post(server.url + path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error
    assert "\n" not in error


def test_only_a_model_that_is_missing_is_called_so(server):
    codes = [httpx.get(server.url + path).json()["error"]["code"] for path in ("/v1/models/x", "/v1/x")]
    assert codes == ["model_not_found", None]


def test_a_type_that_there_is_not(server):
    answer = server.post("/vectors", {"sentences": ["a"]}, headers={"accept": "text/csv"})
    assert (answer.status_code, "application/x-npz" in answer.json()["error"]) == (406, True)


def test_the_key_is_asked_for_everywhere_but_for_health_and_the_routes_descriptions(guarded):
    for path in ("/health", "/ping", "/docs", "/openapi.json"):
        assert httpx.get(guarded.url + path).status_code == 200
    for path in ("/embed", "/metrics", "/info", "/v1/models", "/card", "/nothing"):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": KEY}):
            answer = httpx.get(guarded.url + path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert isinstance(answer.json()["error"], dict) == path.startswith("/v1/")
    right = {"authorization": f"Bearer {KEY}"}
    for path in ("/", "/embed"):  # GET / is the page, which needs none
        assert guarded.post(path, {"inputs": "a"}).status_code == 401
        assert guarded.post(path, {"inputs": "a"}, headers=right).status_code == 200
    for scheme in ("bearer", "BEARER"):  # RFC 7235: in any case
        assert httpx.get(guarded.url + "/info", headers={"authorization": f"{scheme} {KEY}"}).status_code == 200


@pytest.mark.parametrize(
    ("sentences", "message"), [(["a"] * 4, "4 sentences; at most 3"), (["a " * 60], "more than the limit of 50 tokens")]
)
def test_more_than_the_limits(guarded, sentences, message):
    answer = guarded.post("/vectors", {"sentences": sentences}, headers={"authorization": f"Bearer {KEY}"})
    assert (answer.status_code, message in answer.json()["error"]) == (413, True)


def test_a_body_that_is_too_large_is_not_read(server):
    answer = httpx.post(server.url + "/embed", content=b" " * 5_000_000)
    assert answer.status_code == 413

    def parts() -> Iterator[bytes]:
        for _ in range(60):
            yield b" " * 100_000

    assert httpx.post(server.url + "/embed", content=parts()).status_code == 413  # of unknown length


def test_security_headers_and_no_other_origins(server):
    answer = httpx.get(server.url + "/health", headers={"origin": "http://evil.example"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_metrics_and_logs_hold_no_text(server, logged):
    server.post("/embed", {"inputs": "unmistakable"})
    metrics = httpx.get(server.url + "/metrics").text
    for name in ('requests_total{route="/embed",status="200"}', 'request_seconds_count{route="/embed"}'):
        assert f"elmo_{name} " in metrics
    for name in ("tokens_total", "batch_tokens_count", "batch_seconds_count"):
        assert re.search(rf"^elmo_{name} [1-9]", metrics, re.MULTILINE), "none is 0"
    assert "unmistakable" not in metrics + logged.read_text(encoding="utf-8")
    assert re.search(r"POST /embed 200 [\d.]+ ms", logged.read_text(encoding="utf-8"))


@pytest.mark.parametrize("verb", ["serve", "explore"])
def test_without_the_extra_the_error_has_the_pip_line(verb):
    """As after `pip install elmo-torch` alone."""
    missing = dict.fromkeys(("msgspec", "orjson", "prometheus_client", "starlette", "uvicorn"))
    done = run_program(f"import sys\nsys.modules |= {missing}\nfrom elmo.cli import main\nmain([{verb!r}])")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    names(done.stderr.splitlines()[-1], "pip install", "[serve]")


def test_what_cannot_be_served_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for flags, message in (
            (["--port", port], "Address already in use"),
            (["--host", "0.0.0.0"], "ELMO_API_KEY"),
            (["--model", str(tmp_path)], "not a known model"),
            (["--layers", "9", "--port", "0"], "layers is 9"),
            (["--layers", "all", "--port", "0"], "concat"),
            (["--no-auth", "--api-key-file", "key", "--port", "0"], "--api-key-file"),
            (["--most-tokens", "0"], "--most-tokens is 0"),
            (["--drain", "0"], "--drain is 0"),
            (["--port", "99999"], "--port is 99999"),
            (["--port", "-1"], "--port is -1"),
            (["--device", "abacus", "--port", "0"], "device is 'abacus'"),
            (["--device", "cuda:99", "--port", "0"], "device is 'cuda:99'"),
        ):
            refusal(run("serve", *flags), message)


@pytest.mark.parametrize(
    "key", [b"a-key-of-sch\xc3\xb6nberg", b"a-key\xff\xfe", b"\xef\xbb\xbfa-key", b"a\nkey", b" \n"]
)
def test_a_key_that_no_client_can_send_is_one_line(tmp_path, key):
    (tmp_path / "key").write_bytes(key)
    done = run("serve", "--port", "0", "--api-key-file", tmp_path / "key")
    refusal(done, tmp_path / "key", "not printable ASCII" if key.strip() else "empty")


def test_a_page_of_another_site_cannot_ask_by_a_name_of_its_own(server, guarded):
    for name in "evil.example", "evil.example:8080", "localhost.evil.example", "":
        answer = httpx.get(f"{server.url}/info", headers={"host": name})
        assert answer.status_code in (400, 421), name
        assert name == "" or "--no-auth" in answer.json()["error"]
    for name in "localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]", "[::1]:8080":
        assert httpx.get(f"{server.url}/info", headers={"host": name}).status_code == 200, name
    key = {"authorization": f"Bearer {KEY}"}
    assert httpx.get(f"{guarded.url}/info", headers={"host": "elmo.example", **key}).status_code == 200
