"""The page `GET /docs`, which has each route with its fields and working commands, made from /openapi.json."""

import json
import shlex
from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; font-family: ui-monospace, monospace; font-size: 1.15rem; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8888; border-radius: 0.3rem; }
table { border-collapse: collapse; }
th, td { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; }
"""


def reference_page(description: dict[str, Any], address: str, key: bool) -> str:
    """Returns HTML without scripts. Commands call `address`; with `key`, they send the key in the shell's variable."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>elmo: routes</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="stylesheet" href="/docs.css"></head><body><main>',
        f"<h1>elmo {escape(description['info']['version'])}: routes</h1>",
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>',
    ]
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            parts += _route(description, path, method, route, address.rstrip("/"), key)
    return "\n".join([*parts, "</main></body></html>\n"])


def _route(
    description: dict[str, Any], path: str, method: str, route: dict[str, Any], address: str, key: bool
) -> Iterator[str]:
    yield f"<h2>{method.upper()} {escape(path)}</h2>"
    yield f"<p>{escape(route.get('description', ''))}</p>"
    parameters = {each["name"]: each["example"] for each in route["parameters"]}
    command = f"curl -s {shlex.quote(address + path.format(**parameters))}"
    if key:
        command += ' -H "authorization: Bearer $ELMO_API_KEY"'
    if "requestBody" not in route:
        yield f"<pre>{escape(command)}</pre>"
        return
    reference = route["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = description["components"]["schemas"][reference.rpartition("/")[2]]
    for example in schema["examples"]:
        body = f"-H 'content-type: application/json' -d {shlex.quote(json.dumps(example))}"
        yield f"<pre>{escape(f'{command} {body}')}</pre>"
    yield "<table><thead><tr><th>field</th><th>type</th><th>default</th><th></th></tr></thead><tbody>"
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else json.dumps(field.get("default"))
        cells = (name, _type(field), default, field.get("description", ""))
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _type(field: dict[str, Any]) -> str:
    """Describes a JSON type in words."""
    if "$ref" in field:
        return f"object {field['$ref'].rpartition('/')[2]}"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "enum" in field:
        return " or ".join(map(json.dumps, field["enum"]))
    if field["type"] == "array":
        return f"list of ({_type(field['items'])})" if "anyOf" in field["items"] else f"list of {_type(field['items'])}"
    limits = [f"{word} {field[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in field]
    return " ".join([field["type"], *limits])
