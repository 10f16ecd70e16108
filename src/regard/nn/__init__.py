"""The paper's blocks, as plain modules and functions. Only torch."""
