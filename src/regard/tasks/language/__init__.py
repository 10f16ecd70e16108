"""Language models: a text in, what continues it out."""
