from regard.translator.details import has_loop, warnings_of


def test_repeated_sequence_is_a_loop() -> None:
    assert has_loop([5, 6] * 4)
    assert has_loop([1, 2, 3, 9, 9, 9, 9])
    assert not has_loop([5, 6] * 3)
    assert not has_loop(list(range(50)))


def test_warnings_name_the_signs_of_a_hallucination() -> None:
    ids = list(range(12))
    assert warnings_of("a b", "a b", ids, ids) == ("copies",)
    assert warnings_of("a b", "c", ids, ids[:2]) == ("short",)
    assert warnings_of("a", "b c", ids[:2], ids) == ("long",)
    assert warnings_of("a b", "c d", ids, ids) == ()
    assert warnings_of("a", "a", ids[:2], ids[:2]) == ()
