from regard.translator.details import loops, warnings_of


def test_what_comes_again_and_again_is_a_loop() -> None:
    assert loops([5, 6] * 4)
    assert loops([1, 2, 3, 9, 9, 9, 9])
    assert not loops([5, 6] * 3)
    assert not loops(list(range(50)))


def test_signs_of_a_hallucination_are_named() -> None:
    ids = list(range(12))
    assert warnings_of("a b", "a b", ids, ids) == ("copies",)
    assert warnings_of("a b", "c", ids, ids[:2]) == ("short",)
    assert warnings_of("a", "b c", ids[:2], ids) == ("long",)
    assert warnings_of("a b", "c d", ids, ids) == ()
    assert warnings_of("a", "a", ids[:2], ids[:2]) == ()
