"""Fault injection: interrupted trainings and malicious model directories. See ../faults.py."""
