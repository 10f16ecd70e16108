"""The fast engine: CTranslate2 on the CPU."""
