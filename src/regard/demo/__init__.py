"""The demo: a built-in corpus, a short training on it, and what the model learned."""
