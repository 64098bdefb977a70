"""The filters of both machines, run step by step: what they let through and what they refuse."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import SandboxUnavailable
from mem2evolve.sandbox import BubblewrapSandbox, seccomp
from mem2evolve.sandbox.seccomp import base_filter, tool_filter

AUDIT: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER: Final = {"x86_64": 0x40000003, "aarch64": 0x40000028}
"""Their 32-bit kin: i386 and arm."""
ALLOW, KILL = "allow", "kill"
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
Verdict = str | int


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> Verdict:
    """Run a program as the kernel would, knowing only the steps that ours may use."""
    words = [number & 0xFFFFFFFF, audit, 0, 0]
    for argument in (*arguments, *([0] * (6 - len(arguments)))):
        words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
    steps = list(struct.iter_unpack("<HBBI", program))
    at, accumulator = 0, 0
    while True:
        code, true, false, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                accumulator = words[operand // 4]
            case 0x15:
                at += true if accumulator == operand else false
            case 0x35:
                at += true if accumulator >= operand else false
            case 0x45:
                at += true if accumulator & operand else false
            case 0x06:
                if operand >> 16 == 5:
                    return operand & 0xFFFF
                return {0x7FFF0000: ALLOW, 0x80000000: KILL}[operand]
            case _:
                pytest.fail(f"unknown step {code:#x}")


class Row(NamedTuple):
    """One call on both machines, and what becomes of it in the box and in a tool."""

    name: str
    x86_64: int | None
    aarch64: int | None
    base: Verdict
    tool: Verdict
    arguments: tuple[int, ...] = ()


# Written down from the kernel's tables by hand, and not from ours.
ROWS: Final = [
    *(Row(n, x, a, ALLOW, ALLOW) for n, x, a in (
        ("read", 0, 63), ("write", 1, 64), ("openat", 257, 56), ("close", 3, 57), ("mmap", 9, 222),
        ("futex", 202, 98), ("exit_group", 231, 94), ("rt_sigaction", 13, 134),
        ("getrandom", 318, 278), ("pipe2", 293, 59), ("prctl", 157, 167), ("getdents64", 217, 61),
        ("set_robust_list", 273, 99), ("rseq", 334, 293), ("nanosleep", 35, 101),
        ("munmap", 11, 215), ("wait4", 61, 260),
    )),
    *(Row(n, x, a, EPERM, EPERM) for n, x, a in (
        ("unshare", 272, 97), ("setns", 308, 268), ("mount", 165, 40), ("umount2", 166, 39),
        ("pivot_root", 155, 41), ("chroot", 161, 51), ("open_tree", 428, 428),
        ("move_mount", 429, 429), ("fsopen", 430, 430), ("fsmount", 432, 432),
        ("mount_setattr", 442, 442), ("ptrace", 101, 117), ("process_vm_readv", 310, 270),
        ("process_vm_writev", 311, 271), ("pidfd_getfd", 438, 438), ("bpf", 321, 280),
        ("perf_event_open", 298, 241), ("userfaultfd", 323, 282), ("keyctl", 250, 219),
        ("add_key", 248, 217), ("request_key", 249, 218), ("init_module", 175, 105),
        ("kexec_load", 246, 104), ("personality", 135, 92), ("open_by_handle_at", 304, 265),
        ("reboot", 169, 142), ("syslog", 103, 116), ("clock_settime", 227, 112), ("iopl", 172, None),
    )),
    *(Row(n, x, a, ENOSYS, ENOSYS) for n, x, a in (
        ("clone3", 435, 435), ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426),
        ("io_uring_register", 427, 427),
    )),
    *(Row(n, x, a, ALLOW, EPERM) for n, x, a in (
        ("execve", 59, 221), ("execveat", 322, 281), ("fork", 57, None), ("vfork", 58, None),
        ("kill", 62, 129), ("tkill", 200, 130), ("tgkill", 234, 131), ("rt_sigqueueinfo", 129, 138),
        ("pidfd_send_signal", 424, 424), ("pidfd_open", 434, 434), ("memfd_create", 319, 279),
        ("shmget", 29, 194), ("msgget", 68, 186), ("semget", 64, 190), ("mq_open", 240, 180),
        ("setpriority", 141, 140), ("sched_setaffinity", 203, 122),
    )),
    *(Row(n, x, a, ALLOW, 0) for n, x, a in (
        ("utime", 132, None), ("utimes", 235, None), ("futimesat", 261, None), ("utimensat", 280, 88),
    )),
    *(Row(f"socket({family})", 41, 198, base, tool, (family, 1, 0)) for family, base, tool in (
        (1, ALLOW, ALLOW), (2, ALLOW, EAFNOSUPPORT), (10, ALLOW, EAFNOSUPPORT),
        *((n, EAFNOSUPPORT, EAFNOSUPPORT) for n in (0, 16, 17, 38, 40, 44)),
    )),
    *(Row(f"socketpair({family})", 53, 199, verdict, verdict, (family, 1, 0)) for family, verdict in (
        (1, ALLOW), *((n, EAFNOSUPPORT) for n in (0, 2, 10, 16, 17, 30, 38, 40)),
    )),
    *(Row(f"clone({flags:#x})", 56, 220, base, tool, (flags,)) for flags, base, tool in (
        (0x3D0F00, ALLOW, ALLOW),  # a thread, as glibc makes one
        (0x01200011, ALLOW, EPERM),  # a process, as fork makes one
        *((0x3D0F00 | flag, EPERM, EPERM) for flag in (
            0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000,
        )),
    )),
    Row("ioctl(FIONREAD)", 16, 29, ALLOW, ALLOW, (0, 0x541B)),
    Row("ioctl(TIOCSTI)", 16, 29, EPERM, EPERM, (0, 0x5412)),
    Row("ioctl(TIOCSTI), high bits set", 16, 29, EPERM, EPERM, (0, 0x7_00005412)),
    Row("ioctl(TIOCLINUX)", 16, 29, EPERM, EPERM, (0, 0x541C)),
    Row("prlimit64(own)", 302, 261, ALLOW, ALLOW, (0, 7)),
    Row("prlimit64(process 1)", 302, 261, ALLOW, EPERM, (1, 7)),
]  # fmt: skip


def cases() -> Iterator[tuple[str, str, Row]]:
    """Every row on every machine that has the call."""
    for machine in AUDIT:
        for level in ("base", "tool"):
            yield from ((machine, level, r) for r in ROWS if getattr(r, machine) is not None)


def program(level: str, machine: str) -> bytes:
    """Return a program by name."""
    return {"base": base_filter, "tool": tool_filter}[level](machine)


@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize("level", ["base", "tool"])
def test_each_call_has_its_verdict(machine: str, level: str) -> None:
    """By the table, for both machines; aarch64's cannot run here, so its steps are followed."""
    steps = program(level, machine)
    wrong = [
        (row.name, got, getattr(row, level))
        for name, at, row in cases()
        if (name, at) == (machine, level)
        and (got := verdict(steps, AUDIT[machine], getattr(row, machine), *row.arguments))
        != getattr(row, level)
    ]
    assert not wrong


@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize("level", ["base", "tool"])
def test_another_architecture_ends_the_process(machine: str, level: str) -> None:
    """Numbers mean other calls there; of x32 too, which shares x86_64's name."""
    steps = program(level, machine)
    others = {*AUDIT.values(), *OTHER.values(), 0} - {AUDIT[machine]}
    assert {verdict(steps, audit, 0) for audit in others} == {KILL}
    if machine == "x86_64":
        assert verdict(steps, AUDIT[machine], 0x40000000 | 59) == KILL


@pytest.mark.parametrize("machine", AUDIT)
def test_programs_are_well_formed(machine: str) -> None:
    """Every jump lands inside, the last step returns, and the kernel's limit is far."""
    for make in (base_filter, tool_filter):
        steps = list(struct.iter_unpack("<HBBI", make(machine)))
        assert len(steps) < 4096
        assert steps[-1][0] == 0x06
        for at, (code, true, false, _) in enumerate(steps):
            if code & 7 == 5:
                assert at + 1 + max(true, false) < len(steps)


@given(st.integers(0, 2000), st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_a_tool_may_do_nothing_that_its_box_may_not(number: int, arguments: list[int]) -> None:
    """Whatever the call and its arguments, and some program always comes to a verdict."""
    for machine, audit in AUDIT.items():
        if verdict(base_filter(machine), audit, number, *arguments) != ALLOW:
            assert verdict(tool_filter(machine), audit, number, *arguments) != ALLOW


def test_an_unknown_machine_has_no_box() -> None:
    """Nothing is run without a filter; the message names the machine."""
    with pytest.raises(SandboxUnavailable, match="no system-call filter is known for 'riscv64'"):
        base_filter("riscv64")


async def test_nothing_starts_on_an_unknown_machine(
    box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    """Also not the probe."""
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "s390x")
    report = await box.probe()
    assert not report.ok
    assert "'s390x'" in report.findings[0].detail
    with pytest.raises(SandboxUnavailable, match="s390x"):
        await box.call("def f(): pass", "f", {})


REFUSED: Final = [
    ("os.fork()", "PermissionError"),
    ("os.execv('/bin/true', ['true'])", "PermissionError"),
    ("subprocess.run(['true'])", "PermissionError"),
    ("os.kill(os.getpid(), 0)", "PermissionError"),
    ("os.memfd_create('a')", "PermissionError"),
    ("os.setpriority(os.PRIO_PROCESS, 1, 5)", "PermissionError"),
    ("resource.prlimit(1, resource.RLIMIT_NOFILE)", "PermissionError"),
    ("socket.socket(socket.AF_VSOCK)", "OSError"),
    ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", "OSError"),
    ("socket.socket(socket.AF_INET)", "OSError"),
    ("socket.socket(38, socket.SOCK_SEQPACKET, 0)", "OSError"),
]


@pytest.mark.parametrize(("body", "error"), REFUSED)
async def test_refused_for_real(box: BubblewrapSandbox, body: str, error: str) -> None:
    """The kernel takes the program, and a tool meets it as an exception, not as its end."""
    source = f"import os, resource, socket, subprocess\ndef f():\n    {body}\n"
    outcome = await box.call(source, "f", {})
    assert (outcome.status, outcome.error_type) == ("raised", error)


async def test_threads_and_pools_work(box: BubblewrapSandbox) -> None:
    """Threads, a thread pool and an event loop need nothing that is refused."""
    source = (
        "import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def f():\n    seen = []\n    t = threading.Thread(target=seen.append, args=(1,))\n"
        "    t.start(); t.join()\n    with ThreadPoolExecutor(4) as pool:\n"
        "        seen += pool.map(abs, [-2, -3])\n    async def g():\n"
        "        return await asyncio.to_thread(lambda: 4)\n    return seen + [asyncio.run(g())]\n"
    )
    assert (await box.call(source, "f", {})).value == [1, 2, 3, 4]
