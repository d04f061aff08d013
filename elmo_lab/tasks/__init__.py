"""The six task models of the paper, each in one file, with and without ELMo (Peters et al. 2018, sec. 4)."""
