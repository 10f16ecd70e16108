"""What we use of uvicorn beyond its documented API.

`LimitedProtocol` and `Server` are subclasses of uvicorn's classes, whose attributes and methods are not documented, so
an upgrade may change them. These tests list what we rely on, and say what is missing. Checked with uvicorn 0.54.0.
"""

import ast
import asyncio
import inspect
from importlib.metadata import version
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from regard.serve.http.protocol import LimitedProtocol
from regard.serve.http.server import Server

# methods that we override, with their parameters
PROTOCOL_METHODS = {
    "__init__": ["config", "server_state", "app_state", "_loop"],
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "handle_events": [],
    "send_400_response": ["msg"],
    "on_response_complete": [],
    "timeout_keep_alive_handler": [],
}
PROTOCOL_ATTRIBUTES = {"conn", "connections", "loop", "timeout_keep_alive", "timeout_keep_alive_task", "transport"}
SERVER_METHODS = {
    "__init__": ["config"],
    "startup": ["sockets"],
    "capture_signals": [],
    "handle_exit": ["sig", "frame"],
}
SERVER_ATTRIBUTES = {"should_exit", "force_exit", "server_state"}
CASES = [
    (LimitedProtocol, H11Protocol, PROTOCOL_METHODS, PROTOCOL_ATTRIBUTES),
    (Server, uvicorn.Server, SERVER_METHODS, SERVER_ATTRIBUTES),
]


@pytest.mark.parametrize(("subclass", "base", "methods", "attributes"), CASES)
def test_uvicorn_has_the_methods_and_attributes_that_we_use(
    subclass: type, base: type, methods: dict[str, list[str]], attributes: set[str]
) -> None:
    release = f"uvicorn {version('uvicorn')}"
    for name, parameters in methods.items():
        method = vars(base).get(name)
        assert method is not None, f"{release}: {base.__name__}.{name} is gone; see regard/serve/http"
        actual = list(inspect.signature(method).parameters)[1:]
        assert actual == parameters, f"{release}: {base.__name__}.{name} takes {actual}, not {parameters}"
    missing = attributes - set(vars(create(base)))
    assert not missing, f"{release}: {base.__name__} has no {sorted(missing)}; see regard/serve/http"


@pytest.mark.parametrize(("subclass", "base", "methods", "attributes"), CASES)
def test_lists_name_exactly_what_our_classes_use(
    subclass: type, base: type, methods: dict[str, list[str]], attributes: set[str]
) -> None:
    own = {name for name, value in vars(subclass).items() if callable(value)}
    overridden = (own & set(dir(base))) - set(dir(object))
    assert overridden | {"__init__"} == set(methods)
    [class_] = [node for node in ast.parse(inspect.getsource(subclass)).body if isinstance(node, ast.ClassDef)]
    used = {
        node.attr
        for node in ast.walk(class_)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    assert (used & set(dir(create(base)))) - own == attributes
    assert not [name for name in (*attributes, *overridden) if name.startswith("_")]


def create(base: type) -> Any:
    config = uvicorn.Config(lambda: None, ws="none", log_config=None)
    if base is uvicorn.Server:
        return uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    try:
        return H11Protocol(config, ServerState(), {}, loop)
    finally:
        loop.close()
