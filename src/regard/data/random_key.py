"""Seeds as a pure function of the seed of a run and the position in the run."""

import hashlib


def random_key(seed: int, *parts: int | str) -> int:
    """Mix a seed with names and numbers, e.g. `random_key(seed, "dropout", step, rank)`.

    The same arguments give the same 63-bit number on every machine, and different arguments an unrelated one. So a
    resumed run gets the random numbers of an uninterrupted one, without saving the state of a generator.
    """
    text = repr((seed, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
