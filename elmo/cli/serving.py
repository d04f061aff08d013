"""`elmo serve`, which serves a model over HTTP, and `elmo explore`, which opens its page in a browser."""

import argparse
import os
import re
import threading
import webbrowser
from pathlib import Path
from typing import Any

from elmo.cli.arguments import LAYERS_HELP, add_device, add_model, add_verb, check_processes, run_in
from elmo.errors import InputError

GROUP = "in the browser, and for other programs"

KEY = "ELMO_API_KEY"
MOST_KEY = 10_000
"""The most bytes of a file with a key."""
LIMITS: dict[str, tuple[type, str]] = {
    "wait": (float, "seconds to wait for more requests in a batch (default: 0.005)"),
    "timeout": (float, "seconds until a request fails (default: 60)"),
    "sending": (float, "seconds a client may take to send (default: 30)"),
    "drain": (float, "seconds to finish accepted requests after SIGTERM (default: 30)"),
    "most_sentences": (int, "sentences per request (default: 2048)"),
    "most_tokens": (int, "tokens per request (default: 32768)"),
    "most_requests": (int, "requests at a time (default: 512)"),
    "queue_tokens": (int, "tokens in the queue (default: 262144)"),
}
"""The limits of `ServeConfig` that have a flag, with the type and the help of each."""


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    _add_serve(verbs)
    _add_explore(verbs)


def _add_serve(verbs: Any) -> None:
    serve = add_verb(verbs, "serve", serve_verb, "serve a model's vectors over HTTP", "elmo serve --port 8080")
    add_served(serve)
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; all but loopback need a key (default: 127.0.0.1)"
    )
    serve.add_argument("--port", type=int, default=8080, help="0 picks a free port (default: 8080)")
    serve.add_argument(
        "--layers", default="average", help=f"layers of /embed and /v1/embeddings: {LAYERS_HELP} (default: average)"
    )
    serve.add_argument(
        "--pool",
        choices=["mean", "max", "sum"],
        default="mean",
        help="pooling over tokens, for the same routes (default: mean)",
    )
    serve.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes behind the port, each with the model; they share the cores (default: 1)",
    )
    serve.add_argument("--worker-of", type=int, help=argparse.SUPPRESS)  # the process that started this worker
    add_device(serve)
    serve.add_argument(
        "--precision",
        choices=["float32", "bfloat16", "int8", "int8-weights"],
        default="float32",
        help="precision of matrix products, scores included (default: float32)",
    )
    serve.add_argument("--api-key-file", metavar="FILE", help=f"file with the API key (default: the variable {KEY})")
    serve.add_argument("--no-auth", action="store_true", help="require no key, and accept any host name")
    serve.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="allow browser requests from this origin; may be repeated (default: none)",
    )
    for name, (kind, about) in LIMITS.items():
        metavar = "S" if kind is float else "N"
        serve.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=about)


def _add_explore(verbs: Any) -> None:
    explore = add_verb(verbs, "explore", explore_verb, "explore a model's layers in the browser", "elmo explore")
    add_served(explore)
    explore.add_argument("--no-browser", action="store_true", help="only print the address")


def add_served(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say what to serve."""
    add_model(parser)
    parser.add_argument("--index", metavar="FOLDER", help="output of elmo index, for /neighbors and the page")


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
