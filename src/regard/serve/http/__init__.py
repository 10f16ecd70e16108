"""The HTTP layer: server, protocol, admission, responses, access log, monitoring."""
