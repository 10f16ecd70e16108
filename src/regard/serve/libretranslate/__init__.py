"""LibreTranslate's API, for its existing clients."""
