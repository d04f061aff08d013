"""The biLM's own task: predict the next word and the word before, on plain text."""
