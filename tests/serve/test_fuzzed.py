"""Requests generated from the OpenAPI description never cause a 5xx."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from .fakes import TIMEOUT_SECONDS, RunningServer, served

N_EXAMPLES = 10
MIN_EXAMPLES = 5  # with a body or parameters; Hypothesis stops early when the examples repeat
FIXED = settings(
    max_examples=N_EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def test_generated_requests_never_cause_a_server_error() -> None:
    n_cases: Counter[tuple[str, GenerationMode]] = Counter()
    with RunningServer(served(source="en", targets=("de",))) as server:
        schema = openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        for operation in operations:
            for mode in GenerationMode:

                @FIXED
                @given(case=operation.as_strategy(generation_mode=mode))
                def holds(case: Case) -> None:
                    n_cases[operation.label, mode] += 1  # noqa: B023 - called in this iteration
                    case.call_and_validate(checks=[not_a_server_error], timeout=TIMEOUT_SECONDS)

                has_input = bool(operation.body) or bool(operation.query)
                if mode is GenerationMode.NEGATIVE and not has_input:
                    with pytest.raises(Unsatisfiable):  # a route without input has no invalid requests
                        holds()
                else:
                    holds()
                    assert n_cases[operation.label, mode] >= (MIN_EXAMPLES if has_input else 1), operation.label
    documented = {
        f"{method.upper()} {path}" for path, methods in schema.raw_schema["paths"].items() for method in methods
    }
    assert {label for label, mode in n_cases if mode is GenerationMode.POSITIVE} == documented
    assert len(documented) > 10
