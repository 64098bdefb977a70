"""Gives a docstring to an implementation that was asked for without one."""

import ast
from typing import Final

INDENT: Final = "    "


def documented(source: str, function: str, description: str) -> str:
    """Return the source with `description` as the docstring of `function`, unless it has one.

    Raises:
        SyntaxError: If the source is not Python.
    """
    tree = ast.parse(source)
    found = next(
        (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function),
        None,
    )
    if found is None or ast.get_docstring(found) is not None:
        return source
    sentence = " ".join(description.split()).rstrip(".").replace("\\", "").replace('"""', "'''")
    first = found.body[0]
    if first.lineno == found.lineno:  # all on one line
        found.body.insert(0, ast.Expr(ast.Constant(f"{sentence}.")))
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    lines = source.splitlines(keepends=True)
    lines.insert(first.lineno - 1, f'{" " * first.col_offset or INDENT}"""{sentence}."""\n')
    return "".join(lines)
