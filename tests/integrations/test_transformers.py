"""`elmo.integrations.transformers` in transformers' own auto classes, pipelines, collators and trainer."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
import transformers
from datasets import Dataset
from refusals import refused
from safetensors.torch import load_file, save_file
from tiny import CONFIG, DIM, LAYERS, tiny_model
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

import elmo.integrations.transformers  # noqa: F401  (registers the classes)
from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import Model, native
from elmo.integrations.transformers import ElmoConfig, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.word_cnn import WordCnnConfig
from elmo.text.lexicon import Lexicon
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")

SENTENCES = [["the", "cat", "sat"], ["dogs"], ["a", "very", "long", "walk", "home"], [], ["zażółć", "東京"]]
TEXTS = [" ".join(sentence) for sentence in SENTENCES]


def word_model() -> Model:
    """A model that reads words by a list."""
    words = ("<S>", "</S>", "<UNK>", "the", "cat", "dogs")
    model = tiny_model(BiLMConfig(CONFIG.lstm, None, n_tokens_vocab=len(words)))
    return replace(model, vocabulary=Vocabulary(words))


@pytest.fixture(scope="module", params=["characters", "words"])
def either(request, folder, tmp_path_factory) -> Path:
    """A model that reads characters, then one that reads words."""
    if request.param == "characters":
        return folder
    words = tmp_path_factory.mktemp("words") / "model"
    native.save(word_model(), words)
    return words


def hidden_states(model, tokenizer) -> list[np.ndarray]:
    """(N, T, D) of every sentence, boundaries left out."""
    batch = tokenizer(SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])
    assert not output.last_hidden_state[batch["attention_mask"] == 0].any()
    every = torch.stack(output.hidden_states).numpy()
    return [every[:, row, 1 : len(sentence) + 1] for row, sentence in enumerate(SENTENCES)]


# The model


def test_a_native_folder_opens_and_gives_the_vectors_of_the_embedder(either):
    assert isinstance(AutoConfig.from_pretrained(either), ElmoConfig)
    model, tokenizer = AutoModel.from_pretrained(either), AutoTokenizer.from_pretrained(either)
    assert isinstance(model, ElmoModel)
    assert isinstance(tokenizer, ElmoTokenizer)
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (DIM, LAYERS - 1)
    expected = Embedder.load(either, device="cpu").embed(SENTENCES)
    for seen, rows in zip(hidden_states(model, tokenizer), expected, strict=True):
        np.testing.assert_allclose(seen, rows, rtol=0, atol=1e-6)


def test_what_is_saved_is_the_same_bit_for_bit_here_and_for_elmo(either, tmp_path):
    AutoModel.from_pretrained(either).save_pretrained(tmp_path / "saved")
    AutoTokenizer.from_pretrained(either).save_pretrained(tmp_path / "saved")
    original, again = native.load(either), formats.load(tmp_path / "saved")
    assert again.config == original.config
    assert again.inputs == original.inputs
    assert again.weights.keys() == original.weights.keys()
    for weights in (again.weights, AutoModel.from_pretrained(tmp_path / "saved").stored().weights):
        assert all(torch.equal(weight, weights[name]) for name, weight in original.weights.items())
    AutoTokenizer.from_pretrained(tmp_path / "saved")


def test_half_precision_in_the_file_is_float32_in_the_model(tmp_path):
    native.save(tiny_model(), tmp_path / "half", store="float16")
    assert {weight.dtype for weight in AutoModel.from_pretrained(tmp_path / "half").parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForTokenClassification])
def test_8_bit_rows_in_the_file_are_float32_in_the_model(tmp_path, kind):
    """transformers itself would take the integers for the weights."""
    config = replace(CONFIG, lstm=replace(CONFIG.lstm, dim=256, projection_dim=128))
    native.save(tiny_model(config), tmp_path / "model", store="int8")
    expected = native.load(tmp_path / "model").weights
    loaded = kind.from_pretrained(tmp_path / "model")
    assert all(torch.equal(weight, expected[name]) for name, weight in loaded.bilm.state_dict().items())
    assert {weight.dtype for weight in loaded.parameters()} == {torch.float32}
    loaded.save_pretrained(tmp_path / "saved")
    again = formats.load(tmp_path / "saved").weights
    assert all(torch.equal(weight, again[name]) for name, weight in expected.items())


def test_models_in_memory_go_both_ways():
    model = replace(tiny_model(), text=TextConfig("whitespace", "line"), card={"name": "tiny"})
    there = ElmoModel.of(model)
    assert not there.training
    back = there.stored()
    assert (back.config, back.text, back.card) == (model.config, model.text, model.card)
    assert all(torch.equal(weight, back.weights[name]) for name, weight in model.weights.items())


def test_a_model_of_words_and_code_points(tmp_path):
    table = {form: index for index, form in enumerate(["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", *"acht"])}
    words = {form: index for index, form in enumerate(["<oov>", "<pad>", "<bos>", "<eos>", "the", "cat"])}
    characters = CharCnnConfig(3, ((1, 4), (2, 5)), 1, max_characters_per_token=8, n_characters=len(table) + 1)
    config = BiLMConfig(CONFIG.lstm, None, word_cnn=WordCnnConfig(len(words) + 1, 4, characters))
    native.save(replace(tiny_model_of(config), lexicon=Lexicon(words, table, 8)), tmp_path / "model")
    expected = Embedder.load(tmp_path / "model", device="cpu").embed(SENTENCES)
    model, tokenizer = AutoModel.from_pretrained(tmp_path / "model"), AutoTokenizer.from_pretrained(tmp_path / "model")
    for seen, rows in zip(hidden_states(model, tokenizer), expected, strict=True):
        np.testing.assert_allclose(seen, rows, rtol=0, atol=1e-6)


def tiny_model_of(config: BiLMConfig) -> Model:
    return Model(config, {name: torch.randn_like(weight) * 0.5 for name, weight in BiLM(config).state_dict().items()})


def test_the_pipeline_of_features(folder):
    extract = pipeline("feature-extraction", model=str(folder), device="cpu")
    expected = Embedder.load(folder, device="cpu").embed(SENTENCES, "top")
    for options in ({}, {"batch_size": 2}):
        for seen, rows in zip(extract(TEXTS, **options), expected, strict=True):
            np.testing.assert_allclose(np.array(seen)[0, 1 : len(rows) + 1], rows, rtol=0, atol=1e-6)


# The tokenizer


def test_words_know_where_they_come_from(tmp_path):
    native.save(replace(tiny_model(), text=TextConfig()), tmp_path / "english")
    tokenizer, text = AutoTokenizer.from_pretrained(tmp_path / "english"), "Don't  stop, (東京)\nnow!"
    batch = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    words = [text[begin:end] for begin, end in batch["offset_mapping"] if end]
    assert words == ["Do", "n't", "stop", ",", "(", "東京", ")", "now", "!"] == tokenizer.tokenize(text)
    assert batch.tokens() == ["<S>", *words[:7], "</S>", "<S>", *words[7:], "</S>"]
    assert batch.word_ids() == [None, *range(7), None, None, 7, 8, None]
    assert batch.sequence_ids() == [None, *[0] * 7, None, None, 0, 0, None]
    assert batch["special_tokens_mask"] == [1, *[0] * 7, 1, 1, 0, 0, 1]
    assert np.array(batch["input_ids"]).shape == (13, 50)


def test_a_text_is_cut_at_the_end_of_a_sentence_or_within_it(tmp_path):
    native.save(replace(tiny_model(), text=TextConfig()), tmp_path / "english")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "english")
    words = ["We", "won", ".", "Go", "on", "!"]
    whole = ["<S>", *words[:3], "</S>", "<S>", *words[3:], "</S>"]
    for size, kept in {2: 0, 3: 1, 5: 3, 6: 3, 7: 3, 8: 4, 9: 5, 10: 6, 11: 6}.items():
        cut = tokenizer("We won. Go on!", truncation=True, max_length=size)
        assert len(cut["input_ids"]) <= size
        assert [token for token in cut.tokens() if token not in ("<S>", "</S>")] == words[:kept]
        assert cut.tokens() == [*whole[: len(cut.tokens()) - 1], "</S>"]


def test_padding_cutting_and_lists_as_in_transformers(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    longest = tokenizer(TEXTS, padding=True, return_tensors="np")
    assert longest["input_ids"].shape == (5, 7, 50)
    assert longest["attention_mask"].sum(axis=1).tolist() == [5, 3, 7, 2, 4]
    assert longest.word_ids(1) == [None, 0, None, None, None, None, None]
    cut = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=4, return_tensors="pt")
    assert cut["input_ids"].shape == (5, 4, 50)
    np.testing.assert_array_equal(cut["input_ids"][2, 1:3], longest["input_ids"][2, 1:3])
    ragged = tokenizer(TEXTS)
    assert [len(ids) for ids in ragged["input_ids"]] == [5, 3, 7, 2, 4]
    padded = tokenizer.pad(ragged, return_tensors="pt")
    assert torch.equal(padded["input_ids"], torch.from_numpy(longest["input_ids"]))
    assert tokenizer(["the", "cat"], is_split_into_words=True)["input_ids"] == tokenizer("the cat")["input_ids"]
    with pytest.raises(ValueError, match="padding"):
        tokenizer(TEXTS, return_tensors="pt")


def test_the_other_encoders_give_the_ids_of_the_call(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    one, several = tokenizer(TEXTS[0]), tokenizer(TEXTS)
    assert tokenizer.encode(TEXTS[0]) == tokenizer.encode(SENTENCES[0]) == one["input_ids"]
    assert dict(tokenizer.encode_plus(TEXTS[0], None, True)) == dict(tokenizer.encode_plus(SENTENCES[0])) == dict(one)
    assert dict(tokenizer.batch_encode_plus(TEXTS)) == dict(several)
    assert dict(tokenizer.batch_encode_plus(SENTENCES, is_split_into_words=True)) == dict(several)
    assert tokenizer.encode(TEXTS[0], return_tensors="pt").shape == (1, 5, 50)
    assert len(tokenizer.encode(TEXTS[2], truncation=True, max_length=4)) == 4
    assert list(tokenizer(TEXTS, return_attention_mask=False)) == ["input_ids"]
    for encode in (tokenizer.encode, tokenizer.encode_plus):
        with refused("add_special_tokens"):
            encode("a", add_special_tokens=False)
        with refused("text_pair"):
            encode("a", "b")


def test_a_word_has_no_id(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_tokens_to_ids("<PAD>") == tokenizer.pad_token_id == 0
    for words in ("She", ["She", "wrote"]):
        with refused("'She'", "characters"):
            tokenizer.convert_tokens_to_ids(words)
    assert tokenizer.decode([0]) == "<PAD>"
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    for decode in (tokenizer.decode, tokenizer.convert_ids_to_tokens):
        with refused("characters", "tokens("):
            decode(batch["input_ids"][0])
    with refused("characters", "tokens("):
        tokenizer.batch_decode(batch["input_ids"])


# Training


def corpus(tokenizer) -> Dataset:
    rows = []
    for words in [sentence for sentence in SENTENCES if sentence] * 4:
        row = dict(tokenizer(words, is_split_into_words=True))
        row["labels"] = [-100, *["a" in word for word in words], -100]
        rows.append(row | {"labels": [int(label) for label in row["labels"]]})
    return Dataset.from_list(rows)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_tagger_is_trained_saved_and_loaded(folder, tmp_path, frozen):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tagger = AutoModelForTokenClassification.from_pretrained(folder, num_labels=2, frozen=frozen, dropout=0.0)
    assert not tagger.mix.scalars.any()
    assert tagger.mix.gamma == 1
    arguments = TrainingArguments(
        str(tmp_path / "run"),
        num_train_epochs=10,
        learning_rate=0.1 if frozen else 0.02,
        per_device_train_batch_size=4,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    data = corpus(tokenizer)
    trainer = Trainer(
        tagger,
        arguments,
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2
    assert tagger.mix.scalars.abs().max() > 0.01

    trainer.save_model(str(tmp_path / "saved"))
    again = AutoModelForTokenClassification.from_pretrained(tmp_path / "saved")
    assert again.config.frozen is frozen
    assert again.state_dict().keys() == tagger.state_dict().keys()
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in tagger.state_dict().items())
    batch = AutoTokenizer.from_pretrained(tmp_path / "saved")(TEXTS, padding=True, return_tensors="pt")
    assert torch.equal(again.eval()(**batch).logits, tagger.eval()(**batch).logits)

    stored = formats.load(tmp_path / "saved")
    kept = native.load(folder).weights
    assert all(torch.equal(weight, kept[name]) for name, weight in stored.weights.items()) is frozen
    expected = (tagger.mix.gamma * tagger.mix.weights()).tolist()
    np.testing.assert_allclose(stored.mixes[0].weights, expected, rtol=1e-6)
    assert isinstance(AutoModel.from_pretrained(tmp_path / "saved"), ElmoModel)


def test_the_loss_is_that_of_the_labels_that_count(folder):
    tagger = ElmoForTokenClassification.from_pretrained(folder, num_labels=3).eval()
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS[:2], padding=True, return_tensors="pt")
    labels = torch.full((2, 5), -100)
    labels[0, 1], labels[1, 1] = 2, 0
    output = tagger(**batch, labels=labels)
    expected = -(output.logits.log_softmax(-1)[0, 1, 2] + output.logits.log_softmax(-1)[1, 1, 0]) / 2
    torch.testing.assert_close(output.loss, expected)
    loss, logits = tagger(**batch, labels=labels, return_dict=False)
    assert torch.equal(logits, copy.deepcopy(tagger)(**batch).logits)
    torch.testing.assert_close(loss, expected)


def first_step(folder: Path, output: Path, batch: int, accumulated: int) -> tuple[float, float]:
    """The loss and the norm of the gradients of a trainer's first step."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    tagger = AutoModelForTokenClassification.from_pretrained(folder, num_labels=2, dropout=0.0)
    options = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1}
    arguments = TrainingArguments(
        str(output),
        max_steps=1,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulated,
        max_grad_norm=1e9,
        **options,
    )
    collator = DataCollatorForTokenClassification(tokenizer)
    data = corpus(tokenizer).select(range(8))
    trainer = Trainer(tagger, arguments, train_dataset=data, data_collator=collator, processing_class=tokenizer)
    trainer.train()
    return trainer.state.log_history[0]["loss"], trainer.state.log_history[0]["grad_norm"]


@pytest.mark.parametrize(("batch", "accumulated"), [(4, 2), (1, 8)])
def test_accumulated_gradients_are_those_of_one_batch(folder, tmp_path, batch, accumulated):
    """Sentences have different numbers of labels, so a mean of the batches' means would differ."""
    expected = first_step(folder, tmp_path, 8, 1)
    assert first_step(folder, tmp_path, batch, accumulated) == pytest.approx(expected, rel=1e-3)


# What cannot be used


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a text", {"is_split_into_words": True}, "'a text'; is_split_into_words=True"),
        ([["a"]], {}, "['a']; is_split_into_words=True"),
        ([["a", 3]], {"is_split_into_words": True}, "strings"),
        (None, {}, "None"),
        (["a", None], {}, "text 1; missing"),
        (pandas.Series(["a", float("nan")], index=["x", "y"]), {}, "text 1; 'y'; missing"),
        (b"a text", {}, "decode"),
        (["a", b"a text"], {}, "text 1; decode"),
        (3, {}, "3"),
        ({"a": "b"}, {}, "order"),
        ({"a", "b"}, {}, "order"),
        (pandas.DataFrame({"text": ["a"]}), {}, "columns"),
        (["a", None], {"is_split_into_words": True}, "token None"),
        ([["a"], None], {"is_split_into_words": True}, "sentence 1; missing"),
        ([["a"], "b"], {"is_split_into_words": True}, "sentence 1; 'b'"),
        ([[["a"]]], {"is_split_into_words": True}, "['a']"),
        ([b"a"], {"is_split_into_words": True}, "decode"),
        (None, {"is_split_into_words": True}, "None"),
        ("a", {"text_pair": "b"}, "text_pair"),
        ("a", {"add_special_tokens": False}, "add_special_tokens=False"),
        ("a", {"return_overflowing_tokens": True}, "return_overflowing_tokens"),
    ],
)
def test_what_is_no_text_is_a_value_error_of_one_line(folder, text, options, said):
    with refused(*said.split("; "), error=ValueError) as caught:
        AutoTokenizer.from_pretrained(folder)(text, **options)
    assert isinstance(caught.value, InputError)


def test_half_of_a_surrogate_pair_is_refused(tmp_path):
    """spaCy's tokenizers leave it out, so the word is not in the text."""
    native.save(replace(tiny_model(), text=TextConfig()), tmp_path / "english")
    with refused("surrogate"):
        AutoTokenizer.from_pretrained(tmp_path / "english")("ab\ud83dcd e")


def test_texts_and_words_of_numpy_and_pandas(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = dict(tokenizer(TEXTS))
    for texts in (np.array(TEXTS), list(np.array(TEXTS)), tuple(TEXTS), pandas.Series(TEXTS)):
        assert dict(tokenizer(texts)) == expected
    assert dict(tokenizer(np.str_(TEXTS[0]))) == dict(tokenizer(TEXTS[0]))
    words = [np.array(sentence, str) for sentence in SENTENCES]
    assert dict(tokenizer(words, is_split_into_words=True)) == expected
    assert dict(tokenizer(words[0], is_split_into_words=True)) == dict(tokenizer(TEXTS[0]))
    assert tokenizer.encode(np.str_(TEXTS[0])) == tokenizer.encode(TEXTS[0])


@pytest.mark.parametrize("name", ["padding_side", "truncation_side"])
def test_only_the_right_side_is_padded_or_cut(folder, name):
    tokenizer = AutoTokenizer.from_pretrained(folder, **{name: "left"})
    encoded = [AutoTokenizer.from_pretrained(folder)(text) for text in TEXTS]
    for call in (lambda: tokenizer(TEXTS, padding=True), lambda: tokenizer.pad(encoded)):
        with refused(name, "'left'", "'right'", error=ValueError) as caught:
            call()
        assert isinstance(caught.value, InputError)


def test_padding_before_a_sentence_is_refused(folder):
    ids = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")["input_ids"]
    with refused("padding"):
        AutoModel.from_pretrained(folder)(ids.flip(1))


def test_ids_of_another_tokenizer_are_refused(folder):
    model = AutoModel.from_pretrained(folder)
    with refused("(1, 3)", "(B, T, 50)", error=ValueError):
        model(torch.ones(1, 3, dtype=torch.long))


def test_missing_weights_are_refused(folder, tmp_path):
    model = AutoModel.from_pretrained(folder)
    kept = {name: weight for name, weight in model.state_dict().items() if "layers.1" not in name}
    model.save_pretrained(tmp_path / "damaged", state_dict=kept)
    with refused("bilm.layers.1.", "copy"):
        AutoModel.from_pretrained(tmp_path / "damaged")


def test_weights_that_are_not_finite_are_refused(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "copied")
    weights = load_file(copied / native.WEIGHTS)
    weights["bilm.layers.1.bias"][0, 3] = torch.nan
    save_file(weights, copied / native.WEIGHTS, metadata={"format": "pt"})
    with refused(copied, "layers.1.bias", "NaN"):
        AutoModel.from_pretrained(copied)


def test_a_model_of_another_version_is_refused(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "copied")
    config = copied / native.CONFIG
    config.write_text(config.read_text(encoding="utf-8").replace('"version": 1', '"version": 2'), encoding="utf-8")
    with refused("version is 2", "install the latest"):
        AutoModel.from_pretrained(copied)


def test_keys_of_a_stranger_are_refused_unless_transformers_wrote_them(folder, tmp_path):
    AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    file = tmp_path / "saved" / "config.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    assert values["transformers_version"] == transformers.__version__
    formats.load(tmp_path / "saved")
    file.write_text(json.dumps({name: value for name, value in values.items() if name != "transformers_version"}))
    with pytest.raises(InputError, match="unknown key"):
        formats.load(tmp_path / "saved")
