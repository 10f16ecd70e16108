"""`regard translate`."""
