"""The README.md of a model directory: what it is, what it was made from, how good it is, how it is used."""

from regard import __version__
from regard.models import TransformerConfig
from regard.run.recipe import Recipe
from regard.training import Progress, Validation


def model_card(
    recipe: Recipe, config: TransformerConfig, n_parameters: int, n_pairs: int, progress: Progress, found: Validation
) -> str:
    """Plain Markdown; names of files, never what is in them."""
    sources = ", ".join(path.name for one in recipe.data.train for path in one.corpus().files)
    started = f"\n- fine-tuned from: {recipe.start_from.name}" if recipe.start_from is not None else ""
    return f"""# A translation model

Made by regard {__version__}: a Transformer ("Attention Is All You Need"), trained from nothing but text.

- text: {sources} ({n_pairs:,} pairs){started}
- shape: {config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, d_ff {config.d_ff}, \
{config.n_heads} heads, {n_parameters / 1e6:.1f}M parameters
- training: {progress.step:,} steps, {progress.elapsed_seconds / 60:.1f} minutes
- validation: perplexity {found.perplexity:.2f} per sub-word, {found.accuracy:.1%} of the sub-words right\
{_translated(found)}

`config.json` has the shape, `model.safetensors` the weights, `*.model` the vocabulary (SentencePiece), and
`manifest.json` the checksums of all of it. Nothing here is executable.

    echo "A sentence." | regard translate this/folder
"""


def _translated(found: Validation) -> str:
    if found.translated is None:
        return ""
    return f", BLEU {found.translated.bleu:.1f}, chrF++ {found.translated.chrf:.1f} (greedy, on the first of it)"
