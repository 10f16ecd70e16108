"""The data doctor: checks a parallel corpus."""
