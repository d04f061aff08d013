"""One loop for everything that is trained; knows nothing of ELMo."""
