"""What a network reads: static vectors from files, ELMo's places and layers, and the cache of its layers."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from tiny import CONFIG, DIM, LAYERS, tiny_model

from elmo.disk.lock import locked
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import Model, content_hash
from elmo.model.word_cnn import WordCnnConfig
from elmo.text.batching import to_batch
from elmo.text.lexicon import Lexicon
from elmo.text.vocabulary import SPECIAL, Vocabulary
from elmo_lab.tasks import vectors
from elmo_lab.tasks.cache import CacheConfig, LayerCache, open_cache
from elmo_lab.tasks.inputs import CharactersConfig, Collator, InputConfig, Inputs

SENTENCES = [["Mia", "runs"], [], ["the", "old", "gate", "closed"], ["Mia"]]
GLOVE = "the 0.5 -1 2\nmia 1 1 1\n. . 3 0 0\ngate 0 0 3\nthe 9 9 9\n"


@pytest.fixture
def embedder() -> Embedder:
    return Embedder(tiny_model().bilm(), device="cpu")


# Static vectors


def test_vectors_of_a_file(file: Callable[..., Path]) -> None:
    """A word may hold a space; the first of two lines counts; unknown words have the mean."""
    found = vectors.read(file(GLOVE, "vectors.txt"))
    assert found.words == ("the", "mia", ". .", "gate")
    rows = [[0.5, -1, 2], [1, 1, 1], [3, 0, 0], [0, 0, 3]]
    expected = [[0, 0, 0], np.mean(rows, axis=0).tolist(), *rows]
    assert torch.equal(found.table, torch.tensor(expected, dtype=torch.float32))
    assert vectors.read(file("4 3\n" + GLOVE, "vectors.txt")).words == found.words


def test_vectors_of_words_that_are_there(file: Callable[..., Path]) -> None:
    path = str(file(GLOVE, "vectors.txt"))
    made = vectors.make_vectors(InputConfig(vectors=path), [["Mia", "sleeps"]], ["GATE"])
    assert made.words == ("mia", "gate")
    assert vectors.make_vectors(InputConfig(vectors=path, lowercase=False), [["Mia", "the"]], []).words == ("the",)
    assert len(vectors.make_vectors(InputConfig(vectors=path, all_vectors=True), [["Mia"]], []).words) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2 3\nmia 1 2\n", "line 2 has 2 numbers after its word; the first line has 3"),
        ("the 1 2 3\nmia 1 2 3 -0.4e-2\n", "line 2 has 4 numbers after its word; the first line has 3"),
        ("the 1 2\nmia 1 2 3\n", "line 2 has 3 numbers after its word; the first line has 2"),
        ("the 1 2 3\nmia 1 x 3\n", "line 2: could not convert string to float: 'x'"),
        ("the 1 2 3\nmia 1 nan 3\n", "line 2 has a number that is not finite"),
        ("the\n", "line 1 is 'the'; a word and its vector"),
        ("", "no vectors in the file"),
    ],
)
def test_damaged_vectors_are_refused(file: Callable[..., Path], text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"vectors\.txt: {message}"):
        vectors.read(file(text, "vectors.txt"))


def test_no_word_has_a_vector(file: Callable[..., Path]) -> None:
    with refused("none of the 1 words"):
        vectors.make_vectors(InputConfig(vectors=str(file(GLOVE, "vectors.txt"))), [["Porto"]], [])


def test_learned_vectors_are_of_words_of_the_training_examples_that_are_not_rare() -> None:
    train = [["a", "B"], ["b", "c"], ["a"], ["b", "c"]]  # a sentence that comes again, as it does for every predicate
    made = vectors.make_vectors(InputConfig(vectors_dim=5), train, ["d", "d"])
    assert made.words == ("a", "b")
    assert made.table.shape == (4, 5)


@pytest.mark.parametrize("tuned", [False, True])
def test_vectors_that_no_file_gives_are_trained_in_any_case(tuned: bool) -> None:
    of_file = InputConfig(vectors="vectors.txt", vectors_tuned=tuned)
    for config, trained in ((InputConfig(vectors_tuned=tuned), True), (of_file, tuned)):
        assert Inputs(config, torch.randn(4, 5)).vectors.weight.requires_grad == trained


# Inputs


def inputs(embedder: Embedder, config: InputConfig) -> tuple[Inputs, Collator]:
    torch.manual_seed(3)
    made = Inputs(config, torch.randn(4, 5), CONFIG)
    if made.bilm is not None:
        made.bilm.load_state_dict(tiny_model().weights)
    return made.eval(), Collator(config, ["mia", "gate"], embedder.embed, to_batch)


def test_tokens(embedder: Embedder) -> None:
    _, collate = inputs(embedder, InputConfig(elmo="input", characters=CharactersConfig()))
    tokens = collate(SENTENCES)
    assert tokens.word_ids.tolist() == [[2, 1, 0, 0], [0, 0, 0, 0], [1, 1, 3, 1], [2, 0, 0, 0]]
    assert tokens.mask.sum(1).tolist() == tokens.lengths.tolist() == [2, 0, 4, 1]
    assert tokens.layers is not None
    for row, expected in enumerate(embedder.embed(SENTENCES)):
        found = tokens.layers[:, row].numpy()
        np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)
        assert not found[:, expected.shape[1] :].any()
    assert collate([[]]).word_ids.shape == (1, 1)


@pytest.mark.parametrize("place", ["none", "input", "output", "both"])
@pytest.mark.parametrize("tuned", [False, True])
def test_places(embedder: Embedder, place: Any, tuned: bool) -> None:
    read, collate = inputs(embedder, InputConfig(elmo=place, tuned=tuned, characters=CharactersConfig()))
    vectors_, output = read(collate(SENTENCES))
    assert read.dim == vectors_.shape[2] == 5 + 128 + (DIM if place in ("input", "both") else 0)
    assert read.output_dim == (0 if output is None else output.shape[2]) == (DIM if place in ("output", "both") else 0)
    mask = collate(SENTENCES).mask
    assert not vectors_[~mask].any()
    assert output is None or not output[~mask].any()


def test_elmo_alone(embedder: Embedder) -> None:
    """Without static vectors the network reads ELMo's, and nothing about words is learned."""
    config = InputConfig(elmo="input", static=False, vectors="nowhere.txt")
    words = vectors.make_vectors(config, [["Mia"]], ["runs"])
    read = Inputs(config, words.table, CONFIG).eval()
    tokens = Collator(config, words.words, embedder.embed, to_batch)(SENTENCES)
    found, _ = read(tokens)
    for row, expected in enumerate(embedder.embed(SENTENCES)):
        np.testing.assert_allclose(found[row, : expected.shape[1]].detach().numpy(), expected.mean(0), atol=1e-6)
    assert read.dim == found.shape[2] == DIM
    assert {name for name, p in read.named_parameters() if p.requires_grad} == {"input_mix.scalars", "input_mix.gamma"}
    with refused("inputs.static", "inputs.elmo"):
        InputConfig(static=False, elmo="output", characters=CharactersConfig(filters=()))
    assert InputConfig(static=False, characters=CharactersConfig()).elmo == "none"


@pytest.mark.parametrize(
    ("layers", "weights"), [("mix", [1 / 3] * 3), ("average", [1 / 3] * 3), ("top", [0, 0, 1]), ("types", [1, 0, 0])]
)
@pytest.mark.parametrize("tuned", [False, True])
def test_layers(embedder: Embedder, layers: str, weights: list[float], tuned: bool) -> None:
    """Frozen or tuned: gamma times the weighted layers that the embedder gives."""
    read, collate = inputs(embedder, InputConfig(elmo="output", layers=layers, tuned=tuned))  # type: ignore[arg-type]
    assert read.output_mix is not None
    with torch.no_grad():
        read.output_mix.gamma.fill_(2.0)
    output = read(collate(SENTENCES))[1]
    assert output is not None
    for row, expected in enumerate(embedder.embed(SENTENCES)):
        wanted = 2 * np.einsum("n,ntd->td", weights, expected)
        np.testing.assert_allclose(output[row, : len(wanted)].detach().numpy(), wanted, atol=1e-5)
    assert read.output_mix.scalars.requires_grad == (layers == "mix")


def test_penalty_is_that_of_both_mixes(embedder: Embedder) -> None:
    read, _ = inputs(embedder, InputConfig(elmo="both", penalty=0.5))
    assert read.input_mix is not None
    assert read.output_mix is not None
    with torch.no_grad():
        read.input_mix.scalars.copy_(torch.tensor([1.0, -2.0, 0.0]))
        read.output_mix.scalars.copy_(torch.tensor([0.0, 0.0, 3.0]))
    assert float(read.penalty().detach()) == pytest.approx(0.5 * (5 + 9))


def test_gamma_may_be_fixed(embedder: Embedder) -> None:
    read, _ = inputs(embedder, InputConfig(elmo="both", gamma="fixed"))
    fixed = {name for name, p in read.named_parameters() if not p.requires_grad}
    assert fixed >= {"input_mix.gamma", "output_mix.gamma"}


def test_layer_norm_is_of_every_token(embedder: Embedder) -> None:
    read, collate = inputs(embedder, InputConfig(elmo="output", layer_norm=True, layers="top"))
    output = read(collate([["Mia", "runs"]]))[1]
    assert output is not None
    assert output.mean(-1).abs().max() < 1e-6
    assert torch.allclose(output.square().mean(-1), torch.ones(1, 2), atol=1e-3)
    alone, beside = (read(collate(each))[1] for each in ([["Mia"]], [["Mia"], ["the", "gate"]]))
    assert torch.allclose(alone[0, 0], beside[0, 0], atol=1e-6)


# The cache


class Counting(Embedder):
    """An embedder that says what it was asked."""

    def __init__(self) -> None:
        super().__init__(tiny_model().bilm(), device="cpu")
        self.read: list[list[str]] = []

    def embed_stream(self, sentences: Iterable[Sequence[str]], *options: Any, **named: Any) -> Iterator[np.ndarray]:
        listed = [list(sentence) for sentence in sentences]
        self.read += listed
        return super().embed_stream(listed, *options, **named)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_sentence_is_read_once(tmp_path: Path, embedder: Embedder, dtype: Any, monkeypatch) -> None:
    """By the runs of a model together, across shards; what is read back is what the model gives, rounded."""
    monkeypatch.setattr("elmo_lab.tasks.cache.SHARD_BYTES", 3 * LAYERS * DIM * np.dtype(dtype).itemsize)
    counting = Counting()
    first = LayerCache(tmp_path / "layers", counting, dtype)
    told: list[tuple[int, int]] = []
    assert first.add([*SENTENCES, *SENTENCES], 10**9, lambda *done: told.append(done)) == 7
    assert told[-1] == (7, 7)
    assert len(list((tmp_path / "layers").glob("*.index.npz"))) > 1
    second = LayerCache(tmp_path / "layers", counting, dtype)  # type: ignore[arg-type]
    assert second.add(SENTENCES, 10**9) == 0
    expected = [array.astype(dtype).astype(np.float32) for array in embedder.embed(SENTENCES)]
    for found, wanted in zip(second(SENTENCES), expected, strict=True):
        # The last digit depends on what is read beside a sentence; a unit of float16 is 2e-3 of a number of 2 to 4.
        np.testing.assert_allclose(np.asarray(found, np.float32), wanted, atol=2e-3 if dtype == "float16" else 1e-6)
    assert len(counting.read) == len(SENTENCES)
    new = [["a", "new", "one"]]
    computed = second(new)[0]
    assert np.array_equal(computed, computed.astype(dtype)), "as it would be read back"
    np.testing.assert_allclose(computed, embedder.embed(new)[0], atol=2e-3 if dtype == "float16" else 1e-6)
    assert second.missing(new) == new, "what is not added is not kept"


def test_what_is_read_keeps_no_file_open(tmp_path: Path, embedder: Embedder, monkeypatch) -> None:
    """A process may open 256 files on macOS; there may be more shards."""
    monkeypatch.setattr("elmo_lab.tasks.cache.SHARD_BYTES", 1)
    layers = LayerCache(tmp_path, embedder)
    layers.add(SENTENCES, 10**9)
    before = len(list(Path("/dev/fd").iterdir()))
    read = [LayerCache(tmp_path, embedder)(SENTENCES), layers(SENTENCES)]
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert len(list(tmp_path.glob("*.index.npz"))) > 1
    assert all(np.array_equal(*each) for each in zip(*read, strict=True)), "the places of both are the same"


def test_what_is_too_much_is_refused_before_it_is_computed(tmp_path: Path) -> None:
    counting = Counting()
    layers = LayerCache(tmp_path / "layers", counting)
    needed = 7 * LAYERS * DIM * 2
    with refused(f"{needed:,}", "cache.limit", f"{needed - 1:,}"):
        layers.add(SENTENCES, needed - 1)
    assert not counting.read
    assert not (tmp_path / "layers").exists()
    assert layers.add(SENTENCES, needed) == 7


def test_cache_that_cannot_be_written_says_the_remedy(tmp_path: Path, embedder: Embedder) -> None:
    (tmp_path / "file").touch()
    with refused("cache.folder", "cache.enabled=false", "layers", error=OSError):
        LayerCache(tmp_path / "file" / "layers", embedder).add(SENTENCES, 10**9)


def test_a_broken_write_leaves_nothing(tmp_path: Path) -> None:
    class Broken(Counting):
        def embed_stream(self, *given: Any, **named: Any) -> Iterator[np.ndarray]:
            yield next(super().embed_stream(*given, **named))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        LayerCache(tmp_path, Broken()).add(SENTENCES, 10**9)
    assert not list(tmp_path.iterdir())


def test_a_shard_is_on_the_disk_before_its_index_appears(tmp_path: Path, embedder: Embedder, monkeypatch) -> None:
    """A power cut must not leave an index of layers that are not there."""
    seen: list[object] = []
    fsync, move = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(os.fstat(file).st_ino) or fsync(file))
    monkeypatch.setattr(Path, "replace", lambda path, target: seen.append(target) or move(path, target))
    LayerCache(tmp_path, embedder).add(SENTENCES, 10**9)
    (layers,), (index,) = tmp_path.glob("*.layers.npy"), tmp_path.glob("*.index.npz")
    assert seen == [layers.stat().st_ino, layers, index.stat().st_ino, index]


def test_what_another_run_added_meanwhile_is_not_computed(tmp_path: Path, embedder: Embedder) -> None:
    counting = Counting()
    layers = LayerCache(tmp_path, counting)
    LayerCache(tmp_path, embedder).add(SENTENCES[:3], 10**9)
    layers.add(SENTENCES, 10**9)
    assert not set(map(tuple, SENTENCES[:3])) & set(map(tuple, counting.read))


def test_what_another_run_added_meanwhile_counts_towards_the_limit(
    tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one adds when this one has seen an empty folder."""
    layers = LayerCache(tmp_path, embedder)

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr("elmo_lab.tasks.cache.locked", locked)
        LayerCache(tmp_path, embedder).add([["a", "new", "one"]], 10**9)
        return locked(*given, **named)

    monkeypatch.setattr("elmo_lab.tasks.cache.locked", late)
    with refused("stored", "cache.limit"):
        layers.add(SENTENCES, layers.bytes_for(SENTENCES))


@pytest.mark.parametrize("kept", [0, 20, -4])
@pytest.mark.parametrize("name", ["*.layers.npy", "*.index.npz"])
def test_damaged_shards_are_refused(tmp_path: Path, embedder: Embedder, name: str, kept: int) -> None:
    LayerCache(tmp_path, embedder).add(SENTENCES, 10**9)
    (file,) = tmp_path.glob(name)
    file.write_bytes(file.read_bytes()[:kept])
    with refused("index.npz", "remove the folder"):
        LayerCache(tmp_path, embedder)


def test_numbers_that_float16_cannot_hold(tmp_path: Path) -> None:
    class Large(Counting):
        def embed_stream(self, *given: Any, **named: Any) -> Iterator[np.ndarray]:
            yield from (np.full_like(vectors, -1e5) for vectors in super().embed_stream(*given, **named))

    layers = LayerCache(tmp_path, Large())
    with refused("float16", "cache.dtype=float32"):
        layers.add(SENTENCES, 10**9)


def test_models_have_caches_of_their_own(tmp_path: Path, embedder: Embedder) -> None:
    model, other = tiny_model(), tiny_model(seed=1)
    changed = Model(model.config, {name: w.clone() for name, w in model.weights.items()})
    assert content_hash(model) == content_hash(changed) != content_hash(other)
    next(iter(changed.weights.values())).view(-1)[0] += 1e-6
    assert content_hash(changed) != content_hash(model)
    folders = {
        open_cache(CacheConfig(str(tmp_path), dtype), content_hash(each), embedder).folder
        for dtype in ("float16", "float32")
        for each in (model, other)
    }
    assert len(folders) == 4


def test_a_hash_is_of_all_that_vectors_depend_on() -> None:
    """Besides the weights: clips, which change no weight, and the ids of words and characters."""
    model = tiny_model()
    clipped = replace(model.config, lstm=replace(model.config.lstm, cell_clip=0.5))
    assert content_hash(replace(model, config=clipped)) != content_hash(model)
    reads_words = replace(model.config, char_cnn=None, n_tokens_vocab=5)
    of_words = [Model(reads_words, {}, vocabulary=Vocabulary((*SPECIAL, *pair))) for pair in ("ab", "ba")]
    reads_both = replace(model.config, char_cnn=None, word_cnn=WordCnnConfig(char_cnn=model.config.char_cnn))
    one, other = {"<oov>": 0, "<pad>": 1}, {"<oov>": 1, "<pad>": 0}
    marks = {"<bos>": 2, "<eos>": 3, "<bow>": 4, "<eow>": 5}
    of_both = [Model(reads_both, {}, lexicon=Lexicon(*ids, 9)) for ids in ((one, one | marks), (other, one | marks))]
    of_both.append(Model(reads_both, {}, lexicon=Lexicon(one, other | marks, 9)))
    reads_forms = replace(reads_both, word_cnn=WordCnnConfig(2, 4))
    of_forms = [Model(reads_forms, {}, lexicon=Lexicon(one, None, most)) for most in (None, 9, 10)]
    assert len({content_hash(each) for each in (*of_words, *of_both, *of_forms)}) == 8


def test_sentences_of_the_same_letters_are_told_apart(tmp_path: Path, embedder: Embedder) -> None:
    layers = LayerCache(tmp_path, embedder)
    layers.add([["a b", "c"]], 10**9)
    assert layers.missing([["a", "b c"], ["a", "b", "c"]]) == [["a", "b", "c"], ["a", "b c"]]


@pytest.mark.parametrize("of_elmo", [True, False])
def test_dropout_of_elmo_and_that_of_the_other_inputs_are_two(embedder: Embedder, of_elmo: bool) -> None:
    dropout, elmo_dropout = (0.0, 0.5) if of_elmo else (0.5, 0.0)
    config = InputConfig(elmo="both", vectors_dim=5, dropout=dropout, elmo_dropout=elmo_dropout)
    read, collate = inputs(embedder, config)
    tokens = collate(SENTENCES * 20)
    own = read.dim - DIM
    plain, beside = read.eval()(tokens)
    dropped, dropped_beside = read.train()(tokens)
    assert beside is not None
    assert dropped_beside is not None
    others = [(dropped[..., :own], plain[..., :own])]
    elmo = [(dropped[..., own:], plain[..., own:]), (dropped_beside, beside)]
    for left_alone, without in others if of_elmo else elmo:
        torch.testing.assert_close(left_alone, without)
    for with_dropout, without in elmo if of_elmo else others:
        kept = with_dropout[without != 0] != 0
        assert 0.4 < kept.float().mean() < 0.6
        torch.testing.assert_close(with_dropout[with_dropout != 0], 2 * without[with_dropout != 0])
