"""Turns text into ids: characters, vocabulary, tokenizer, corpus, batching. Nothing here knows models."""
