"""Looks inside a model: text → trace → attention weights, pictures, JSON and HTML.

Names are imported on first use, because interventions, plots and HTML need no torch.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

if TYPE_CHECKING:
    from regard.lens.heads import HeadsTable as HeadsTable
    from regard.lens.interventions import Head as Head
    from regard.lens.interventions import Interventions as Interventions
    from regard.lens.lens import Lens as Lens
    from regard.lens.look import Look as Look
else:
    _NAMES = {
        "heads": ["HeadsTable"],
        "interventions": ["Head", "Interventions"],
        "lens": ["Lens"],
        "look": ["Look"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
