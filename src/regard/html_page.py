"""The HTML document and the style of the training report and the comparison page.

One file without scripts or external resources, in light and dark, for small and large screens.
"""

from html import escape
from importlib.resources import files

_STYLE = (files("regard") / "html_page.css").read_text(encoding="utf-8")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def html_document(title: str, body: str, *, refresh_seconds: int | None = None) -> str:
    """A complete document. `title` is escaped here, `body` is HTML; the browser reloads it every `refresh_seconds`."""
    refresh = f'<meta http-equiv="refresh" content="{refresh_seconds}">\n' if refresh_seconds is not None else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n{refresh}'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
