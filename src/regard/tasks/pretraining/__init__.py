"""Pre-training: text without labels in, an encoder out that other tasks start from."""
