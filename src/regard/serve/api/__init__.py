"""The API of /v1."""
