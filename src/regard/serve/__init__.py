"""The HTTP service and the page."""
