"""Gradients of a batch, computed in one process or two."""
