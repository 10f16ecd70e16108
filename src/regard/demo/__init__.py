"""The first run that a newcomer sees."""
