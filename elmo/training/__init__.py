"""Training loops for any network. Nothing here knows ELMo."""
