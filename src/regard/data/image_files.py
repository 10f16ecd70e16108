"""Reads images: PNG and JPEG by Pillow, `.npz` files of arrays, and MNIST's IDX files.

They may come from anywhere: sizes are known before memory is taken, and nothing is unpickled.

N images, H rows, W columns, C channels
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings

import numpy as np
from numpy.typing import NDArray

from regard.data.images import Pixels
from regard.errors import DataError, UserError

if TYPE_CHECKING:
    from PIL.Image import Image

OnProgress = Callable[[int, int], None]

SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_FILE_BYTES = 50_000_000  # of one image
_PROGRESS_EVERY = 100  # images
_MAX_PIXELS = 2**24  # of one image; decoded, it takes four bytes for each
_MAX_ARRAY_BYTES = 2**33
_BOMB_BYTES, _BOMB_RATIO = 2**26, 200  # what unpacks to more than this, and so many times its size, is no photograph
_MAX_ARRAY_HEADER = 10_000
_GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B")
_FORMATS = ("PNG", "JPEG")
_OTHER_FILE = "save it again as PNG or JPEG, or remove it"
# in an .npz file: the arrays of MNIST, of MedMNIST, and of files with one part
_ARRAYS = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("x", "y"), ("images", "labels")),
    "validation": (("x_val", "y_val"), ("val_images", "val_labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels"), ("x", "y"), ("images", "labels")),
}
_IDX_BYTES = b"\0\0\x08"  # how a file begins whose values are bytes; then comes the number of its dimensions
_IMAGE_DIMENSIONS = (3, 4)  # with the number of images in front


class Size(NamedTuple):
    """Of every image that a model reads."""

    height: int
    width: int
    channels: int  # 1: grey; 3: red, green, blue


@dataclass(frozen=True)
class Source:
    """A folder with a folder of images per class, an `.npz` file, or an IDX file of images and one of their labels."""

    path: Path
    labels: Path | None = None  # of an IDX file; unset: the file whose name has "labels" in place of "images"

    @property
    def name(self) -> str:
        return self.path.name


class Images(NamedTuple):
    """Decoded images, with the label and the name of each."""

    pixels: Pixels  # (N, H, W, C)
    labels: tuple[str, ...]
    names: tuple[str, ...]


def read_images(
    source: Source, size: Size | None = None, part: str = "train", on_progress: OnProgress | None = None
) -> Images | None:
    """All images of a source in one size. None if an `.npz` file has no such part; other sources have only one.

    `on_progress` is called now and then with the number of images that were read from a folder, and that of all.
    """
    if source.path.is_dir():
        return _read_folder(source.path, size, on_progress)
    if not source.path.exists():
        raise DataError(f"{source.path}: no such file or folder", hint="check the path")
    if not source.path.is_file():
        raise DataError(f"{source.path} is a pipe or a device, not a file", hint="write the images to a file first")
    arrays = _read_npz(source.path, part) if zipfile.is_zipfile(source.path) else _read_idx(source)
    if arrays is None:
        return None
    pixels, labels = _checked_pixels(arrays[0], source.path), _checked_labels(arrays[1], source.path)
    if len(pixels) != len(labels):
        message = f"{source.path}: {len(pixels):,} images, but {len(labels):,} labels"
        raise DataError(message, hint="there must be one label per image")
    if size is not None and pixels.shape[1:] != size:
        pixels = np.stack([_fitted(_to_image(array), size) for array in pixels])
    return Images(pixels, tuple(labels), tuple(f"{source.name}:{i + 1}" for i in range(len(pixels))))


def files_of(source: Source) -> tuple[Path, ...]:
    """All files, in order."""
    if source.path.is_dir():
        return tuple(path for paths in _class_files(source.path).values() for path in paths)
    if zipfile.is_zipfile(source.path) or not source.path.exists():
        return (source.path,)
    return source.path, _idx_labels(source)


def read_image(source: Path | bytes, size: Size, name: str) -> Pixels:
    """(H, W, C) of one image: a file, its bytes, or with `FILE:N` number N of an `.npz` or IDX file, from 1."""
    if isinstance(source, Path):
        path, _, number = str(source).rpartition(":")
        if number.isdecimal() and not source.exists() and Path(path).is_file():
            return _numbered(Source(Path(path)), int(number), size)
        source = _read_file(source)
    with _opened(source, name) as image:
        return _decoded(image, size, name)


def common_size(sources: Sequence[Source]) -> tuple[set[tuple[int, int]], bool]:
    """All heights and widths that occur in folders, and whether any image has colours; from headers only."""
    sizes: set[tuple[int, int]] = set()
    is_colour = False
    for source in sources:
        if not source.path.is_dir():
            images = read_images(source)
            if images is not None:
                sizes.add((images.pixels.shape[1], images.pixels.shape[2]))
                is_colour |= images.pixels.shape[3] > 1
            continue
        for path in files_of(source):
            with _opened(_read_file(path), str(path)) as image:
                sizes.add((image.height, image.width))
                is_colour |= image.mode not in _GREY_MODES
    return sizes, is_colour


def _numbered(source: Source, number: int, size: Size) -> Pixels:
    images = read_images(source, part="test") or read_images(source)
    if images is None or not 1 <= number <= len(images.pixels):
        n = 0 if images is None else len(images.pixels)
        raise DataError(f"{source.path} has no image {number}", hint=f"it has {n:,}, counted from 1")
    pixels = images.pixels[number - 1]
    return pixels if pixels.shape == size else _fitted(_to_image(pixels), size)


def _read_folder(folder: Path, size: Size | None, on_progress: OnProgress | None) -> Images:
    files = _class_files(folder)
    if size is None:
        raise ValueError("images of a folder need a size")
    n = sum(map(len, files.values()))
    _require_memory(folder, n * prod(size))
    pixels, labels = np.empty((n, *size), np.uint8), list[str]()
    names = tuple(f"{label}/{path.name}" for label, paths in files.items() for path in paths)
    for label, paths in files.items():
        for path in paths:
            with _opened(_read_file(path), str(path)) as image:
                pixels[len(labels)] = _decoded(image, size, str(path))
            labels.append(label)
            if on_progress is not None and len(labels) % _PROGRESS_EVERY == 0:
                on_progress(len(labels), n)
    return Images(pixels, tuple(labels), names)


def _class_files(folder: Path) -> dict[str, list[Path]]:
    """The images of each class, in order; what is no image, or hidden, is ignored."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = {path.name: sorted(filter(_is_image, path.iterdir())) for path in folders}
    if empty := [name for name, paths in found.items() if not paths]:
        inner = any(path.is_dir() for path in (folder / empty[0]).iterdir())
        hint = f"use {folder / empty[0]}" if inner else f"it may have {', '.join(SUFFIXES)}; remove an empty folder"
        raise DataError(f"{folder / empty[0]}: no images", hint=hint)
    if not found:
        raise DataError(f"{folder}: no folders of images", hint="put the images of each class into a folder of its own")
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def _read_file(path: Path) -> bytes:
    if not path.is_file():
        reason = "is not a file" if path.exists() else "no such file"
        raise DataError(f"{path}: {reason}", hint="give a PNG or JPEG file, or FILE.npz:NUMBER")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})", hint="check its permissions") from error
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{path}: an image may have {MAX_FILE_BYTES:,} bytes at most", hint="make it smaller")
    return data


def _opened(data: bytes, name: str) -> Image:
    """Reads the header only; raises DataError if there is none, or if the image is too large."""
    pillow = _pillow()
    hint = f"an image may have {_MAX_PIXELS:,} pixels at most: make it smaller"
    try:
        with catch_warnings(action="ignore", category=pillow.DecompressionBombWarning):  # refused below, by name
            image: Image = pillow.open(BytesIO(data), formats=_FORMATS)
    except pillow.DecompressionBombError as error:
        raise DataError(f"{name}: the image has too many pixels", hint=hint) from error
    except Exception as error:  # whatever a damaged file leads to
        raise DataError(f"{name}: not a PNG or JPEG image, or it is damaged", hint=_OTHER_FILE) from error
    if image.format == "JPEG" and prod(image.size) > _MAX_PIXELS:
        image.draft(None, (image.width // 8, image.height // 8))  # decodes fewer pixels
    if prod(image.size) > _MAX_PIXELS:
        raise DataError(f"{name}: {image.width:,} × {image.height:,} pixels", hint=hint)
    return image


def _decoded(image: Image, size: Size, name: str) -> Pixels:
    from PIL import ImageOps

    try:
        upright = ImageOps.exif_transpose(image)
        return _fitted(upright, size)
    except Exception as error:  # whatever a damaged file leads to
        raise DataError(f"{name}: the image is damaged ({error})"[:300], hint=_OTHER_FILE) from error


def _fitted(image: Image, size: Size) -> Pixels:
    """(H, W, C): what is transparent becomes white; other sizes are stretched."""
    pillow = _pillow()
    if image.mode.startswith("I"):  # 16 bits
        image = pillow.fromarray((np.asarray(image).astype(np.int64).clip(0, 65_535) >> 8).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if size.channels == 1 else "RGB")
    if (image.height, image.width) != size[:2]:
        image = image.resize((size.width, size.height), pillow.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8).reshape(size)


def _to_image(pixels: Pixels) -> Image:
    image: Image = _pillow().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    return image


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        hint = "in Regard's directory, run: pip install '.[images]'"
        raise UserError("reading images needs the package Pillow", hint=hint) from error
    return Image


def _read_npz(path: Path, part: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        named = next((pair for pair in _ARRAYS[part] if set(pair) <= members.keys()), None)
        if named is None and part == "train":
            known = "; ".join(" and ".join(pair) for pair in _ARRAYS["train"])
            raise DataError(f"{path} has no arrays of images and labels", hint=f"name them {known}")
        if named is None:
            return None
        first, second = (_read_array(archive, members[name], path) for name in named)
    return first, second


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    """One array. Its size is compared with that of the file before memory is taken."""
    name = f"{path}: {info.filename}"
    if info.file_size > _BOMB_BYTES and info.file_size > _BOMB_RATIO * max(1, info.compress_size):
        raise DataError(f"{name} is a decompression bomb: {info.compress_size:,} bytes unpack to {info.file_size:,}")
    _require_memory(path, info.file_size)
    try:
        with archive.open(info) as file:
            shape, is_fortran, dtype = _array_header(file)
            if dtype.kind not in "buiU":
                raise DataError(
                    f"{name} has values of the type {dtype}", hint="save images as uint8, labels as integers"
                )
            n_bytes = prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or n_bytes > info.file_size:
                raise DataError(f"{name} is damaged: {n_bytes:,} bytes in a file of {info.file_size:,}")
            data = file.read(n_bytes)
        order: Any = "F" if is_fortran else "C"
        return np.frombuffer(data, dtype).reshape(shape, order=order)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{name} is damaged: {error}"[:300]) from error


def _array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file, _MAX_ARRAY_HEADER)
    return header


def _read_idx(source: Source) -> tuple[NDArray[Any], NDArray[Any]]:
    return _idx_array(source.path, _IMAGE_DIMENSIONS), _idx_array(_idx_labels(source), (1,))


def _idx_labels(source: Source) -> Path:
    if source.labels is not None:
        return source.labels
    name = source.path.name.replace("images", "labels").replace("idx3", "idx1")
    if name == source.path.name or not (path := source.path.with_name(name)).is_file():
        hint = "give its file with --labels, or a folder with one folder per class, or an .npz file"
        raise DataError(f"{source.path}: the labels of its images are not beside it", hint=hint)
    return path


def _idx_array(path: Path, dimensions: tuple[int, ...]) -> NDArray[Any]:
    """The format of MNIST's own files, plain or packed with gzip: a type, the sizes, and the bytes."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_packed else path.open("rb") as file:
            header = file.read(4)
            if header[:3] != _IDX_BYTES or header[3:] not in map(bytes, zip(dimensions)):
                raise DataError(f"{path} is neither a folder of images, an .npz file, nor an IDX file of bytes")
            shape = tuple(int.from_bytes(file.read(4)) for _ in range(header[3]))
            n_bytes, size = prod(shape), path.stat().st_size
            if n_bytes > (size * _BOMB_RATIO if is_packed else size):
                raise DataError(f"{path} is damaged: {n_bytes:,} bytes in a file of {size:,}")
            _require_memory(path, n_bytes)
            data = file.read(n_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(data) != n_bytes:
        raise DataError(f"{path} is damaged: {' × '.join(map(str, shape))} bytes were expected, and there are others")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _checked_pixels(array: NDArray[Any], path: Path) -> Pixels:
    """(N, H, W, C) with one channel or three."""
    pixels = array[..., None] if array.ndim == _IMAGE_DIMENSIONS[0] else array
    if pixels.dtype != np.uint8 or pixels.ndim != _IMAGE_DIMENSIONS[1] or pixels.shape[3] not in (1, 3):
        shown = " × ".join(map(str, array.shape))
        hint = "images are bytes (uint8): number × height × width, or with 1 or 3 channels as a fourth dimension"
        raise DataError(f"{path}: the images are {array.dtype} of the size {shown}", hint=hint)
    if not prod(pixels.shape):
        raise DataError(f"{path} has no images")
    return np.ascontiguousarray(pixels)


def _checked_labels(array: NDArray[Any], path: Path) -> list[str]:
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        shown = " × ".join(map(str, array.shape))
        raise DataError(f"{path}: the labels have the size {shown}", hint="there must be one label per image")
    return [str(label) for label in flat.tolist()]


def _require_memory(path: Path, n_bytes: int) -> None:
    if n_bytes > _MAX_ARRAY_BYTES:
        raise DataError(
            f"{path}: the images take {n_bytes / 1e9:,.1f} GB, and {_MAX_ARRAY_BYTES / 1e9:,.1f} GB is the limit",
            hint="use fewer images, or smaller ones (data.height, data.width)",
        )
