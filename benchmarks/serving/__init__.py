"""Load and fault tests of the service: a small HTTP client, the real command as a subprocess, one module per topic."""
