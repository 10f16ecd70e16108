"""Marian's models, such as OPUS-MT, in the layout of Hugging Face transformers: import and export.

Three symmetries make both exact, without changes to the architecture:

- Positions: their sines come first, then their cosines; ours alternate. A permutation of the vector between layers
  changes nothing that a Transformer computes, so the columns and rows of every matrix are permuted.
- Ids: the rows of the embeddings are permuted so that pad, unk, bos and eos have our ids.
- Start: their decoder begins with padding. Our begin token gets a copy of the padding's row.
"""
