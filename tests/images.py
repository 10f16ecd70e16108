"""Generated images that a small model learns: bars and crosses at random places, on noise."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

LABELS = ("across", "cross", "down")
SIDE = 12


def drawn_images(n: int, seed: int, channels: int = 1) -> tuple[NDArray[np.uint8], list[str]]:
    """(n, SIDE, SIDE, channels) images, and their labels."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 40, (n, SIDE, SIDE, channels), np.uint8)
    classes = rng.integers(len(LABELS), size=n)
    for image, kind in zip(pixels, classes, strict=True):
        row, column = rng.integers(2, SIDE - 2, 2)
        if kind != 2:
            image[row : row + 2] = 220
        if kind != 0:
            image[:, column : column + 2] = 220
    return pixels, [LABELS[kind] for kind in classes]


def write_folder(path: Path, n: int, seed: int = 1, channels: int = 1, suffix: str = "png") -> Path:
    """A folder of images per class."""
    pixels, labels = drawn_images(n, seed, channels)
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        (path / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0] if channels == 1 else image).save(path / label / f"{number:04}.{suffix}")
    return path


def write_npz(path: Path, n: int, seed: int = 1, n_test: int = 30) -> Path:
    """In the form of MNIST's: labels are numbers."""
    arrays = {}
    for part, size, part_seed in (("train", n, seed), ("test", n_test, seed + 1)):
        pixels, labels = drawn_images(size, part_seed)
        arrays |= {
            f"x_{part}": pixels[..., 0],
            f"y_{part}": np.array([LABELS.index(label) for label in labels], np.uint8),
        }
    np.savez_compressed(path, **arrays)
    return path


def write_idx(path: Path, n: int, seed: int = 1) -> Path:
    """Two packed files as MNIST's; returns that of the images."""
    pixels, labels = drawn_images(n, seed)
    images = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4) for size in (n, SIDE, SIDE)) + pixels.tobytes()
    numbers = bytes([0, 0, 8, 1]) + n.to_bytes(4) + bytes(LABELS.index(label) for label in labels)
    path.mkdir(exist_ok=True)
    (path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(numbers))
    (path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    return path / "train-images-idx3-ubyte.gz"
