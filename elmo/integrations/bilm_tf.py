"""A stand-in for the function of bilm-tf, the original program, that writes the vectors of a file."""

from pathlib import Path

from elmo.integrations.allennlp_embedder import ElmoEmbedder
from elmo.integrations.originals import StatePolicy


def dump_bilm_embeddings(
    vocab_file: str | Path,
    dataset_file: str | Path,
    options_file: str | Path,
    weight_file: str | Path,
    outfile: str | Path,
    *,
    state: StatePolicy | None = None,
) -> None:
    """Writes all layers (N, T, D) of every line of a file to HDF5, as the datasets 0, 1, ...; spaces separate tokens.

    `vocab_file` has no effect: every word is encoded once anyway. With `state="carry"` each line is read in a batch of
    its own, from the state after the line before, as the original did.
    """
    del vocab_file
    embedder = ElmoEmbedder(options_file, weight_file, state=state)
    batch_size = 1 if embedder.elmo_bilm._elmo_lstm.stateful else 64
    with Path(dataset_file).open(encoding="utf-8") as lines:
        embedder.embed_file(lines, outfile, batch_size=batch_size, forget_sentences=True)
