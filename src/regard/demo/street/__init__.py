"""The street corpus."""
