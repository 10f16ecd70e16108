"""`regard look`: what a model does inside, as text, as a picture, as a page, as JSON."""

from pathlib import Path
from typing import TypeVar

from regard.cli.look import options as ask
from regard.errors import UserError

T = TypeVar("T")

_N_POSITIONS, _PAPER_D_MODEL, _BEAM = 100, 512, 4


def look(
    run: ask.Run = None,
    text: ask.Text = None,
    translation: ask.Translation = None,
    target: ask.Target = None,
    beam: ask.Beam = None,
    positions: ask.Positions = False,
    png: ask.Png = None,
    svg: ask.Svg = None,
    html: ask.Html = None,
    as_json: ask.Json = None,
    attention: ask.Attention = None,
    layer: ask.Layer = None,
    head: ask.HeadNumber = None,
    level: ask.Level = "words",
    heads_off: ask.HeadsOff = None,
    no_scale: ask.NoScale = False,
    no_mask: ask.NoMask = False,
    positions_as: ask.PositionsAs = "normal",
    heads: ask.Heads = False,
    source: ask.Source = None,
    reference: ask.Reference = None,
    bleu: ask.Bleu = False,
) -> None:
    """Look inside a model while it translates: how sure it is, what it looks at, what it does when it is changed.

    Layers and heads are counted from 1.
    """
    outputs = ask.Outputs(png, svg, html, as_json)
    outputs.check([source, reference])
    which = ask.Which(attention, layer, head, level)
    change = ask.Altering(heads_off, no_scale, no_mask, positions_as)
    corpus = {"source": source, "reference": reference, "bleu": bleu}
    about_a_sentence = {"TEXT": text, "translation": translation, "beam": beam} | which.given | change.given
    if positions:
        others = {"html": html, "json": as_json, "heads": heads, "target": target}
        ask.refuse("--positions", others | about_a_sentence | corpus)
        _draw_positions(run, outputs)
    elif heads:
        ask.refuse("--heads", {"html": html} | about_a_sentence)
        from regard.cli.look.heads import look_at_heads

        look_at_heads(_needed(run, "a run"), source, reference, outputs, target=target, bleu=bleu)
    else:
        ask.refuse("a sentence", corpus)
        if translation is not None:
            ask.refuse("--translation", {"beam": beam})
        if outputs.only_json:
            ask.refuse("--json", which.given)
        from regard.cli.look.sentence import Sentence, look_at_sentence

        sentence = Sentence(_needed(text, "a sentence"), translation, beam=beam or _BEAM, target=target)
        look_at_sentence(_needed(run, "a run"), sentence, outputs, which, change)


def _needed(given: T | None, what: str) -> T:
    if given is None:
        raise UserError(f"{what} is missing", hint='regard look RUN "A sentence."; regard look --help')
    return given


def _draw_positions(run: Path | None, outputs: ask.Outputs) -> None:
    """The waves of the paper, or what a model adds to its words."""
    if not outputs.any:
        raise UserError("where is the picture to go?", hint="add --png FILE or --svg FILE")
    from regard.lens.plots.pictures import check_matplotlib, draw_positions

    check_matplotlib()
    if run is None:
        from regard.nn import sinusoid

        table, kind, d_model = sinusoid(_N_POSITIONS, _PAPER_D_MODEL), "sinusoidal", _PAPER_D_MODEL
        about = "Sine and cosine of the paper"
    else:
        from regard.lens import Lens

        lens = Lens.load(run)
        config, d_model = lens.loaded.config, lens.loaded.config.d_model
        n_positions = min(_N_POSITIONS, config.max_positions) if config.positions == "learned" else _N_POSITIONS
        table = lens.loaded.model.source.positions(n_positions).detach()
        kind, about = config.positions, f"Source side of {run}"
    title = "Positional encoding" if kind == "sinusoidal" else "Learned positions"
    outputs.draw(draw_positions(table.numpy(), title, f"{about}, d_model {d_model}"))
