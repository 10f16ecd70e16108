"""`regard look`: shows what a model computes, as text, picture, HTML or JSON."""

from pathlib import Path
from typing import TypeVar

import typer

from regard.cli.look import options
from regard.errors import UserError

T = TypeVar("T")

_N_POSITIONS, _PAPER_D_MODEL, _BEAM = 100, 512, 4

# options that only some modes use
_CORPUS = {"source", "reference", "bleu"}
_SELECTION = {"attention", "layer", "head", "level"}
_NO_SELECTION: dict[str, set[str]] = {
    "states": _SELECTION,
    "dependence": _SELECTION - {"level"},
    "reach": _SELECTION,
}
_INTERVENTIONS = {"heads_off", "no_scale", "no_mask", "positions_as"}
_SENTENCE = {"translation", "beam", "show"} | _SELECTION | _INTERVENTIONS


def look(
    context: typer.Context,
    run: options.Run = None,
    text: options.Text = None,
    translation: options.Translation = None,
    target: options.Target = None,
    beam: options.Beam = None,
    positions: options.Positions = False,
    png: options.Png = None,
    svg: options.Svg = None,
    html: options.Html = None,
    as_json: options.Json = None,
    show: options.Show = "attention",
    attention: options.Attention = None,
    layer: options.Layer = None,
    head: options.HeadNumber = None,
    level: options.Level = "words",
    heads_off: options.HeadsOff = None,
    no_scale: options.NoScale = False,
    no_mask: options.NoMask = False,
    positions_as: options.PositionsAs = "normal",
    heads: options.Heads = False,
    source: options.Source = None,
    reference: options.Reference = None,
    bleu: options.Bleu = False,
) -> None:
    """Look inside a model while it translates. Shows probabilities, attention, and the effect of ablations.

    Layers and heads are counted from 1.
    """
    from regard.artifact import describe
    from regard.cli.model_path import model_path

    run = None if run is None else model_path(run)
    outputs = options.Outputs(png, svg, html, as_json)
    outputs.check([source, reference])
    if positions:
        options.reject(context, "--positions", {"text", "html", "as_json", "heads", "target"} | _SENTENCE | _CORPUS)
        _draw_positions(run, outputs)
    elif heads:
        options.reject(context, "--heads", {"text", "html"} | _SENTENCE)
        from regard.cli.look.heads import look_at_heads

        look_at_heads(_require(run, "a run"), source, reference, outputs, target=target, bleu=bleu)
    elif run is not None and text is not None and (described := describe(run)).task != "translation":
        ignored = {"target"} | _SENTENCE | _CORPUS
        options.reject(context, f"the task {described.task!r}", ignored)
        from regard.cli.look.recorded import look_at_example

        look_at_example(described, text, outputs)
    else:
        options.reject(context, "a sentence", _CORPUS)
        if translation is not None:
            options.reject(context, "--translation", {"beam"})
        if show in _NO_SELECTION:
            options.reject(context, f"--show {show}", _NO_SELECTION[show])
        if outputs.only_json:
            options.reject(context, "--json", _SELECTION | (set() if show in ("dependence", "reach") else {"show"}))
        from regard.cli.look.sentence import look_at_sentence, parse_heads
        from regard.lens import Interventions

        text, run = _require(text, "a sentence"), _require(run, "a run")
        selection = options.HeadSelection(attention, layer, head, level)
        interventions = Interventions(
            heads_off=parse_heads(heads_off or ""), scale=not no_scale, mask=not no_mask, positions=positions_as
        )
        settings = {"translation": translation, "beam": beam or _BEAM, "target": target}
        look_at_sentence(run, text, outputs, show, selection, interventions, **settings)


def _require(value: T | None, what: str) -> T:
    if value is None:
        raise UserError(f"{what} is missing", hint='regard look RUN "A sentence."; regard look --help')
    return value


def _draw_positions(run: Path | None, outputs: options.Outputs) -> None:
    """Draws the positional encoding of the paper, or of a model."""
    if not outputs.any:
        raise UserError("--positions needs an output file", hint="add --png FILE or --svg FILE")
    from regard.lens.plots.heatmaps import draw_positions

    if run is None:
        from regard.nn import sinusoid

        table = sinusoid(_N_POSITIONS, _PAPER_D_MODEL)
        title, subject = "Positional encoding", "Sine and cosine, as in the paper"
    else:
        from regard.artifact import load_model
        from regard.lens.ablate import position_modules

        found = next(position_modules(load_model(run).model), None)
        if found is None:
            raise UserError(f"the model of {run} has no vectors of positions")
        name, positions = found
        table = positions(min(_N_POSITIONS, positions.limit or _N_POSITIONS)).detach()
        title = "Positional encoding" if positions.limit is None else "Learned positions"
        subject = f"{name} of {run}"
    outputs.draw(draw_positions(table.numpy(), title, f"{subject}, d_model {table.shape[1]}"))
