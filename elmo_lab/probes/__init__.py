"""What a layer knows: one file per question, each with `run(...) -> rows` of numbers. Nothing here prints or learns."""
