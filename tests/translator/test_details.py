from regard.translator.details import has_loop


def test_repeated_sequence_is_a_loop() -> None:
    assert has_loop([5, 6] * 4)
    assert has_loop([1, 2, 3, 9, 9, 9, 9])
    assert not has_loop([5, 6] * 3)
    assert not has_loop(list(range(50)))
