"""Ids → batches: a memory-mapped token store, length buckets, and a resumable order."""

from regard.data.batch import NO_TARGET as NO_TARGET
from regard.data.batch import Batch as Batch
from regard.data.batch import Collator as Collator
from regard.data.batch import Examples as Examples
from regard.data.batch import Place as Place
from regard.data.build import build_store as build_store
from regard.data.loader import Cursor as Cursor
from regard.data.loader import Loader as Loader
from regard.data.loader import fixed_order as fixed_order
from regard.data.loader import prefetch as prefetch
from regard.data.masked_texts import MaskedTexts as MaskedTexts
from regard.data.masked_texts import Masking as Masking
from regard.data.masked_texts import Passages as Passages
from regard.data.pairs import PairCollator as PairCollator
from regard.data.pairs import collate_pairs as collate_pairs
from regard.data.random_key import random_key as random_key
from regard.data.store import TokenStore as TokenStore
from regard.data.store import open_store as open_store
from regard.data.stream import StretchCollator as StretchCollator
from regard.data.stream import Stretches as Stretches
from regard.data.stream import TokenStream as TokenStream
from regard.data.stream import make_stream as make_stream
from regard.data.texts import LabelledTexts as LabelledTexts
from regard.data.texts import TextCollator as TextCollator
from regard.data.texts import collate_texts as collate_texts
from regard.data.texts import cut as cut
