"""Model internals and training progress, for the page."""
