"""Dynamic batching: the queue of a model, and its worker threads."""
