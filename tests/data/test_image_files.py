"""Files of images: every form gives the same pixels, and damaged or hostile ones are refused by name."""

import gzip
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data import Images, Size, Source, common_size, read_image, read_images
from regard.errors import DataError, UserError

from ..images import LABELS, SIDE, drawn_images, write_folder, write_idx, write_npz

SIZE = Size(SIDE, SIDE, 1)


def read(path: Path, size: Size | None = SIZE, part: str = "train") -> Images:
    images = read_images(Source(path), size, part)
    assert images is not None
    return images


def test_folders_arrays_and_idx_files_have_the_same_images(tmp_path: Path) -> None:
    pixels, labels = drawn_images(40, seed=1)
    npz, idx = read(write_npz(tmp_path / "a.npz", 40), None), read(write_idx(tmp_path / "idx", 40), None)
    for images in (npz, idx):
        np.testing.assert_array_equal(images.pixels, pixels)
        assert [LABELS[int(label)] for label in images.labels] == labels
    folder = read(write_folder(tmp_path / "folder", 40))
    order = sorted(range(40), key=lambda i: (labels[i], i))
    np.testing.assert_array_equal(folder.pixels, pixels[order])
    assert folder.labels == tuple(labels[i] for i in order)
    assert folder.names[0] == f"across/{order[0]:04}.png"
    assert npz.names[4] == "a.npz:5"


def test_the_test_part_is_not_the_training_part(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", 10, n_test=7)
    assert len(read(path, None, "test").pixels) == 7
    assert read_images(Source(path), None, "validation") is None
    np.testing.assert_array_equal(read_image(tmp_path / "a.npz:3", SIZE, ""), read(path, None, "test").pixels[2])
    with pytest.raises(DataError, match=r"a\.npz has no image 8"):
        read_image(tmp_path / "a.npz:8", SIZE, "")


def test_sizes_and_colours_are_found_out_from_headers(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", 9)
    assert common_size([Source(folder)]) == ({(SIDE, SIDE)}, False)
    Image.new("RGB", (20, 10)).save(folder / "cross" / "wide.jpg")
    assert common_size([Source(folder)]) == ({(SIDE, SIDE), (10, 20)}, True)
    assert read(folder, Size(8, 16, 3)).pixels.shape[1:] == (8, 16, 3)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_every_kind_of_image_can_be_read(tmp_path: Path, mode: str) -> None:
    value = {"1": 1, "I;16": 65_535, "LA": (255, 255), "RGBA": (255, 255, 255, 255), "CMYK": (0, 0, 0, 0)}.get(
        mode, 255
    )
    name = "a.jpg" if mode == "CMYK" else "a.png"
    Image.new(mode, (6, 4), value if mode not in ("RGB", "P") else {"RGB": (255, 255, 255), "P": 0}[mode]).save(
        tmp_path / name
    )
    for channels in (1, 3):
        pixels = read_image(tmp_path / name, Size(4, 6, channels), "a")
        assert pixels.shape == (4, 6, channels)
        assert mode == "P" or (pixels == 255).all()


def test_what_is_transparent_is_white_and_photographs_are_upright(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png", Size(4, 4, 1), "") == 255).all()
    photograph = Image.fromarray(np.repeat(np.array([[0], [255]], np.uint8), 8, 0).repeat(8, 1))  # dark above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    photograph.save(tmp_path / "turned.jpg", exif=exif, quality=100)
    pixels = read_image(tmp_path / "turned.jpg", Size(16, 8, 1), "")
    assert pixels[0].mean() > 200 and pixels[-1].mean() < 50


def png_header(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def hostile_images() -> dict[str, tuple[bytes, str]]:
    good = io.BytesIO()
    Image.fromarray(drawn_images(1, 1)[0][0, ..., 0]).save(good, "PNG")
    gif = io.BytesIO()
    Image.new("L", (4, 4)).save(gif, "GIF")
    return {
        "empty": (b"", "not a PNG or JPEG"),
        "text": (b"hello", "not a PNG or JPEG"),
        "gif": (gif.getvalue(), "not a PNG or JPEG"),
        "cut": (good.getvalue()[:60], "damaged"),
        "flipped": (good.getvalue()[:50] + b"\xff" + good.getvalue()[51:], "damaged"),
        "large": (png_header(5000, 5000), "5,000 × 5,000 pixels"),
        "bomb": (png_header(40_000, 40_000, zlib.compress(bytes(10_000_000))), "pixels"),
        "huge": (png_header(2**31 - 1, 2**31 - 1), "pixels|not a PNG"),
        "no data": (png_header(1000, 1000), "damaged"),
        "pickle": (pickle.dumps([1]), "not a PNG or JPEG"),
    }


@pytest.mark.parametrize("name", hostile_images())
def test_a_broken_or_huge_image_is_refused_by_name(tmp_path: Path, name: str) -> None:
    data, message = hostile_images()[name]
    write_folder(tmp_path / "folder", 9)
    path = tmp_path / "folder" / "down" / "bad.png"
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"bad.png: .*({message}).*; hint: .*(save it again|make it smaller)"):
        read_image(path, SIZE, str(path))
    with pytest.raises(DataError, match=f"bad.png: .*({message})"):
        read(tmp_path / "folder")


def npy(header: str, data: bytes = b"") -> bytes:
    padded = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + data


def npz_of(path: Path, images: bytes, labels: bytes | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_train.npy", images)
        archive.writestr("y_train.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", b"\0\1")
                         if labels is None else labels)  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", pickle.dumps([1, 2])),
            "values of the type object",
        ),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 4)}", bytes(31)), "damaged"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 999999, 999999)}", bytes(9)), "damaged"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 1)}", bytes(8)), "save images as uint8"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 4, 2)}", bytes(64)), "size 2 × 4 × 4 × 2"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 4)}", bytes(48)), "3 images, but 2 labels"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-2, 4, 4)}", bytes(48)), "damaged"),
        (npy("__import__('os').system('touch executed')", b""), "damaged"),
        (b"no array", "damaged"),
        (bytes(2**27), "decompression bomb"),
    ],
)
def test_an_npz_file_is_checked_and_never_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"bad.npz.*{message}"):
        read(npz_of(tmp_path / "bad.npz", images), None)
    assert not (tmp_path / "executed").exists()


def test_damaged_idx_files_are_refused(tmp_path: Path) -> None:
    path = write_idx(tmp_path / "idx", 5)
    data = gzip.decompress(path.read_bytes())
    bomb = bytes([0, 0, 8, 3]) + struct.pack(">III", 2**20, 2**10, 2**10)
    for content in (data[:-1], data + b"x", data[:10], b"\0\0\x0d\x03" + data[4:], b"", bomb):
        for packed in (content, gzip.compress(content)):
            path.write_bytes(packed)
            with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz"):
                read(path, None)
    path.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read(path, None)
    path.write_bytes(gzip.compress(data))
    path.with_name("train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="labels of its images are not beside it"):
        read(path, None)


def test_folders_that_are_none_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "nothing")
    with pytest.raises(DataError, match="no folders of images"):
        read(tmp_path)
    write_folder(tmp_path / "data" / "train", 9)
    with pytest.raises(DataError, match=r"no images.*use .*train"):
        read(tmp_path / "data")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe or a device"):
        read(tmp_path / "pipe")
    with pytest.raises(DataError, match="is not a file"):
        read_image(tmp_path / "pipe", SIZE, "")


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    """In a process of its own, with all modules loaded before memory is measured."""
    (tmp_path / "bomb.png").write_bytes(hostile_images()["bomb"][0])
    (tmp_path / "large.png").write_bytes(png_header(4096, 4096, zlib.compress(bytes(3 * 4096 * 4096 + 4096))))
    script = f"""
import resource
from pathlib import Path
from regard.data import Size, read_image
from regard.errors import DataError
from PIL import ImageOps, PngImagePlugin
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in ("bomb.png", "large.png"):
    try:
        read_image(Path({str(tmp_path)!r}) / name, Size(28, 28, 1), name)
    except DataError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(result.stdout) * unit < 200_000_000, result.stderr
