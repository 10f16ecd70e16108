"""The faults of a training and of a stranger's model, each made to happen and measured. See ../faults.py."""
