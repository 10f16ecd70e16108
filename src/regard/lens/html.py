"""A look as one HTML file: the modules and styles of "Look inside" with the numbers, no server needed."""

import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any
from urllib.parse import urlencode

_ENTRY = "file/look_file.js"
_STYLES = ("colours.css", "look/", "file/")  # in this order

_IMPORT = re.compile(r'^import \{[\w,\s]+\} from "(\.{1,2}/[\w./]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) )", re.MULTILINE)
_DECLARATION = re.compile(r"^(?:async function|function|class|const|let) (\w+)", re.MULTILINE)
_UNSUPPORTED = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def look_page(look: Mapping[str, Any], place: Mapping[str, str | int] | None = None) -> str:
    """The whole file, from the JSON of a look with base64 arrays (ten times smaller); `place` is where it opens.

    The content security policy allows this script and this style only, by their hashes, so text cannot become code.
    """
    web = dict(_read(files("regard") / "web"))
    script = "\n" + bundle(_ENTRY, web)
    styles = [text for start in _STYLES for name, text in web.items() if name.startswith(start) and name[-4:] == ".css"]
    style = "\n" + "\n".join(styles)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    source, translation = look["source"]["text"], look["target"]["text"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<title>{escape(source)} → {escape(translation)}</title>
<style>{style}</style>
</head>
<body>
<main id="page" data-place="{escape(urlencode(place or {}))}"></main>
<noscript><p dir="auto">{escape(source)}</p><p dir="auto">{escape(translation)}</p>
<p>This page needs JavaScript, which is turned off.<br>
이 페이지를 보려면 자바스크립트를 켜 주세요.</p></noscript>
<script type="application/json" id="look">{_embeddable(look)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def bundle(entry: str, modules: Mapping[str, str]) -> str:
    """Joins an ES module and everything it imports into one script, each module after its imports.

    The modules follow a few rules, so that no build tool is needed: imports name what they import, without aliases;
    `export` precedes a declaration; top-level names are unique across all modules.
    """
    order: list[str] = []
    _visit(entry, modules, order, set())
    texts = {name: _EXPORT.sub("", _IMPORT.sub("", modules[name])).strip() for name in order}
    declared_in: dict[str, str] = {}
    for name, text in texts.items():
        if unsupported := _UNSUPPORTED.search(text):
            raise ValueError(f"{name} has an import or export that cannot be bundled: {unsupported[0]}")
        for declared in _DECLARATION.findall(text):
            if declared_in.setdefault(declared, name) != name:
                raise ValueError(f"{declared} is declared in {declared_in[declared]} and in {name}")
    return "\n\n".join(texts.values()) + "\n"


def _visit(name: str, modules: Mapping[str, str], order: list[str], visited: set[str]) -> None:
    if name in visited:
        return
    visited.add(name)
    if name not in modules:
        raise ValueError(f"there is no module {name}")
    for target in _IMPORT.findall(modules[name]):
        _visit(posixpath.normpath(posixpath.join(posixpath.dirname(name), target)), modules, order, visited)
    order.append(name)


def _embeddable(look: Mapping[str, Any]) -> str:
    """JSON that cannot end its element: no `<`, and only ASCII."""
    return json.dumps(look, separators=(",", ":")).replace("<", "\\u003c")


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The JavaScript and CSS files below a folder, by relative path, sorted."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _read(item, f"{prefix}{item.name}/")
        elif item.name.endswith((".js", ".css")):
            yield prefix + item.name, item.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
