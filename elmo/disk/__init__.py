"""Files and runs on disk: written whole or not at all, one process at a time, resumed with the same settings."""
