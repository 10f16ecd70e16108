"""Recipe = data + model + training; the one place that wires the rooms."""
