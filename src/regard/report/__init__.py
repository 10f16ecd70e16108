"""The story of a run: its journal as curves, samples and findings."""
