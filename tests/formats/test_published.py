"""The table of published models is whole and honest, and what programs pass for a model leads to its files."""

import importlib.util
import re

import pytest
from places import ROOT
from refusals import refused

from elmo.formats import published

MODELS = published.published_models()
SHA256 = re.compile(r"[0-9a-f]{64}")
S3 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
ORIGINAL = "elmo_2x4096_512_2048cnn_2xhighway"

# What Flair 0.15.1 asks for by its model names, as its embeddings/legacy.py has it.
FLAIR = {
    "small": "2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway",
    "medium": "2x2048_256_2048cnn_1xhighway/elmo_2x2048_256_2048cnn_1xhighway",
    "5.5B": "2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B",
    "portuguese": "contributed/pt/elmo_pt",
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_row_says_where_it_was_read(model):
    assert model.about
    assert model.language
    assert model.citation
    assert model.address_from
    assert model.page.startswith(("https://", "http://"))
    assert bool(model.license_from) or not model.license, "a licence without its source"
    for file in model.files:
        assert file.urls
        assert all(re.match(r"https?://[^/]+/.+", url) for url in file.urls)
        assert len(set(file.urls)) == len(file.urls)
        assert file.sha256 is None or SHA256.fullmatch(file.sha256)
        assert bool(file.hash_from) == (file.sha256 is not None or file.size is not None)
        assert "/" not in file.name
    assert len({file.name for file in model.files}) == len(model.files)
    assert "/" not in model.name, "it is the name of a folder"


def test_names_are_distinct_in_any_case_and_so_are_addresses():
    names = [name.lower() for model in MODELS for name in (model.name, *model.aliases)]
    assert len(set(names)) == len(names)
    addresses = [published.normal_address(url) for m in MODELS for f in m.files for url in (*f.urls, *f.known_as)]
    shared = {address for address in addresses if addresses.count(address) > 1}
    # An address by two mirrors of one bucket, and the vocabulary of the checkpoints.
    allowed = {published.normal_address(f"{S3}/vocab-2016-09-10.txt")}
    allowed |= {
        published.normal_address(f"{S3}/{ORIGINAL[5:]}/{ORIGINAL}_{end}") for end in ("options.json", "weights.hdf5")
    }
    assert shared <= allowed


def test_models_of_every_source_are_there():
    names = {model.name for model in MODELS}
    assert {"original", "5.5B", "medium", "small", "portuguese", "pubmed", "seqvec"} <= names
    for number in range(136, 180):
        assert published.model_named(f"nlpl-{number}").layout == "ELMoForManyLangs zip"


def test_names_are_found_in_any_case_and_by_their_aliases_or_told_with_those_that_are_close():
    assert published.model_named("Original").name == "original"
    assert published.model_named("5.5b").name == "5.5B"
    assert published.model_named("large").name == "5.5B"
    assert published.find_model("no such model") is None
    with refused("'slovenian'", "embeddia-slovenian"):
        published.model_named("slovenian")
    with refused("elmo models"):
        published.model_named("xyz")


@pytest.mark.parametrize(("name", "stem"), FLAIR.items())
@pytest.mark.parametrize("end", ["_options.json", "_weights.hdf5"])
def test_addresses_that_flair_passes(name, stem, end):
    model, file = published.find_file(f"{S3}/{stem}{end}")
    assert model.name == name
    assert file.name == stem.rpartition("/")[2] + end


def test_every_way_to_write_the_default_weights():
    path = f"models/elmo/{ORIGINAL[5:]}/{ORIGINAL}_weights.hdf5"
    for address in (
        f"https://s3-us-west-2.amazonaws.com/allennlp/{path}",
        f"http://s3-us-west-2.amazonaws.com/allennlp/{path}",
        f"https://allennlp.s3.amazonaws.com/{path}",
        f"https://allennlp.s3.us-west-2.amazonaws.com/{path}?versionId=3",
        "hf://lysandre/elmo-2x4096_512_2048cnn_2xhighway/weights.hdf5",
        f"{ORIGINAL}_weights.hdf5",
    ):
        model, file = published.find_file(address)
        assert (model.name, file.name) == ("original", f"{ORIGINAL}_weights.hdf5"), address
    for address in (
        "options.json",  # too many models have one
        "https://example.org/options.json",
        f"https://s3.amazonaws.com/other/models/elmo/{ORIGINAL}_weights.hdf5",
        "hf://lysandre/elmo/weights.hdf5",
        "",
        "http://[x",
    ):
        assert published.find_file(address) is None, address


def test_table_is_strict(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "TABLE", tmp_path / "models.toml")
    row = 'name = "a"\nlanguage = "b"\nabout = "c"\nlayout = "d"\npage = "e"\ncitation = "f"\naddress_from = "g"\n'
    for more, message in (
        ("files = []\nlicence = 3", "models.toml; unknown; 'licence'"),
        ("", "missing; 'files'"),
        ('files = [{ name = "x", size = "3" }]', "files[0].size is '3'"),
    ):
        published.TABLE.write_text(f"[[collection]]\n[[collection.model]]\n{row}{more}")
        with refused(*message.split("; ")):
            published.published_models.__wrapped__()


def test_page_has_the_table():
    path = ROOT / "docs" / "models.py"
    spec = importlib.util.spec_from_file_location("models_page", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page() == script.PAGE.read_text(encoding="utf-8"), "run `make models`"
    for model in MODELS:
        assert f"| `{model.name}`" in script.page()
        assert model.address_from in script.page()
