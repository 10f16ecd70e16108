"""Text to ids and back: reading lines, normalising, sub-words, and the data doctor. Does not import torch.

Names are imported on first use: reading a file loads neither SentencePiece nor NumPy.
"""

from typing import TYPE_CHECKING

from regard.lazy import lazy_names

# imported here because it has the name of its module, which would shadow it
from regard.text.normalise import normalise as normalise

if TYPE_CHECKING:
    from regard.text.corpus import Corpus as Corpus
    from regard.text.corpus import count_pairs as count_pairs
    from regard.text.corpus import fingerprint as fingerprint
    from regard.text.corpus import held_out_share as held_out_share
    from regard.text.corpus import is_held_out as is_held_out
    from regard.text.doctor.examine import examine as examine
    from regard.text.doctor.findings import CorpusReport as CorpusReport
    from regard.text.labelled import LabelledFile as LabelledFile
    from regard.text.labelled import read_labelled as read_labelled
    from regard.text.labelled import sort_labels as sort_labels
    from regard.text.lines import STDIN as STDIN
    from regard.text.lines import ReadNotes as ReadNotes
    from regard.text.lines import read_lines as read_lines
    from regard.text.tokenizer import TOKENIZER_FILES as TOKENIZER_FILES
    from regard.text.tokenizer import Tokenizer as Tokenizer
    from regard.text.tokenizer import TokenizerPair as TokenizerPair
    from regard.text.tokenizer import read_tokenizers as read_tokenizers
    from regard.text.vocabulary import train_tokenizer as train_tokenizer
else:
    _NAMES = {
        "corpus": ["Corpus", "count_pairs", "fingerprint", "held_out_share", "is_held_out"],
        "doctor.examine": ["examine"],
        "doctor.findings": ["CorpusReport"],
        "labelled": ["LabelledFile", "read_labelled", "sort_labels"],
        "lines": ["STDIN", "ReadNotes", "read_lines"],
        "normalise": ["normalise"],
        "tokenizer": ["TOKENIZER_FILES", "Tokenizer", "TokenizerPair", "read_tokenizers"],
        "vocabulary": ["train_tokenizer"],
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
