"""Requests made up from the API's own description: whatever they say, the service does not break."""

from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from .fakes import Listening, served

BOUNDED = settings(
    max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def test_no_request_breaks_the_service() -> None:
    with Listening(served(source="en", targets=("de",))) as server:
        schema = openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
        assert len(operations) > 10
        for operation in operations:
            for mode in GenerationMode:

                @BOUNDED
                @given(case=operation.as_strategy(generation_mode=mode))
                def holds(case: Case) -> None:
                    case.call_and_validate(checks=[not_a_server_error], timeout=20)

                with suppress(Unsatisfiable):  # a route that takes nothing can not be asked wrongly
                    holds()
