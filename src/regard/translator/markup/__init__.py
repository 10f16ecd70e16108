"""HTML in, HTML out: translates the text and carries the tags across."""
