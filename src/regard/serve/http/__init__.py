"""HTTP: server, protocol, admission, responses, monitoring."""
