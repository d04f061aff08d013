"""Turns text into vectors with a model: batches, order, device, precision, state, and files of vectors."""

from elmo.embedding.embedder import Embedder as Embedder
from elmo.embedding.job import embed_file as embed_file
from elmo.embedding.store import read_vectors as read_vectors
