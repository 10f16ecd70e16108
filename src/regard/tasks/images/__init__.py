"""The task "images": images in, their classes out."""
