"""The probes, which measure what a layer knows. Each answers one question with rows of numbers and prints nothing."""
