"""Engines run a trained model: torch (reference, every architecture) and CTranslate2 (fast)."""
