"""Attacks by taking too much, and by results that are not results."""

from typing import Final

from mem2evolve.sandbox import Limits

from .attack import REFUSED, SHORT, Attack

SMALL: Final = Limits(memory_bytes=192 << 20, wall_s=8.0)
OVER: Final = frozenset({"timeout", "killed"})
NO_RESULT: Final = frozenset({"bad_result", "killed"})
MEMORY: Final = REFUSED | {"MemoryError"}

TAKING: Final = (
    Attack(
        name="memory",
        without="memory is taken until others are killed for it",
        limits=SMALL,
        ends=frozenset({"MemoryError", "killed"}),
        body="""
        held = [bytearray(b"x") * (16 << 20) for _ in range(20)]
        return "BAD held 320 MiB"
        """,
    ),
    Attack(
        name="memory_files",
        without="memory is held that no limit of address space counts",
        limits=SMALL,
        ends=MEMORY,
        by_filter=True,
        body="""
        held, block = 0, b"x" * (8 << 20)
        for _ in range(16):
            wire = os.memfd_create("x")
            held += os.write(wire, block) + os.write(wire, block)
        return "BAD held 256 MiB" if held > 192 << 20 else held
        """,
    ),
    Attack(
        name="memory_segments",
        without="System V segments hold memory beyond any process's limit, and stay",
        safe_unboxed=False,
        limits=SMALL,
        ends=MEMORY,
        by_filter=True,
        body="""
        libc.shmat.restype = ctypes.c_void_p
        held = 0
        for _ in range(5):
            key = libc.shmget(0, ctypes.c_size_t(48 << 20), 0o1600)
            if key < 0:
                return "refused"
            at = libc.shmat(key, None, 0)
            if at in (None, ctypes.c_void_p(-1).value):
                return "refused"
            ctypes.memset(at, 1, 48 << 20)
            libc.shmdt(ctypes.c_void_p(at))
            held += 48 << 20
        return "BAD held 240 MiB" if held > 192 << 20 else held
        """,
    ),
    Attack(
        name="memory_of_children",
        without="each child has a limit of its own, and together none",
        safe_unboxed=False,
        limits=SMALL,
        ends=MEMORY,
        by_filter=True,
        body="""
        into, out = os.pipe()
        for _ in range(3):
            if os.fork() == 0:
                held = bytearray(b"x") * (80 << 20)
                os.write(out, b"x")
                time.sleep(5)
                os._exit(len(held) & 1)
        got = [os.read(into, 1) for _ in range(3)]
        return "BAD held 240 MiB"
        """,
    ),
    Attack(
        name="cpu",
        without="a processor is taken for ever",
        limits=Limits(cpu_s=1),
        ends=frozenset({"killed"}),
        body="signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True:\n    pass",
    ),
    Attack(
        name="sleep",
        without="the call never ends",
        limits=SHORT,
        ends=frozenset({"timeout"}),
        body="time.sleep(1e6)",
    ),
    Attack(
        name="sleep_deaf",
        without="the call never ends, and polite signals are ignored",
        limits=SHORT,
        ends=frozenset({"timeout"}),
        body="""
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True:
            time.sleep(1e6)
        """,
    ),
    Attack(
        name="regex_bomb",
        without="one line holds the interpreter, and no thread beside it can stop it",
        limits=SHORT,
        ends=OVER,
        body="import re\nreturn bool(re.match(r'(a+)+$', 'a' * 64 + 'b'))",
    ),
    Attack(
        name="big_number",
        without="one expression holds the interpreter, and no thread beside it can stop it",
        limits=SHORT,
        ends=OVER | {"MemoryError"},
        body="return len(bin(9 ** 9 ** 9))",
    ),
    Attack(
        name="fill_tmp",
        without="the disk, or the memory behind /tmp, is filled",
        safe_unboxed=False,
        body="""
        held = 0
        try:
            for n in range(12):
                with open(f"/tmp/{n}", "wb") as file:
                    held += file.write(b"x" * (8 << 20))
        except OSError:
            pass
        return "BAD held 96 MiB" if held > 80 << 20 else "stopped"
        """,
    ),
    Attack(
        name="fill_shm",
        without="memory is filled through /dev/shm and /dev",
        safe_unboxed=False,
        body="""
        held = 0
        for folder in ("/dev", "/dev/shm", "/dev/mqueue", "/run", "/var/tmp"):
            try:
                for n in range(12):
                    with open(f"{folder}/{n}", "wb") as file:
                        held += file.write(b"x" * (8 << 20))
            except OSError:
                pass
        return "BAD held 40 MiB" if held > 40 << 20 else "stopped"
        """,
    ),
    Attack(
        name="large_file",
        without="one file grows over the disk",
        body="""
        import tempfile
        with tempfile.TemporaryFile() as file:
            file.seek(20 << 20)
            file.write(b"x")
            file.flush()
        return "BAD wrote at 20 MiB"
        """,
    ),
    Attack(
        name="open_files",
        without="the table of open files is filled",
        body="""
        held = []
        for _ in range(400):
            held.append(os.open("/dev/null", os.O_RDONLY))
        return "BAD holds 400"
        """,
    ),
    Attack(
        name="raise_limits",
        without="root lifts its own limits",
        body="""
        import resource
        for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC"):
            which = getattr(resource, "RLIMIT_" + name)
            try:
                resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (OSError, ValueError):
                continue
            return "BAD lifted " + name
        return "refused"
        """,
    ),
)

SAYING: Final = (
    Attack(
        name="flood_stdout",
        without="whoever collects the output runs out of memory",
        limits=SHORT,
        ends=OVER,
        body="block = b'x' * 65536\nwhile True:\n    os.write(1, block)",
    ),
    Attack(
        name="flood_result",
        without="whoever reads the result runs out of memory",
        limits=SHORT,
        ends=NO_RESULT,
        body="block = b'x' * 65536\nwhile True:\n    os.write(3, block)",
    ),
    Attack(
        name="huge_result",
        without="whoever reads the result runs out of memory",
        ends=NO_RESULT | {"MemoryError"},
        body="return 'x' * (120 << 20)",
    ),
    Attack(
        name="result_nan",
        without="a value that JSON lacks breaks, or passes, whatever reads it later",
        ends=frozenset({"bad_result"}),
        body="return {'a': [float('nan'), float('inf')]}",
    ),
    Attack(
        name="result_keys",
        without="keys change their type without a word",
        ends=frozenset({"bad_result"}),
        body="return {1: 2, None: 3}",
    ),
    Attack(
        name="result_surrogate",
        without="text that cannot be stored breaks the log or the database",
        ends=frozenset({"bad_result"}),
        body="open('/tmp/' + host['tag'] + '\\udcff\\u202e', 'w').close()\nreturn '\\ud800\\x00'",
    ),
    Attack(
        name="result_object",
        without="an object of the tool's runs its code in the reader, as pickle allows",
        ends=frozenset({"bad_result"}),
        body="""
        class Evil:
            def __reduce__(self):
                return os.system, ("true",)
        return Evil()
        """,
    ),
    Attack(
        name="result_deep",
        without="the reader's stack overflows",
        ends=frozenset({"bad_result"}),
        body="""
        value = []
        for _ in range(100_000):
            value = [value]
        return value
        """,
    ),
    Attack(
        name="result_cycle",
        without="the reader never ends",
        ends=frozenset({"bad_result"}),
        body="value = {}\nvalue['a'] = value\nreturn value",
    ),
    Attack(
        name="result_shifting",
        without="what is checked is not what is sent",
        ends=frozenset({"ok", "bad_result", "ValueError"}),
        body="""
        class Shifting(dict):
            turn = 0
            def items(self):
                self.turn += 1
                bad = [("a", float("nan")), (1, "\\ud800"), ("a", 10 ** 400)]
                return [("a", 1)] if self.turn == 1 else bad
        return [Shifting(a=1)]
        """,
    ),
    Attack(
        name="result_by_hand",
        without="a document of the tool's own making is believed",
        ends=NO_RESULT,
        body="""
        os.write(3, b'{"status": "ok", "value": NaN, "exit": 0, "isolation": "none"}')
        return 1
        """,
    ),
    Attack(
        name="result_after_the_marker",
        without="who learns the marker sends what no encoder would write",
        ends=NO_RESULT | {"ok"},
        body="""
        frame = sys._getframe()
        while frame and "marker" not in frame.f_locals:
            frame = frame.f_back
        if frame is None:
            return "not found"
        for tail in (b'{"status": "ok", "value": [NaN, 1e999, "\\\\ud800"]}',):
            os.write(3, bytes(frame.f_locals["marker"]) + tail)
        os._exit(0)
        """,
    ),
    Attack(
        name="claim_of_status",
        without="a tool decides how its own call is recorded",
        ends=NO_RESULT | {"ok"},
        body="""
        frame = sys._getframe()
        while frame and "marker" not in frame.f_locals:
            frame = frame.f_back
        if frame is None:
            return "not found"
        os.write(3, bytes(frame.f_locals["marker"]) + b'{"status": "timeout", "isolation": "none"}')
        os._exit(0)
        """,
    ),
    Attack(
        name="hostile_exception",
        without="an exception fills the log, or never finishes saying what it is",
        ends=frozenset({"MemoryError", "killed", "bad_result"}),
        body="""
        def say(self):
            return "\\ud800\\x1b[2J" * (1 << 22)
        raise type("x" * (1 << 22), (BaseException,), {"__str__": say})
        """,
    ),
    Attack(
        name="endless_exception",
        without="the call never ends",
        limits=SHORT,
        ends=OVER,
        body="""
        class Endless(BaseException):
            def __str__(self):
                while True:
                    pass
        raise Endless
        """,
    ),
)

GREEDY: Final = TAKING + SAYING
