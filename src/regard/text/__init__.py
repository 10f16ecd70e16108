"""Text ↔ ids: reading lines, normalising, sub-words, the data doctor. Never imports torch."""
