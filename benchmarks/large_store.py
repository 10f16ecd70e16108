"""Memory of a rank, and the time to open and to resume, with token stores of up to a billion pairs.

    python benchmarks/large_store.py --pairs 1000000 100000000 1000000000

The stores are made without text: a few shards of random ids, hard-linked as often as needed. Each is read in a process
of its own: some updates, then updates from cursors at random places of the epoch, across the end of a window.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from regard.data import write_store
from regard.data.shards import ShardEntry, ShardIndex, shard_path, shards_per_window
from regard.text.encoding import EncodedBlock, EncodedSide

PAIRS_PER_SHARD, N_DIFFERENT, VOCABULARY, MEAN_LENGTH = 500_000, 4, 32_000, 28

READ = """
import json, random, resource, sys, time
from itertools import islice
from pathlib import Path
from regard.data import Cursor, Loader, PairCollator
from regard.data.shards import ShardedStore, ShardIndex

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def open_loader():
    store = ShardedStore(directory, ShardIndex.read(directory))
    collate = PairCollator(store=store, pad_id=0, bos_id=2, eos_id=3)
    return Loader(examples=store, collate=collate, max_tokens=25_000, seed=1)

base = peak_mb()
started_at = time.perf_counter()
directory = Path(sys.argv[1])
loader = open_loader()
opened = time.perf_counter() - started_at
rng, resumed, n_tokens = random.Random(1), [], 0
started_at = time.perf_counter()
for update, _ in islice(loader.updates(Cursor()), 300):
    n_tokens += sum(batch.n_targets[0] for batch in update)
tokens_per_second = n_tokens / (time.perf_counter() - started_at)
for _ in range(6):
    window = rng.randrange(loader.examples.n_windows)
    n_batches = len(loader.epoch_order(1, window))
    started_at = time.perf_counter()
    loader = open_loader()  # a resumed training has opened and verified nothing yet
    updates = loader.updates(Cursor(1, n_batches - 20, window))
    next(updates)
    resumed.append(time.perf_counter() - started_at)
    for _ in islice(updates, 40):  # into the next window
        pass
print(json.dumps({
    "windows": loader.examples.n_windows, "open": opened, "resume": max(resumed), "imports_mb": base,
    "peak_mb": peak_mb(), "tokens_per_second": tokens_per_second,
}))
"""


def random_block(rng: np.random.Generator, n_pairs: int) -> EncodedBlock:
    """Sentences of natural lengths, and random ids."""
    lengths = np.clip(rng.lognormal(np.log(MEAN_LENGTH), 0.5, n_pairs), 1, 250).astype(np.int64)
    sides = []
    for side_lengths in (lengths, np.clip(lengths + rng.integers(-4, 5, n_pairs), 1, 255)):
        sides.append(EncodedSide(rng.integers(4, VOCABULARY, int(side_lengths.sum())), side_lengths))
    return EncodedBlock(*sides, np.zeros(n_pairs, np.uint8), np.zeros(n_pairs, np.uint64), n_pairs, 0, 0)


def make_store(directory: Path, n_pairs: int) -> None:
    """A store of hard links to a few different shards."""
    rng, n_shards = np.random.default_rng(1), max(1, n_pairs // PAIRS_PER_SHARD)
    size = min(n_pairs, PAIRS_PER_SHARD)
    entries = []
    for shard in range(n_shards):
        path = shard_path(directory, shard)
        if shard < N_DIFFERENT:
            path.parent.mkdir(parents=True, exist_ok=True)
            blocks = (random_block(rng, size // 50) for _ in range(50))
            write_store(path, blocks, max_length=256, vocab_size=VOCABULARY, key="synthetic")
        else:
            path.mkdir()
            for file in shard_path(directory, shard % N_DIFFERENT).iterdir():
                os.link(file, path / file.name)
        entry = ShardEntry.of(path, "synthetic") if shard < N_DIFFERENT else entries[shard % N_DIFFERENT]
        assert entry is not None
        entries.append(entry)
    index = ShardIndex("synthetic", tuple(entries), shards_per_window(entries), (1.0,), 256, VOCABULARY, {}, {}, ())
    index.write(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 100_000_000, 1_000_000_000], metavar="N")
    args = parser.parse_args()
    print("| pairs | shards | windows | open | resume, slowest of 6 | peak MB | of it before | target tokens/s read |")
    print("|---" * 8 + "|")
    for n_pairs in args.pairs:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
            make_store(Path(directory), n_pairs)
            command = [sys.executable, "-c", READ, directory]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        print(
            f"| {n_pairs:,} | {n_pairs // PAIRS_PER_SHARD:,} | {found['windows']:,} | {found['open'] * 1000:.0f} ms | "
            f"{found['resume']:.1f} s | {found['peak_mb']:,.0f} | {found['imports_mb']:,.0f} | "
            f"{found['tokens_per_second']:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
