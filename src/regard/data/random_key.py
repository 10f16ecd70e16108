"""Seeds for everything random: a pure function of the run's seed and of where in the run we are."""

import hashlib


def random_key(seed: int, *parts: int | str) -> int:
    """Mix a seed with names and numbers, e.g. `random_key(seed, "dropout", step, rank)`.

    The same arguments give the same 63-bit number on every machine; any other arguments give an unrelated one.
    So a resumed run draws what the uninterrupted run would have drawn, without saving a generator's state.
    """
    text = repr((seed, *parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
