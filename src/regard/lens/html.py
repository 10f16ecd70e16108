"""A look as one HTML file: the stage of the page, its style, and the numbers, with nothing beside it or on a server."""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from regard.lens.bundle import bundle

_STAGE, _PAGE = "stage", "file"


def look_page(look: Mapping[str, Any], place: Mapping[str, str | int] | None = None) -> str:
    """The whole file, from the JSON of a look (arrays as base64: ten times smaller). `place` is where it opens.

    Only this script and this style may run, by their hashes: whatever a sentence contains stays a sentence.
    """
    modules = _read(_STAGE, ".js") | _read(_PAGE, ".js")
    script = "\n" + bundle("page.js", modules)
    style = "\n" + "\n".join(text for folder in (_STAGE, _PAGE) for text in _read(folder, ".css").values())
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
<p>Looking inside needs JavaScript, which is switched off here.<br>
안을 들여다보려면 자바스크립트를 켜 주세요.</p></noscript>
<script type="application/json" id="look">{_inert(look)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _inert(look: Mapping[str, Any]) -> str:
    """JSON that can not end its element: no `<`, and nothing but ASCII."""
    return json.dumps(look, separators=(",", ":")).replace("<", "\\u003c")


def _read(folder: str, ending: str) -> dict[str, str]:
    found = sorted((files("regard") / "web" / folder).iterdir(), key=lambda one: one.name)
    return {one.name: one.read_text(encoding="utf-8") for one in found if one.name.endswith(ending)}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
