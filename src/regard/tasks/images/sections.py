"""The [data] section of a recipe for images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from regard.data import Source
from regard.tasks.sections import DataSection, FullPath

Side = Annotated[int, Field(ge=1, le=4096)]


class ImagesConfig(BaseModel, frozen=True, extra="forbid"):
    """A folder with one folder per class, an `.npz` file, or an IDX file of `images` with one of `labels`."""

    images: FullPath
    labels: FullPath | None = None

    def source(self) -> Source:
        return Source(self.images, self.labels)


class ImageDataConfig(DataSection[ImagesConfig], frozen=True, extra="forbid"):
    """Training and validation images, their size, and how training changes them."""

    # every image is stretched to this size; unset: that of all images, up to 64 × 64
    height: Side | None = None
    width: Side | None = None
    channels: Literal[1, 3] | None = None  # 1: grey, 3: colour; unset: colour if any image has it
    # in training, each image is moved by up to so many pixels; unset: one in 14 of the smaller side, if that is small
    shift: int | None = Field(default=None, ge=0, le=4096)
    flip: bool = False  # in training, half of the images are mirrored
