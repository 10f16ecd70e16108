"""Encoders that were pre-trained with other software: BERT, ELECTRA, XLNet."""
