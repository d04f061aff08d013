"""The part of AllenNLP's data pipeline that its own ELMo tests use, written anew: tokens -> padded tensors.

With these names beside the stand-ins, its test files run as they are.
"""

import shutil
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from elmo.integrations import install_shims


class TestCase(unittest.TestCase):
    """AllenNLP's base class of tests; FIXTURES_ROOT / "elmo" has its files."""

    FIXTURES_ROOT = Path()

    def setUp(self):
        self.TEST_DIR = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.TEST_DIR)


class Vocabulary:
    def __init__(self):
        self.index = {"@@PADDING@@": 0, "@@UNKNOWN@@": 1}

    @classmethod
    def from_instances(cls, instances):
        made = cls()
        counts = Counter(token.text for instance in instances for token in instance.tokens)
        for word, _ in counts.most_common():
            made.index.setdefault(word, len(made.index))
        return made

    def get_token_to_index_vocabulary(self, namespace):
        assert namespace == "tokens"
        return self.index


class SingleIdTokenIndexer:
    def tokens_to_indices(self, tokens, vocabulary, name):
        return {name: [vocabulary.index.get(token.text, 1) for token in tokens]}

    def as_padded_tensor(self, tokens, desired, _):
        return {name: torch.tensor(ids + [0] * (desired[name] - len(ids))) for name, ids in tokens.items()}


class TextField:
    def __init__(self, tokens, indexers):
        self.tokens, self.indexers = tokens, indexers


class Instance:
    def __init__(self, fields):
        ((self.name, self.field),) = fields.items()

    @property
    def tokens(self):
        return self.field.tokens


class Batch:
    def __init__(self, instances):
        self.instances = list(instances)

    def index_instances(self, vocabulary):
        self.vocabulary = vocabulary

    def as_tensor_dict(self):
        longest = max(len(instance.tokens) for instance in self.instances)
        first = self.instances[0]
        tensors = {}
        for key, indexer in first.field.indexers.items():
            ids = [indexer.tokens_to_indices(each.tokens, self.vocabulary, key) for each in self.instances]
            tensors[key] = torch.stack([indexer.as_padded_tensor(row, {key: longest}, {})[key] for row in ids])
        return {first.name: tensors}


class BasicIterator:
    def __init__(self, batch_size):
        self.batch_size = batch_size

    def index_with(self, vocabulary):
        self.vocabulary = vocabulary

    def __call__(self, instances, num_epochs, shuffle):
        assert (num_epochs, shuffle) == (1, False)
        for start in range(0, len(instances), self.batch_size):
            batch = Batch(instances[start : start + self.batch_size])
            batch.index_instances(self.vocabulary)
            yield batch.as_tensor_dict()


def main():
    """`allennlp elmo`, by the command that stands in for it."""
    from elmo.cli import main as run

    assert sys.argv[1] == "elmo"
    with pytest.raises(SystemExit, match=r"^0$"):
        run(["allennlp", *sys.argv[2:]])


def remove_stand_ins() -> None:
    """Removes every module of a stand-in, so that other tests do not see it."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("allennlp", "bilm", "elmoformanylangs", "simple_elmo"):
            del sys.modules[name]


def install(fixtures: Path, **options: Any) -> list[str]:
    """Installs the stand-ins, and the names of this file among them; returns the names of all modules."""
    install_shims(**options)
    TestCase.FIXTURES_ROOT = fixtures
    added = {
        "allennlp.common.testing": {"AllenNlpTestCase": TestCase},
        "allennlp.commands": {"main": main},
        "allennlp.data": {"Vocabulary": Vocabulary, "Instance": Instance},
        "allennlp.data.dataset": {"Batch": Batch},
        "allennlp.data.fields": {"TextField": TextField},
        "allennlp.data.iterators": {"BasicIterator": BasicIterator},
        "allennlp.data.token_indexers.single_id_token_indexer": {"SingleIdTokenIndexer": SingleIdTokenIndexer},
    }
    for name, content in added.items():
        module = sys.modules.setdefault(name, ModuleType(name))
        vars(module).update(content)
    return list(added)
