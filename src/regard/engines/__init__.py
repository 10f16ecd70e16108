"""How a finished model is run: torch (reference, every architecture) and CTranslate2 (fast)."""
