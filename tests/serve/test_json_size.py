"""JSON that is large by its structure is refused before it is parsed."""

import json

import pytest

from regard.serve.http.json_size import MAX_NODES, MAX_NUMBERS, check_structure
from regard.serve.http.problem import Problem

N = MAX_NODES + 1


def is_refused(body: bytes, **options: bool) -> bool:
    try:
        check_structure(body, **options)
    except Problem as problem:
        assert (problem.status, problem.code) == (413, "too_many")
        return True
    return False


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":[' + b"1," * N + b"1]}",
        b'{"text":[' + b"[]," * N + b"1]}",
        b'{"text":' + b"[" * N,
        b'{"text":"a",' + b",".join(b'"%d":1' % number for number in range(N)) + b"}",
        b"{" + b'"a":' * N,
        b'{"text":[' + b'"",' * N + b'""]}',
        b'{"text":[' + b'"\\\\",' * N + b'""]}',  # every string is a backslash
        b'{"text":"' + b'\\"' * N + b'","more":[' + b"1," * N + b"1]}",
    ],
)
def test_many_elements_are_refused(body: bytes) -> None:
    assert is_refused(body)


def test_characters_of_a_text_are_no_structure() -> None:
    for character in ',[{:"\\':
        text = character * (2 * N)
        for value in (text, ["", text], text + "a"):
            assert not is_refused(json.dumps({"text": value}).encode())
    assert not is_refused(b'{"text":"' + b"," * N)  # cut: no JSON, which its parser says
    assert not is_refused(b'{"text":"' + b"," * N + b"\\")


def test_lists_of_numbers_may_be_longer() -> None:
    images = json.dumps({"input": [[0] * 784] * 128}).encode()
    assert is_refused(images) and not is_refused(images, has_numbers=True)
    assert is_refused(b"[" + b"1," * MAX_NUMBERS + b"1]", has_numbers=True)
