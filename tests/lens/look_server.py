"""Serves the files of the page and one look; models of several shapes, and a script that opens every step."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from random_look import Shape

import regard

WEB = Path(regard.__file__).parent / "web"
SHEETS = "".join(
    f'<link rel="stylesheet" href="/{path.relative_to(WEB).as_posix()}">'
    for path in (WEB / "colours.css", *sorted((WEB / "look").glob("*.css")))
)
PAGE = f"""<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">{SHEETS}</head>
<body><div id="panel"></div><div id="grid"></div><script type="module" src="/main.js"></script></body></html>"""
MAIN = """import { HeadGrid } from "./look/head_grid.js";
import { LookPanel } from "./look/look_panel.js";
import { placeParameters, readPlace, resolvePlace } from "./look/place.js";
import { setLanguage } from "./texts/texts.js";
const look = await (await fetch("/look.json")).json();
const places = [];
const panel = new LookPanel(document.getElementById("panel"), { look, onPlace: (place) => places.push(place) });
Object.assign(window, { HeadGrid, look, panel, placeParameters, places, readPlace, resolvePlace, setLanguage });
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
        max_letters=400,
    ),
}

WALK = """async (language) => {
  setLanguage(language);
  const steps = [];
  for (let step = 1; step <= 16; step += 1) {
    for (const attention of ["encoder", "cross"]) panel.go({ step, attention, level: step % 2 ? "pieces" : "words" });
    await new Promise(requestAnimationFrame);
    const text = document.querySelector(".step").innerText;
    steps.push({
      title: document.querySelector(".step-title").textContent,
      questions: document.querySelectorAll(".questions summary").length,
      here: document.querySelectorAll(".block[data-here]").length,
      invalid: ["undefined", "NaN"].filter((bad) => text.includes(bad)),
      tooWide: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    });
  }
  return steps;
}"""


class LookServer:
    """The files of the page and one look, with the content security policy of the real service."""

    def __init__(self) -> None:
        self.look: dict[str, Any] = {}
        look_server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, body = look_server.respond(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Security-Policy", "default-src 'self'; img-src 'self' data:")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # the browser requests all modules at once

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def respond(self, path: str) -> tuple[str, bytes]:
        if path == "/look.json":
            return "application/json", json.dumps(self.look).encode()
        generated = {"/": ("text/html", PAGE), "/main.js": ("text/javascript", MAIN)}
        if path in generated:
            kind, text = generated[path]
            return kind, text.encode()
        file = WEB / path.removeprefix("/")
        kind = "text/css" if file.suffix == ".css" else "text/javascript"
        return kind, file.read_bytes() if file.is_file() else b""
