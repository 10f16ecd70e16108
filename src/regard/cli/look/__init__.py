"""`regard look`."""
