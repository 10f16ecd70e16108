"""Regard trains a translator on two text files.

Public names are imported on first use, so that `import regard` does not load torch.
"""

from regard.lazy import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "artifact": ["load_model"],
        "errors": ["RegardError", "UserError"],
        "lens": ["Lens"],
        "loading": ["load"],
        "run": ["Recipe", "train"],
        "text": ["Tokenizer"],
        "translator": ["Translation", "Translator"],
    },
)
