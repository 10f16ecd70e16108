"""Looking inside: text → trace → maps, pictures, page data."""
