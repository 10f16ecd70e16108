"""The paper on a text of one's own: its story, and its tables, measured."""
