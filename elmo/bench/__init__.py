"""How fast this machine is, and how fast a model is on it: what `elmo bench` and `benchmarks/` measure with."""
