"""The sentence splitter inside an Argos package, so that Argos Translate does not download one.

Argos Translate runs splitters of MiniSBD: an ONNX graph that says for each character whether it ends a token or a
sentence. Such graphs are usually neural networks. This one states a rule: a full stop and the like, before a space and
no lower-case letter, unless it ends an abbreviation, an initial, or in some languages a number. MiniSBD gives the
graph the class of each character, and looks up in a lexicon whether an abbreviation ends at it.

Shapes: B paragraphs, T characters, W the longest abbreviation
"""

from __future__ import annotations

import json
import sys

from regard.interop.onnx.graph import Graph, write_model
from regard.text.sentences import NEVER_LAST, ORDINALS_WITH_STOP

_CHARACTERS = {
    "stop": ".",
    "mark": "!?…\u061f\u06d4",  # and the Arabic ones
    "wide": "。！？",
    "closing": "\"'»«“)]",
    "wide closing": "」』”’）",
    "space": " ",
}
_SPECIAL = ["<PAD>", "<UNK>", "<EMPTY>", "<ROOT>"]  # MiniSBD's own
_CLASSES = [*_CHARACTERS, "digit", "lower", "upper"]
_MAX_CLOSING = 3  # quotation marks and brackets behind a full stop
_LAST = 2**31 - 1  # of a dimension


def splitter(language: str) -> bytes:
    """The content of an .onnx file for MiniSBD."""
    lexicon = [f"{word}." for word in sorted(NEVER_LAST)]
    longest = max(map(len, lexicon)) - 1  # characters before the full stop
    classes = {name: len(_SPECIAL) + i for i, name in enumerate(_CLASSES)}
    vocabulary = {
        "lang": "",
        "_unit2id": {name: i for i, name in enumerate(_SPECIAL)} | _class_of_characters(classes),
        "_id2unit": _SPECIAL + _CLASSES,
    }
    config = {"feat_funcs": [], "use_dictionary": True, "num_dict_feat": longest, "batch_size": 1}
    metadata = {"lang_code": language, "config": config, "vocab": vocabulary, "lexicon": lexicon}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    return write_model(_Rule(classes, longest).build(language in ORDINALS_WITH_STOP), texts)


def _class_of_characters(classes: dict[str, int]) -> dict[str, int]:
    """The class of each character that has one; several characters share it."""
    found = {}
    for code_point in range(sys.maxunicode + 1):
        character = chr(code_point)
        if character.islower():
            found[character] = classes["lower"]
        elif character.isupper():
            found[character] = classes["upper"]
        elif character.isdigit():
            found[character] = classes["digit"]
    return found | {character: classes[name] for name, characters in _CHARACTERS.items() for character in characters}


class _Rule:
    """The graph. A condition is 0 or 1 at each character: (B, T)."""

    def __init__(self, classes: dict[str, int], longest: int) -> None:
        self.graph, self.classes, self.longest = Graph("splitter"), classes, longest
        self.units = self.graph.input("units", "int64", ["B", "T"])
        self.features = self.graph.input("features", "float32", ["B", "T", 2 * longest])

    def build(self, has_ordinals: bool) -> Graph:
        stop, space, lower = self.is_a("stop"), self.is_a("space"), self.is_a("lower")
        letter, closing = self.either(lower, self.is_a("upper")), self.is_a("wide closing")
        mark = self.both(self.either(stop, self.is_a("mark")), self.no(self.kept(stop, letter, has_ordinals)))
        narrow = self.with_closing(mark, self.either(closing, self.is_a("closing")))
        before_text = self.both(self.shifted(space, 1), self.no(self.shifted(lower, 2)))
        wide = self.with_closing(self.is_a("wide"), closing)  # no space follows
        ends = self.either(self.both(narrow, before_text), self.both(wide, self.no(self.shifted(wide, 1))))
        self._output(ends, self.shifted(space, 1))
        return self.graph

    def kept(self, stop: str, letter: str, has_ordinals: bool) -> str:
        """Full stops that end an abbreviation, an initial or an ordinal number."""
        add, constant = self.graph.add, self.graph.constant
        initial = self.both(self.shifted(letter, -1), self.no(self.shifted(letter, -2)))
        kept = [initial, self.shifted(self.is_a("digit"), -1)] if has_ordinals else [initial]
        for n in range(1, self.longest + 1):  # n characters and a full stop are in the lexicon
            known = add("Gather", self.features, constant(self.longest + n - 1), axis=2)  # (B, T)
            kept.append(self.both(known, self.no(self.shifted(letter, -n - 1))))
        return self.both(stop, self.either(*kept))

    def with_closing(self, mark: str, closing: str) -> str:
        """A mark, and what closes a quotation or a bracket behind it."""
        ends = mark
        for _ in range(_MAX_CLOSING):
            ends = self.either(mark, self.both(closing, self.shifted(ends, -1)))
        return ends

    def _output(self, ends: str, before_space: str) -> None:
        """(B, T, 3): the largest is 0 inside a token, 1 at its end, 2 at the end of a sentence."""
        add, axes = self.graph.add, self.graph.constant([2])
        inside = add("Add", add("Mul", ends, self.graph.constant(0.0)), self.graph.constant(0.5))
        scores = [inside, before_space, add("Add", ends, ends)]
        stacked = add("Concat", *(add("Unsqueeze", score, axes) for score in scores), axis=2)
        self.graph.output(stacked, "output", "float32", ["B", "T", 3])

    def is_a(self, name: str) -> str:
        equal = self.graph.add("Equal", self.units, self.graph.constant(self.classes[name]))
        value: str = self.graph.add("Cast", equal, to=1)
        return value

    def both(self, *conditions: str) -> str:
        value: str = self.graph.add("Min", *conditions)
        return value

    def either(self, *conditions: str) -> str:
        value: str = self.graph.add("Max", *conditions)
        return value

    def no(self, condition: str) -> str:
        value: str = self.graph.add("Sub", self.graph.constant(1.0), condition)
        return value

    def shifted(self, condition: str, by: int) -> str:
        """The condition at the character `by` positions later (or earlier); 0 outside of the text."""
        add, constant = self.graph.add, self.graph.constant
        padded = add("Pad", condition, constant([0, max(0, -by), 0, max(0, by)]))  # in front of T, and behind it
        end = by if by < 0 else _LAST
        value: str = add("Slice", padded, constant([max(0, by)]), constant([end]), constant([1]))
        return value
