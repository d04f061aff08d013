"""Strings -> ids: characters, vocabulary, tokenizer, corpus, batching; knows nothing of models."""
