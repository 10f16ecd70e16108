"""Exports a translator to ONNX: encoder and decoder, for onnxruntime."""
