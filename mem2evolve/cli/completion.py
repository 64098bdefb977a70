"""`mem2evolve completion`: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_MEM2EVOLVE_COMPLETE"
"""In which the shell asks; click reads it."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    For bash, put this into ~/.bashrc: eval "$(mem2evolve completion bash)"
    """
    app = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(app, {}, "mem2evolve", VARIABLE).source())
