"""The marks among the words of a vocabulary: a sentence's two ends, and a word that is not in it."""

BOS = "<S>"
EOS = "</S>"
UNKNOWN = "<UNK>"
