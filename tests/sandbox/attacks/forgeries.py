"""Wrong tools that try to pass their cases. Each is `add(left, right)`, and no value of theirs is a sum."""

import textwrap
from typing import Any, Final

from .attack import Forgery

CASES: Final[list[dict[str, Any]]] = [
    {"args": {"left": left, "right": right}, "expected": total, "raises": "", "tolerance": 1e-9}
    for left, right, total in ((2, 3, 5), (10, -4, 6), (1, 0, 1), (1.5, 2.25, 3.75))
]
"""What `add` must do. The expected values never leave the host."""


def _forgery(name: str, source: str, *, without: str) -> Forgery:
    return Forgery(name=name, without=without, source=textwrap.dedent(source).strip("\n") + "\n")


RIGHT: Final = _forgery(
    "right",
    "def add(left, right):\n    return left + right",
    without="it passes, as it should",
)

FORGERIES: Final = (
    _forgery(
        "printed_result",
        """
        def add(left, right):
            print('{"status": "ok", "value": 5, "passed": 1, "failed": 0}')
            print("4 passed, 0 failed\\nOK")
            return 0
        """,
        without="a harness that parses the output believes it",
    ),
    _forgery(
        "patched_json",
        """
        import json
        json.dumps = lambda *_, **__: '{"status": "ok", "value": 5, "passed": true}'
        def add(left, right):
            return 0
        """,
        without="a harness that encodes in the same process sends it",
    ),
    _forgery(
        "written_result",
        """
        import os
        def add(left, right):
            for n in range(1, 40):
                try:
                    os.write(n, b'{"status": "ok", "passed": 1, "failed": 0, "value": 5}\\n')
                except OSError:
                    pass
            os._exit(0)
        """,
        without="a harness that reads a descriptor the tool holds believes it",
    ),
    _forgery(
        "always_equal",
        """
        class Yes(int):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __sub__(self, other): return 0
            __hash__ = int.__hash__
        def add(left, right):
            return Yes(0)
        """,
        without="a comparison in the same process asks the tool's own object",
    ),
    _forgery(
        "hunted_value",
        """
        import gc, glob, json, sys
        def add(left, right):
            frame, found = sys._getframe(), []
            while frame:
                found += [frame.f_locals, frame.f_globals]
                frame = frame.f_back
            for one in found + gc.get_objects():
                if isinstance(one, dict):
                    for key in ("expected", "want", "EXPECT"):
                        if type(one.get(key)) in (int, float):
                            return one[key]
            for path in glob.glob("/tmp/cases-*/*.json"):
                for case in json.load(open(path)):
                    if case["args"] == {"left": left, "right": right}:
                        return case["expected"]
            return 0
        """,
        without="expected values that are in the process, or in a file beside it, are read and returned",
    ),
    _forgery(
        "exit_at_import",
        """
        import os
        os._exit(0)
        def add(left, right):
            return 0
        """,
        without="a harness that looks at the exit status counts success",
    ),
    _forgery(
        "patched_assert",
        """
        import builtins, unittest
        class Quiet(BaseException):
            pass
        builtins.AssertionError = Quiet
        unittest.TestCase.failureException = Quiet
        def add(left, right):
            return 0
        """,
        without="assertions in the same process fail in silence",
    ),
    _forgery(
        "marker",
        """
        import os, sys
        def add(left, right):
            frame = sys._getframe()
            while frame and "marker" not in frame.f_locals:
                frame = frame.f_back
            marker = bytes(frame.f_locals["marker"]) if frame else b""
            for claim in ("passed", "holds", "ok"):
                os.write(3, marker + b'{"status": "' + claim.encode() + b'", "exit": 0, "value": true}')
            os._exit(0)
        """,
        without="who sends the secret marker decides the verdict",
    ),
    _forgery(
        "nan",
        "def add(left, right):\n    return float('nan')",
        without="a comparison such as `abs(a - b) > tolerance` is never true",
    ),
    _forgery(
        "bools",
        "def add(left, right):\n    return True",
        without="True equals 1",
    ),
    _forgery(
        "containers",
        """
        def add(left, right):
            return [[5, 6, 1, 3.75]] if left > 2 else {"value": 5, "expected": 5}
        """,
        without="a check for membership, or for any part that fits, is content",
    ),
    _forgery(
        "text",
        "def add(left, right):\n    return {2: '5', 10: '6', 1: '1', 1.5: '3.75'}[left]",
        without="values compared by their text are the same",
    ),
    _forgery(
        "errors",
        """
        class AnyError(ValueError):
            def __eq__(self, other): return True
        AnyError.__name__ = ""
        def add(left, right):
            raise AnyError
        """,
        without="an exception with an empty name passes for no exception",
    ),
    _forgery(
        "learned",
        """
        import json, os
        NOTE, SEEN = "/tmp/note", []
        def add(left, right):
            SEEN.append(left)
            tries = len(SEEN)
            if os.path.exists(NOTE):
                tries += len(open(NOTE).read())
            with open(NOTE, "a") as file:
                file.write("x")
            return [-1, 5, 6, 1, 3.75][min(tries, 5) - 1] if tries > 1 else -1
        """,
        without="a tool that is tried often enough in one process counts its tries, and answers in order",
    ),
)
