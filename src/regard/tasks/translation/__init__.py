"""Translation: parallel text in, a translator out."""
