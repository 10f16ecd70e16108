"""Pictures of a look, drawn with matplotlib."""
