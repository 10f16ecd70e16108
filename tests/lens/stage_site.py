"""A small site with the stage's files and one look, the models to show on it, and a walk through all stops."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stage_fixture import Shape

import regard

STAGE = Path(regard.__file__).parent / "web" / "stage"
SHEETS = "".join(f'<link rel="stylesheet" href="/stage/{one.name}">' for one in sorted(STAGE.glob("*.css")))
PAGE = f"""<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">{SHEETS}</head>
<body><div id="stage"></div><div id="wall"></div><script type="module" src="/main.js"></script></body></html>"""
MAIN = """import { Stage } from "./stage/stage.js";
import { Wall } from "./stage/wall.js";
const look = await (await fetch("/look.json")).json();
window.places = [];
window.Wall = Wall;
window.look = look;
window.stage = new Stage(document.getElementById("stage"), { look, onPlace: (place) => window.places.push(place) });
document.body.dataset.ready = "yes";
"""


SHAPES = {
    "street": Shape(),
    "base": Shape(
        n_encoder_layers=6, n_decoder_layers=6, n_heads=8, d_model=64, norm="post", positions="learned", lists=True
    ),
    "one head": Shape(
        n_encoder_layers=1, n_decoder_layers=1, n_heads=1, attention="additive", given=True, smoothing=None
    ),
    "one word": Shape(source="Hi", target="Hallo", attention="dot_product", norm="post"),
    "hostile": Shape(
        source='لم يعبر الحيوان <img/src=x/onerror="alert(1)"> \u202eevil Donaudampfschifffahrtsgesellschaft'
        + "x" * 300,
        target="</script> 동물은 길을 건너지 않았다 🙂",
        longest=400,
    ),
}

WALK = """async (language) => {
  stage.setLanguage(language);
  const found = [];
  for (let stop = 1; stop <= 15; stop += 1) {
    for (const attention of ["encoder", "cross"]) stage.go({ stop, attention, level: stop % 2 ? "pieces" : "words" });
    await new Promise(requestAnimationFrame);
    const text = document.querySelector(".stop").innerText;
    found.push({
      title: document.querySelector(".stop-title").textContent,
      questions: document.querySelectorAll(".asked-here dt").length,
      here: document.querySelectorAll(".block[data-here]").length,
      strange: ["undefined", "NaN"].filter((bad) => text.includes(bad)),
      tooWide: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    });
  }
  return found;
}"""


class Site:
    """The stage's files and one look, with the policy of the real service."""

    def __init__(self) -> None:
        self.look: dict[str, Any] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = site.answer(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Security-Policy", "default-src 'self'; img-src 'self' data:")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def answer(self, path: str) -> tuple[str, bytes]:
        if path.startswith("/stage/"):
            kind = "text/css" if path.endswith(".css") else "text/javascript"
            return kind, (STAGE / path.removeprefix("/stage/")).read_bytes()
        made = {"/": ("text/html", PAGE), "/main.js": ("text/javascript", MAIN)}
        made["/look.json"] = ("application/json", json.dumps(self.look))
        kind, text = made.get(path, ("text/plain", ""))
        return kind, text.encode()
