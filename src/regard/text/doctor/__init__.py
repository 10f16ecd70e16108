"""Checks of a parallel corpus: the data doctor."""
