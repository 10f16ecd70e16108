"""Trains and serves tiny models: translators with and without attention, classifiers, and a memory network.

`python tests/page/foreign_server.py FOLDER` prints the names and the address of the models, as `regard serve` does.
FOLDER has the text of the translator: tests/digits.py.
"""

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "foreign"), str(TESTS)]

import bag_of_words  # noqa: E402, F401 - registers its architecture
from vectors import write_vectors  # noqa: E402 - registers its task and its architecture

from labelled import write_labelled  # noqa: E402
from regard.cli import main  # noqa: E402
from regard.run import train  # noqa: E402
from stories import write_stories  # noqa: E402

if __name__ == "__main__":
    os.chdir(sys.argv[1])
    training = {"two_processes": "off", "steps": 60, "validate_every": 20, "max_tokens": 256}
    translators = {"bag": {"architecture": "bag-of-words"}, "gru": {"architecture": "gru", "d_model": 16}}
    for name, model in translators.items():
        train(
            {
                "data": {"train": [{"source": "digits.src", "target": "digits.tgt"}]},
                "text": {"vocabulary": 300},
                "model": model,
                "training": training | {"rate": 0.01, "schedule": "constant"},
            },
            Path(name),
            fill_defaults=True,
        )
    files = {name: write_vectors(Path(f"{name}.jsonl"), n, n) for name, n in (("train", 240), ("validation", 60))}
    train(
        {
            "task": "vectors",
            "data": {name: str(path) for name, path in files.items()},
            "training": training | {"max_tokens": 16, "rate": 0.02, "schedule": "constant", "best_by": "error"},
        },
        Path("vectors"),
        fill_defaults=True,
    )
    train(
        {
            "task": "classification",
            "data": {"train": [{"labels": str(write_labelled(Path("mood.tsv"), 300))}]},
            "text": {"vocabulary": 300},
            "model": {"n_layers": 2, "d_model": 32, "n_heads": 2, "dropout": 0.1},
            "training": training | {"max_tokens": 512, "rate": 0.01},
        },
        Path("mood"),
        fill_defaults=True,
    )
    train(
        {
            "task": "answering",
            "data": {"train": [str(write_stories(Path("stories.txt"), 200))]},
            "training": {"steps": 700, "validate_every": 700},
        },
        Path("stories"),
        fill_defaults=True,
    )
    sys.argv[1:] = [
        "serve",
        "bag",
        "gru",
        "mood",
        "stories",
        "vectors",
        str(TESTS / "golden" / "model"),
        "--port",
        "0",
        "--quiet",
    ]
    main()
