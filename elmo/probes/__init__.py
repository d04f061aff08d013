"""What a layer knows: one file a question, each with `run(...) -> rows` of numbers. Nothing here prints or learns."""
