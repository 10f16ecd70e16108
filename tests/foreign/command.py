"""`regard` with the architecture and the task of this directory: `python tests/foreign/command.py train …`."""

import bag_of_words  # noqa: F401 - registers its architecture
import vectors  # noqa: F401 - registers its task and its architecture

from regard.cli import main

if __name__ == "__main__":
    main()
