"""The two system-call filters of a box, assembled as classic BPF without a compiler.

`base_filter` holds for the whole box, its trusted process 1 included; bwrap installs it.
`tool_filter` holds for the process that runs generated code; it installs it on itself before it
learns what it is to run. Both are lists of what is denied, on top of namespaces, limits and no
capabilities: a call they do not know is left to those. A number of another architecture, or of
x32, ends the process.
"""

import platform
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..errors import SandboxUnavailable

KILL: Final = 0x80000000
ALLOW: Final = 0x7FFF0000
ERRNO: Final = 0x00050000
EPERM: Final = 1
ENOSYS: Final = 38
EAFNOSUPPORT: Final = 97

LOAD: Final = 0x20  # ld  [k]: a word of `struct seccomp_data`
IF_EQUAL: Final = 0x15
IF_AT_LEAST: Final = 0x35
IF_ANY_BIT: Final = 0x45
RETURN: Final = 0x06

NUMBER_AT: Final = 0
ARCHITECTURE_AT: Final = 4
ARGUMENT_AT: Final = (16, 24)
"""The low words of the first two arguments. Both architectures are little-endian."""

X32_BIT: Final = 0x40000000
CLONE_THREAD: Final = 0x00010000
CLONE_NEW: Final = 0x7E020000
"""Every namespace that clone can make: mount, cgroup, uts, ipc, user, pid, net."""
TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""ioctl TIOCSTI and TIOCLINUX: typing into a terminal."""
UNIX: Final = (1,)
LOCAL: Final = (1, 2, 10)
"""unix, inet, inet6. The box's network is its own; vsock, netlink, packet and alg are not."""


class Architecture(NamedTuple):
    """What differs between machines."""

    audit: int
    column: int
    """Of `NUMBERS`."""
    x32: bool


MACHINES: Final = {
    "x86_64": Architecture(0xC000003E, 0, x32=True),
    "aarch64": Architecture(0xC00000B7, 1, x32=False),
}

_BASE: Final = """
unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51,
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
fspick 433 433, mount_setattr 442 442, open_tree_attr 467 467, swapon 167 224, swapoff 168 225,
name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262,
quotactl 179 60, quotactl_fd 443 443, acct 163 89, lookup_dcookie 212 18, nfsservctl 180 42,
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
process_mrelease 448 448, pidfd_getfd 438 438, kcmp 312 272, migrate_pages 256 238,
move_pages 279 239, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282,
keyctl 250 219, add_key 248 217, request_key 249 218,
kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273,
delete_module 176 106, reboot 169 142, personality 135 92, syslog 103 116, vhangup 153 58,
settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266,
sethostname 170 161, setdomainname 171 162, ioperm 173 -, iopl 172 -, modify_ldt 154 -,
uselib 134 -, _sysctl 156 -
"""
_TOOL: Final = """
execve 59 221, execveat 322 281, fork 57 -, vfork 58 -,
kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
pidfd_send_signal 424 424, pidfd_open 434 434, memfd_create 319 279, memfd_secret 447 447,
shmget 29 194, msgget 68 186, semget 64 190, mq_open 240 180,
setpriority 141 140, ioprio_set 251 30, sched_setscheduler 144 119, sched_setparam 142 118,
sched_setattr 314 274, sched_setaffinity 203 122
"""
_FOR_SHOW: Final = "utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88"
"""Setting times: said to be done, and not done, since copying a file ends with it. Anyone may set
those of a device in /dev, and the devices are the host's: a note for all other boxes to read."""
_NOT_HERE: Final = """
clone3 435 435, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
"""
"""Answered as an old kernel would, so that callers fall back: glibc then makes threads by clone."""
_LOOKED_INTO: Final = (
    "socket 41 198, socketpair 53 199, clone 56 220, ioctl 16 29, prlimit64 302 261"
)


def _table(text: str) -> dict[str, tuple[int | None, int | None]]:
    rows = (row.split() for row in text.replace("\n", " ").split(","))
    return {
        name: (int(x86), None if arm == "-" else int(arm))
        for name, x86, arm in rows  # every one of them exists on x86_64
    }


BASE_DENIED: Final = _table(_BASE)
TOOL_DENIED: Final = _table(_TOOL)
FOR_SHOW: Final = _table(_FOR_SHOW)
NOT_HERE: Final = _table(_NOT_HERE)
LOOKED_INTO: Final = _table(_LOOKED_INTO)


def base_filter(machine: str = "") -> bytes:
    """Return the program for the whole box: no namespaces, mounts, tracing, keys, modules, vsock.

    Args:
        machine: As `platform.machine()` says it, which is the default.

    Raises:
        SandboxUnavailable: If the system calls of that machine are not known here.
    """
    return _assemble(machine, tool=False)


def tool_filter(machine: str = "") -> bytes:
    """Return the program for generated code: nor any process, signal, memfd, IPC or inet socket.

    Args:
        machine: As `platform.machine()` says it, which is the default.

    Raises:
        SandboxUnavailable: If the system calls of that machine are not known here.
    """
    return _assemble(machine, tool=True)


def _assemble(machine: str, *, tool: bool) -> bytes:
    name = machine or platform.machine()
    architecture = MACHINES.get(name)
    if architecture is None:
        raise SandboxUnavailable(
            f"Generated code cannot be run safely: no system-call filter is known for {name!r}.",
            hint=f"Run on {' or '.join(MACHINES)}. Or set MEM2EVOLVE_SANDBOX=unsafe-subprocess to "
            "run generated code with no protection at all.",
        )
    # Each step: code, where to jump if true, if false, operand. Jumps skip that many steps.
    return b"".join(struct.pack("<HBBI", *step) for step in _steps(architecture, tool=tool))


Step = tuple[int, int, int, int]


def _steps(architecture: Architecture, *, tool: bool) -> Iterator[Step]:
    column = architecture.column
    yield from ((LOAD, 0, 0, ARCHITECTURE_AT), (IF_EQUAL, 1, 0, architecture.audit))
    yield from ((RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER_AT))
    if architecture.x32:
        yield from ((IF_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, KILL))
    denied = BASE_DENIED | (TOOL_DENIED if tool else {})
    for table, errno in ((NOT_HERE, ENOSYS), (denied, EPERM), (FOR_SHOW if tool else {}, 0)):
        for numbers in table.values():
            if (number := numbers[column]) is not None:
                yield from ((IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | errno))
    inside = {name: numbers[column] or 0 for name, numbers in LOOKED_INTO.items()}
    yield from _look_into(inside["socket"], _families(UNIX if tool else LOCAL))
    # The kernel makes two sockets, loading their protocol, before it finds that they have no pairs.
    yield from _look_into(inside["socketpair"], _families(UNIX))
    yield from _look_into(inside["clone"], _clone_flags(tool=tool))
    yield from _look_into(inside["ioctl"], _requests())
    if tool:
        yield from _look_into(inside["prlimit64"], _itself())
    yield (RETURN, 0, 0, ALLOW)


def _look_into(number: int, steps: list[Step]) -> Iterator[Step]:
    """For that call run the steps, which end in a verdict; else skip them."""
    yield (IF_EQUAL, 0, len(steps), number)
    yield from steps


def _families(allowed: tuple[int, ...]) -> list[Step]:
    tests: list[Step] = [(IF_EQUAL, len(allowed) - n, 0, f) for n, f in enumerate(allowed)]
    ends: list[Step] = [(RETURN, 0, 0, ERRNO | EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    return [(LOAD, 0, 0, ARGUMENT_AT[0]), *tests, *ends]


def _clone_flags(*, tool: bool) -> list[Step]:
    steps: list[Step] = [(LOAD, 0, 0, ARGUMENT_AT[0]), (IF_ANY_BIT, 0, 1, CLONE_NEW)]
    steps += [(RETURN, 0, 0, ERRNO | EPERM)]
    if tool:  # a thread, never a process
        steps += [(IF_ANY_BIT, 1, 0, CLONE_THREAD), (RETURN, 0, 0, ERRNO | EPERM)]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _requests() -> list[Step]:
    steps: list[Step] = [(LOAD, 0, 0, ARGUMENT_AT[1])]
    for request in TERMINAL_INPUT:
        steps += [(IF_EQUAL, 0, 1, request), (RETURN, 0, 0, ERRNO | EPERM)]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _itself() -> list[Step]:
    """The limits of another process, as of the box's process 1, are not a tool's to set."""
    load: Step = (LOAD, 0, 0, ARGUMENT_AT[0])
    ends: list[Step] = [(RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
    return [load, (IF_EQUAL, 1, 0, 0), *ends]
