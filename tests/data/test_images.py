"""Batches of images: statistics, and random changes that depend on the place in the run only."""

import numpy as np
import pytest
import torch

from regard.data import ImageCollator, ImageStatistics, LabelledImages, Place

from ..images import drawn_images


@pytest.fixture(scope="module")
def images() -> LabelledImages:
    return LabelledImages(drawn_images(20, seed=1, channels=3)[0], np.arange(20))


def test_normalised_pixels_have_mean_0_and_deviation_1(images: LabelledImages) -> None:
    statistics = ImageStatistics.of(images.pixels)
    scaled = images.pixels / 255
    assert statistics.mean == pytest.approx(scaled.mean((0, 1, 2)))
    assert statistics.std == pytest.approx(scaled.std((0, 1, 2)))
    normalised = statistics.normalise(images.pixels)
    assert normalised.shape == (20, 3, 12, 12) and normalised.dtype == torch.float32
    torch.testing.assert_close(normalised.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalised.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_an_empty_channel_has_no_infinite_values() -> None:
    black = np.zeros((2, 4, 4, 1), np.uint8)
    assert ImageStatistics.of(black).normalise(black).isfinite().all()


def test_changes_are_a_function_of_seed_epoch_and_index(images: LabelledImages) -> None:
    collate = ImageCollator(images=images, statistics=ImageStatistics.of(images.pixels), shift=2, flip=True)

    def pixels(**place: int) -> torch.Tensor:
        return collate(np.arange(20), Place(**({"seed": 1, "step": 1, "epoch": 2, "index": 3} | place))).inputs[0]

    assert torch.equal(pixels(), pixels())
    assert torch.equal(pixels(), pixels(step=9, part=1))  # a resumed run, or another number of ranks
    assert not any(torch.equal(pixels(), pixels(**place)) for place in ({"seed": 2}, {"epoch": 3}, {"index": 4}))


def test_an_image_is_moved_over_its_own_edge() -> None:
    image = np.arange(1, 26, dtype=np.uint8).reshape(1, 5, 5, 1)
    images = LabelledImages(np.repeat(image, 400, 0), np.zeros(400, np.int64))
    collate = ImageCollator(images=images, statistics=ImageStatistics((0.0,), (1 / 255,)), shift=1)
    moved = collate(np.arange(400), Place()).inputs[0][:, 0].numpy().round().astype(np.uint8)
    padded = np.pad(image[0, :, :, 0], 1, mode="edge")
    expected = {padded[i : i + 5, j : j + 5].tobytes() for i in range(3) for j in range(3)}
    assert {row.tobytes() for row in moved} == expected


def test_half_of_the_images_are_mirrored() -> None:
    image = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    images = LabelledImages(np.repeat(image, 200, 0), np.zeros(200, np.int64))
    collate = ImageCollator(images=images, statistics=ImageStatistics((0.0,), (1 / 255,)), flip=True)
    batch = collate(np.arange(200), Place()).inputs[0][:, 0].numpy().round().astype(np.uint8)
    is_mirrored = (batch == image[0, :, ::-1, 0]).all((1, 2))
    assert (is_mirrored | (batch == image[0, :, :, 0]).all((1, 2))).all()
    assert 60 < is_mirrored.sum() < 140
