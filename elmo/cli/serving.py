"""`elmo serve`: a model over HTTP."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from elmo.cli.arguments import LAYERS_HELP, add_model, add_verb
from elmo.errors import InputError

KEY = "ELMO_API_KEY"
LIMITS = "wait", "timeout", "sending", "most_sentences", "most_tokens", "queue_tokens"


def add_verbs(verbs: Any) -> None:
    """The one of this file."""
    serve = add_verb(verbs, "serve", serve_verb, "serve a model's vectors over HTTP")
    add_model(serve)
    serve.add_argument("--index", metavar="FOLDER", help="what elmo index made, for /neighbors")
    serve.add_argument("--host", default="127.0.0.1", help="another address needs a key (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8080, help="0 for any that is free (default: 8080)")
    serve.add_argument("--layers", default="average", help=f"of /embed and /v1/embeddings: {LAYERS_HELP}")
    serve.add_argument("--pool", choices=["mean", "max", "sum"], default="mean", help="of the same, over tokens")
    serve.add_argument(
        "--api-key-file", metavar="FILE", help=f"a file that holds the key (default: the variable {KEY})"
    )
    serve.add_argument("--no-auth", action="store_true", help="serve other addresses without a key")
    serve.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="pages of this origin may ask from a browser; may be repeated (default: none)",
    )
    serve.add_argument("--wait", type=float, metavar="S", help="seconds a request waits for others (default: 0.005)")
    serve.add_argument("--timeout", type=float, metavar="S", help="seconds until a request is given up (default: 60)")
    serve.add_argument("--sending", type=float, metavar="S", help="seconds a client may take to send (default: 30)")
    serve.add_argument("--most-sentences", type=int, metavar="N", help="of a request (default: 1024)")
    serve.add_argument("--most-tokens", type=int, metavar="N", help="of a request (default: 32768)")
    serve.add_argument("--queue-tokens", type=int, metavar="N", help="that may wait (default: 262144)")


def serve_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.layers import parse_layers
    from elmo.server.run import LOOPBACK, serve
    from elmo.server.service import ServeConfig, with_limits

    key = _key(arguments.api_key_file)
    if arguments.host not in LOOPBACK and key is None and not arguments.no_auth:
        raise InputError(
            f"--host {arguments.host} can be reached from elsewhere: set {KEY}, or give --api-key-file or --no-auth"
        )
    limits = {name: getattr(arguments, name) for name in LIMITS}
    config = ServeConfig(
        arguments.model,
        arguments.index,
        parse_layers(arguments.layers),
        arguments.pool,
        cors=tuple(map(_origin, arguments.cors)),
    )
    serve(
        with_limits(config, **limits),
        arguments.host,
        arguments.port,
        key,
        lambda address: print(f"elmo serves at {address} (Ctrl-C stops it)", flush=True),
    )


def _origin(given: str) -> str:
    """As browsers send it: a slash at the end, or a path, would never be equal."""
    if given != "*" and not re.fullmatch(r"https?://[^/\s]+", given):
        raise InputError(f"--cors is {given!r}; an origin such as https://example.org is expected, without a path")
    return given.lower()


def _key(file: str | None) -> str | None:
    """The key, from a file or the environment."""
    found = os.environ.get(KEY) if file is None else Path(file).read_text(encoding="utf-8").strip()
    if found == "":
        raise InputError(f"{file or KEY}: the key is empty; write one, of 16 characters or more")
    return found
