"""A request's body as one of our records. Whatever is in it, the answer is a 4xx."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from regard.serve.http.problem import Problem

Asked = TypeVar("Asked", bound=BaseModel)


async def read_asked(request: Request, kind: type[Asked]) -> Asked:
    """Pydantic's own parser: it stops at a depth, knows no lone surrogates, and gives no number that is none.

    Only application/json is read: a page of another origin can not send that without being asked first.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json":
        raise Problem(415, "not_json", "send JSON, with Content-Type: application/json")
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise Problem(422, "not_understood", _first(error)) from None


def body_of(kind: type[BaseModel]) -> dict[str, Any]:
    """How OpenAPI says that a route takes it."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _first(error: ValidationError) -> str:
    """Where, and what; never the value itself."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"][:4])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
