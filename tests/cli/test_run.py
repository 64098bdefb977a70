"""`mem2evolve run` and what it leaves to look at, with a scripted model."""

import json

from ..openai_server import OpenAIServer
from .brain import ANSWER, Brain
from .conftest import TASK, Cli


def test_answer_alone_on_stdout(cli: Cli) -> None:
    """The answer goes to standard output, the story to standard error."""
    brain = Brain()
    with OpenAIServer(brain) as server:
        cli.model(server)
        done = cli("run", TASK, "--no-web")

    print(done.err)
    assert (done.code, done.out) == (0, f"{ANSWER}\n"), done
    assert 0
