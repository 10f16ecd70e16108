"""Objectives, schedules, the loop, checkpoints."""
