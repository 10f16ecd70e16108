"""Models of other software: imported into a model directory, and exported from one."""
