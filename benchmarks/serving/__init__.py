"""The service under load and under attack: a small HTTP client, the real command as a child, and a module a subject."""
