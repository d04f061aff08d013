"""Ray with two raylets, and Spark: the same rows, whatever is killed. `make test-engines` installs both and runs this.

Everything that is killed was started here, and is known by its process id.
"""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pyarrow as pa
import pytest
from command import printed, run
from pages import blocks, read
from pyarrow import parquet
from refusals import refused
from small_corpus import write_corpus
from tiny import tiny_model, write_tiny

from elmo.embedding.corpus import Settings
from elmo.embedding.embedder import Embedder

pytestmark = pytest.mark.engines

benchmark = importlib.import_module("corpus")

ROWS, PART_ROWS = 3000, 100
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "SPARK_LOCAL_IP": "127.0.0.1"}
OPTIONS = ["--pretokenized", "--part-rows", str(PART_ROWS), "--dtype", "float16", "--batch-tokens", "256"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, text and Parquet files with two bad rows, and what one process makes of them."""
    folder = tmp_path_factory.mktemp("engines")
    write_tiny(folder / "model")
    lines = write_corpus(folder / "all.txt", documents=600).read_bytes().splitlines()[: ROWS - 2]
    (folder / "all.txt").unlink()
    lines[5:5] = [b"\xff", b"w " * 600_000]
    (folder / "a.txt").write_bytes(b"\n".join(lines[:2000]))
    parquet.write_table(pa.table({"text": pa.array(lines[2000:], pa.binary())}), folder / "b.parquet")
    printed("embed", *inputs(folder), folder / "local", "--engine", "local", "--model", folder / "model", *OPTIONS)
    return folder


@pytest.fixture(scope="module")
def cluster():
    """Two raylets of one processor each."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own
            from ray.cluster_utils import Cluster

            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
            cluster.add_node(num_cpus=1)
            yield cluster
            cluster.shutdown()


def inputs(folder):
    return [folder / "a.txt", folder / "b.parquet"]


def start(cluster, folder, *options):
    """The driver."""
    command = ["embed", *inputs(folder), folder / "ray", "--engine", "ray", "--model", folder / "model", *OPTIONS]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", *map(str, command), *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(folder):
    return sorted((folder / "ray" / "done").glob("0*.json"))


def wait(folder, parts, driver):
    """Until so many parts are done."""
    while len(done(folder)) < parts:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.02)


def kill_a_worker(folder, driver):
    """One that is writing a part: it has a temporary file open."""
    while not (writing := benchmark.writers(folder / "ray" / "vectors")):
        assert driver.poll() is None, driver.communicate()
    os.kill(writing[0], signal.SIGKILL)


def contents(output):
    """All that was written, but the lock."""
    files = [path for path in output.rglob("*") if path.is_file()]
    return {str(path.relative_to(output)): path.read_bytes() for path in files}


def test_ray_loses_a_worker_a_raylet_and_its_driver(folder, cluster):
    """In the end there is, byte for byte, what one process writes."""
    driver = start(cluster, folder)
    wait(folder, 3, driver)
    kill_a_worker(folder, driver)
    wait(folder, 8, driver)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    cluster.add_node(num_cpus=1)
    wait(folder, 14, driver)
    driver.kill()
    driver.communicate()
    assert not json.loads((folder / "ray" / "manifest.json").read_bytes())["finished"]
    time.sleep(5)  # until Ray has ended what was the driver's
    before = {path: path.stat().st_mtime_ns for path in done(folder)}
    driver = start(cluster, folder)
    printed, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert re.search(rf": {ROWS - 2:,} rows of vectors and 2 of errors, [\d,]+ tokens, 30 parts\n", printed)
    assert f"{ROWS:,} of {ROWS:,} rows" in errors
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert contents(folder / "ray") == contents(folder / "local")

    manifest = json.loads((folder / "ray" / "manifest.json").read_bytes())
    assert manifest["counts"]["rows"] == ROWS
    rows = [row for kind in ("vectors", "errors") for row in parquet.read_table(folder / "ray" / kind).to_pylist()]
    texts, tables = (str(path) for path in inputs(folder))
    expected = [f"{texts}:{row}" for row in range(2000)] + [f"{tables}:{row}" for row in range(ROWS - 2000)]
    assert sorted(row["id"] for row in rows) == sorted(expected)
    check_numbers([row for row in rows if "vectors" in row and row["tokens"] is not None], atol=2e-3)


def check_numbers(rows, atol=1e-5):
    """Against the bare Embedder."""
    vectors = Embedder(tiny_model().bilm()).embed([row["tokens"] for row in rows])
    for row, expected in zip(rows, vectors, strict=True):
        np.testing.assert_allclose(np.reshape(row["vectors"], row["shape"]), expected, atol=atol)


def test_ray_refuses_what_it_has_no_room_for_and_another_model(folder, cluster, tmp_path):
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    write_tiny(tmp_path / "other", seed=1)
    variables = {"RAY_ADDRESS": cluster.address}
    common = ["--engine", "ray", *OPTIONS]
    cluster.wait_for_nodes(timeout=60)  # the lost raylet has room until Ray has missed enough of its signs of life
    asked = run("embed", tmp_path / "a.txt", tmp_path / "out", *common, "--workers", 3, variables=variables)
    assert asked.returncode == 2
    assert "2 processors" in asked.stderr
    before = contents(folder / "local")
    other = run("embed", *inputs(folder), folder / "local", *common, "--model", tmp_path / "other", variables=variables)
    assert other.returncode == 2
    assert "sha256" in other.stderr
    assert contents(folder / "local") == before


def test_what_a_worker_raises_is_one_line(folder, cluster, tmp_path):
    """The input loses its rows between the plan and the work."""
    file = tmp_path / "a.txt"
    file.write_text("a\n" * 300, encoding="utf-8")
    (tmp_path / "run.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom elmo.cli import main\nfrom elmo.integrations import ray\n"
        "whole = ray.run_parts\n"
        "def changed(job, parts, **options):\n"
        f"    Path({str(file)!r}).write_text('a ' * 300)\n"
        "    return whole(job, parts, **options)\n"
        "ray.run_parts = changed\n"
        "main(sys.argv[1:])\n",
        encoding="utf-8",
    )
    command = [sys.executable, tmp_path / "run.py", "embed", file, tmp_path / "out", "--engine", "ray", *OPTIONS]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run(
        [*command, "--model", folder / "model"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"elmo: error: {file}: ")
    assert re.search(r"has [01] rows from row \d+ on instead of 100; it has changed", done.stderr)


RAY_DATA = """
import sys
import ray
from elmo.embedding.corpus import Settings
from elmo.integrations.ray import embed

texts = ["a play", None, "they play chess"] * 20
rows = ray.data.from_items([{"id": number, "text": text} for number, text in enumerate(texts)])
embed(rows, Settings(model=sys.argv[1], pretokenized=True), workers=2).write_parquet(sys.argv[2])
"""


def test_a_ray_dataset_gets_vectors(folder, cluster, tmp_path):
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    command = [sys.executable, "-c", RAY_DATA, folder / "model", tmp_path / "out"]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(60))
    assert {row["id"] for row in rows if row["error"] == "null"} == set(range(1, 60, 3))
    check_numbers([row for row in rows if row["error"] is None])


@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_the_programs_of_the_page_run(engine, cluster, tmp_path):
    every = blocks(read("docs/corpora.md"), "python")
    (program,) = [block for block in every if f"elmo.integrations.{engine}" in block]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def spark():
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, of pandas
        for name, value in {**ENVIRONMENT, "PYSPARK_PYTHON": sys.executable}.items():
            patch.setenv(name, value)
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        yield session
        session.stop()


@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_numbers_of_the_embedder(folder, spark):
    from elmo.integrations.spark import embed

    texts = parquet.read_table(folder / "b.parquet")["text"].to_pylist()[:400]
    texts[7] = None
    frame = spark.createDataFrame(
        [(row, None if text is None else text.decode()) for row, text in enumerate(texts)], "id int, text string"
    )
    settings = Settings(model=str(folder / "model"), pretokenized=True, batch_tokens=256)
    rows = [row.asDict() for row in embed(frame.repartition(5), settings).collect()]
    assert sorted(row["id"] for row in rows) == list(range(400))
    assert [(row["id"], row["error"]) for row in rows if row["error"]] == [(7, "null")]
    rows = [row for row in rows if row["error"] is None]
    assert all(row["tokens"] == texts[row["id"]].decode().split() for row in rows)
    check_numbers(rows)


@pytest.mark.filterwarnings("ignore")
def test_spark_refuses_what_it_does_not_have(folder, spark):
    from elmo.integrations.spark import embed

    frame = spark.createDataFrame([(1, "a")], "id int, line string")
    settings = Settings(model=str(folder / "model"), dtype="float16")
    with refused("id, line", "text"):
        embed(frame, settings)
    with refused("'float16'", "Spark"):
        embed(frame.withColumnRenamed("line", "text"), settings)
