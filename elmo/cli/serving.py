"""`elmo serve`, which serves a model over HTTP, and `elmo explore`, which opens its page in a browser."""

import argparse
import os
import re
import threading
import webbrowser
from pathlib import Path
from typing import Any

from elmo.cli.arguments import LAYERS_HELP, add_options, add_verb, check_processes, run_in
from elmo.errors import InputError

GROUP = "in the browser, and for other programs"

KEY = "ELMO_API_KEY"
MOST_KEY = 10_000
"""The most bytes of a file with a key."""
LIMITS = {
    "wait": ("S", "seconds to wait for more requests in a batch (default: 0.005)"),
    "timeout": ("S", "seconds until a request fails (default: 60)"),
    "sending": ("S", "seconds a client may take to send (default: 30)"),
    "drain": ("S", "seconds to finish accepted requests after SIGTERM (default: 30)"),
    "most_sentences": ("N", "sentences per request (default: 2048)"),
    "most_tokens": ("N", "tokens per request (default: 32768)"),
    "most_requests": ("N", "requests at a time (default: 512)"),
    "queue_tokens": ("N", "tokens in the queue (default: 262144)"),
}
"""The limits of `ServeConfig` that have a flag, with the unit and the help of each."""


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    serve = add_verb(verbs, "serve", serve_verb, "serve a model's vectors over HTTP", "elmo serve --port 8080")
    index = "--index FOLDER", "output of elmo index, for /neighbors and the page"
    precisions = "--precision float32|bfloat16|int8|int8-weights"
    add_options(
        serve,
        "--model",
        index,
        ("--host HOST", "address to listen on; all but loopback need a key (default: 127.0.0.1)", "127.0.0.1"),
        ("--port PORT", "0 picks a free port (default: 8080)", 8080),
        ("--layers LAYERS", f"layers of /embed and /v1/embeddings: {LAYERS_HELP} (default: average)", "average"),
        ("--pool mean|max|sum", "pooling over tokens, for the same routes (default: mean)", "mean"),
        ("--workers N", "processes behind the port, each with the model; they share the cores (default: 1)", 1),
        ("--worker-of N", argparse.SUPPRESS),  # the process that started this worker
        "--device",
        (precisions, "precision of matrix products, scores included (default: float32)", "float32"),
        ("--api-key-file FILE", f"file with the API key (default: the variable {KEY})"),
        ("--no-auth", "require no key, and accept any host name"),
        ("--cors ORIGIN...", "allow browser requests from this origin; may be repeated (default: none)", []),
        *((f"--{name.replace('_', '-')} {unit}", about) for name, (unit, about) in LIMITS.items()),
    )
    explore = add_verb(verbs, "explore", explore_verb, "explore a model's layers in the browser", "elmo explore")
    add_options(explore, "--model", index, ("--no-browser", "only print the address"))


def serve_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.embedding.layers import parse_layers
    from elmo.server.run import LOCAL, LOOPBACK, reserved_port, serve
    from elmo.server.service import ServeConfig, with_limits

    if not 0 <= arguments.port <= 65535:
        raise InputError(f"--port is {arguments.port}; a number from 0 to 65535 is expected")
    if arguments.no_auth and arguments.api_key_file is not None:
        raise InputError("--no-auth and --api-key-file exclude each other; omit one")
    key = None if arguments.no_auth else _key(arguments.api_key_file)
    if arguments.host not in LOOPBACK and key is None and not arguments.no_auth:
        raise InputError(
            f"--host {arguments.host} is reachable from other machines; set {KEY}, or give --api-key-file or --no-auth"
        )
    check_processes("--workers", arguments.workers)
    limits = {name: getattr(arguments, name) for name in LIMITS}
    config = ServeConfig(
        arguments.model,
        arguments.index,
        parse_layers(arguments.layers),
        arguments.pool,
        device=arguments.device,
        precision=arguments.precision,
        cors=tuple(map(_origin, arguments.cors)),
        names=LOCAL if arguments.host in LOOPBACK and key is None and not arguments.no_auth else (),
    )
    config = with_limits(config, **limits)
    if arguments.workers > 1:
        formats.describe(arguments.model)  # a bad model is reported once, not by every worker
        with reserved_port(arguments.host, arguments.port) as port:
            again = "--workers", "1", "--port", str(port), "--worker-of", str(os.getpid())
            run_in(arguments.workers, again, first_prints=True)
        return
    serve(
        config,
        arguments.host,
        arguments.port,
        key,
        lambda address: print(f"elmo serves at {address} (Ctrl-C stops it)", flush=True),
        arguments.worker_of,
    )


def explore_verb(arguments: argparse.Namespace) -> None:
    from elmo.server.run import LOCAL, serve
    from elmo.server.service import ServeConfig

    def started(address: str) -> None:
        print(f"elmo explores at {address} (Ctrl-C stops it)", flush=True)
        if not arguments.no_browser:  # in a thread, since a browser in the terminal blocks its caller
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    config = ServeConfig(arguments.model, arguments.index, names=LOCAL)
    serve(config, "127.0.0.1", 0, None, started)


def _origin(given: str) -> str:
    """Returns an origin as browsers send it. One with a slash at its end or a path would never match."""
    if given != "*" and not re.fullmatch(r"https?://[^/\s]+", given):
        raise InputError(f"--cors is {given!r}; expected an origin without a path, such as https://example.org")
    return given.lower()


def _key(file: str | None) -> str | None:
    """Returns the key from a file or the environment; None if there is none."""
    from elmo.config import read_regular

    given = os.environ.get(KEY) if file is None else read_regular(Path(file), MOST_KEY).decode("utf-8", "replace")
    found = given and given.strip()
    if found == "":
        raise InputError(f"{file or KEY}: the key is empty; write one of 16 characters or more")
    if found is not None and not (found.isascii() and found.isprintable()):  # no header would match it
        raise InputError(f"{file or KEY}: the key is not printable ASCII; write one of letters and digits")
    return found
