"""Scores of translations, and significance of the difference between two systems. Imports no torch."""

from regard.evaluate.comparison import Comparison, Example, compare
from regard.evaluate.comparison_page import comparison_page
from regard.evaluate.measures import check_tokenizer
from regard.evaluate.scoring import Scores, TestSet, read_test_set, score
from regard.evaluate.word_diff import mark_changes

__all__ = [
    "Comparison",
    "Example",
    "Scores",
    "TestSet",
    "check_tokenizer",
    "compare",
    "comparison_page",
    "mark_changes",
    "read_test_set",
    "score",
]
