"""Looking inside a served model, and the status of its training."""
