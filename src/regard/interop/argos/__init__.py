"""Exports a translator as a package of Argos Translate and LibreTranslate."""
