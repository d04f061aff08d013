"""Measures the speed of a model and of this machine, for `elmo bench` and `benchmarks/`."""
