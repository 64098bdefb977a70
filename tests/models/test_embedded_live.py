"""The embedded model itself: the real file on the real server (`make test-live`)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from mem2evolve.errors import ModelError
from mem2evolve.models.embedded import Endpoint, ensure_model_file, ensure_running, status, stop

pytestmark = pytest.mark.live


class Plan(BaseModel, extra="forbid"):
    """What the model is asked for."""

    goal: str
    steps: list[str]


@pytest.fixture(scope="module")
def model_file() -> Path:
    """Return the model file, which must be here already."""
    pytest.importorskip("xllamacpp")
    try:
        return ensure_model_file()
    except ModelError as exc:
        pytest.skip(f"no model file: {exc}")


@pytest.fixture
def endpoint(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Endpoint]:
    """Start a server of the test's own, with a short idle time."""
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path))
    yield ensure_running(model_file, idle_minutes=0.1)
    stop()


def test_the_model_plans_answers_and_rests(endpoint: Endpoint) -> None:
    """A schema is kept, a call with tools is answered, and the idle server ends by itself."""
    chat = ChatOpenAI(
        base_url=endpoint.base_url,
        model=endpoint.model,
        api_key=SecretStr("none"),
        temperature=0,
        timeout=300,
        max_retries=0,
    )
    plan = chat.with_structured_output(Plan, method="json_schema", strict=True).invoke(
        "Plan to boil an egg, in two short steps."
    )
    assert isinstance(plan, Plan)
    assert plan.steps

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    message = chat.bind_tools([add]).invoke("Use the tool: what is 17 + 25?")
    assert "17" in f"{message.content}{message.tool_calls}"

    deadline = time.monotonic() + 30
    while status() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert status() == []
