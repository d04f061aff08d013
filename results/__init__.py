"""This project's own results: tables, and the scripts that fill them and make docs/results.md. See README.md."""
