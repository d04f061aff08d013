"""`elmo serve`: vectors, scores and neighbours over HTTP, from one model in one process."""
