"""The server of `elmo serve`: it answers with vectors, scores and neighbours over HTTP, from one model."""
