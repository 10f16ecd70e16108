"""What a training will cost: operations, memory, disk and time, here or on a cluster, before anything is spent."""
