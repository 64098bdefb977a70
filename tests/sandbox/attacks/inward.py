"""Attacks on the processes beside the tool, on its rights, and through what it can start."""

from typing import Final

from .attack import REFUSED, SHORT, Attack

STARTING: Final = (
    Attack(
        name="fork_bomb",
        without="processes are made until the machine stops answering",
        safe_unboxed=False,
        body="""
        for n in range(500):
            try:
                pid = os.fork()
            except OSError:
                return n
            if pid == 0:
                time.sleep(20)
                os._exit(0)
            if n > 64:
                return "BAD no limit"
        """,
    ),
    Attack(
        name="fork",
        without="a copy of the tool works on, with limits of its own",
        by_filter=True,
        body="""
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "BAD forked"
        """,
    ),
    Attack(
        name="thread_bomb",
        without="threads are made until nobody of this user can start any",
        safe_unboxed=False,
        body="""
        made = 0
        try:
            for made in range(400):
                threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        except RuntimeError:
            pass
        return f"BAD {made} threads" if made > 64 else made
        """,
    ),
    Attack(
        name="exec_shell",
        without="any command is run",
        body="""
        import subprocess
        done = subprocess.run(["/bin/sh", "-c", "echo BAD a shell"], capture_output=True, text=True)
        return done.stdout
        """,
    ),
    Attack(
        name="exec_python",
        without="a new Python runs, without what the first had patched or dropped",
        by_filter=True,
        ends=REFUSED | {"ValueError"},
        body="""
        os.environ.clear()
        os.execv("/proc/self/exe", ["python", "-S", "-c", "print('BAD a new program')"])
        """,
    ),
    Attack(
        name="exec_written",
        without="a program that was downloaded or written is run",
        by_filter=True,
        body="""
        path = "/tmp/" + host["tag"]
        import shutil
        shutil.copyfile("/proc/self/exe", path)
        os.chmod(path, 0o755)
        os.execv(path, ["python", "-S", "-c", "print('BAD a written program')"])
        """,
    ),
    Attack(
        name="exec_from_memory",
        without="a program is run that was never in any file",
        by_filter=True,
        body="""
        wire = os.memfd_create("x")
        with open("/proc/self/exe", "rb") as program:
            os.write(wire, program.read())
        os.execve(wire, ["python", "-S", "-c", "print('BAD from memory')"], {})
        """,
    ),
    Attack(
        name="spawn",
        without="a helper is started by the C library, past what was patched in Python",
        by_filter=True,
        body="""
        pid = os.posix_spawn(os.path.realpath("/proc/self/exe"), ["python", "-S", "-c", "pass"], {})
        return "BAD spawned" if os.waitpid(pid, 0)[1] == 0 else "it failed"
        """,
    ),
)

NEIGHBOURS: Final = (
    Attack(
        name="kill_witness",
        without="a process of the same user is killed",
        body="os.kill(host['pid'], signal.SIGKILL)\nreturn 'BAD killed'",
    ),
    Attack(
        name="kill_everything",
        without="every process of this user is killed, as root the machine",
        safe_unboxed=False,
        body="""
        for pid in (1, os.getppid(), 0 - os.getppid(), -1):
            for number in range(1, 65):
                if pid != -1 or number in (9, 15, 19):
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
        time.sleep(0.1)
        return "alone"
        """,
    ),
    Attack(
        name="stop_parent",
        without="the harness is stopped, and whoever waits for it waits for ever",
        safe_unboxed=False,
        body="os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(0.1)\nreturn 'it goes on'",
    ),
    Attack(
        name="ptrace",
        without="a process of the same user is controlled, as a debugger would",
        body="""
        for pid in (host["pid"], os.getppid(), 1):
            if libc.ptrace(16, pid, None, None) == 0:  # PTRACE_ATTACH
                os.waitpid(pid, 0x40000000)
                libc.ptrace(17, pid, None, None)
                return f"BAD attached to {pid}"
        return "refused"
        """,
    ),
    Attack(
        name="memory_of_others",
        without="memory of a process of the same user is read and written",
        body="""
        for pid in (host["pid"], os.getppid(), 1):
            for path in (f"/proc/{pid}/mem", f"/proc/{pid}/maps"):
                try:
                    wire = os.open(path, os.O_RDONLY)
                    if path.endswith("maps") and not os.read(wire, 1):
                        continue
                except OSError:
                    continue
                return "BAD opened " + path
        return "refused"
        """,
    ),
    Attack(
        name="copy_memory",
        without="memory of a process of the same user is copied without a file",
        body="""
        class Part(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        buffer = ctypes.create_string_buffer(8)
        mine = Part(ctypes.addressof(buffer), 8)
        theirs = Part(id(None), 8)
        got = kernel(310, 270, os.getppid(), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
        # Outside, the parent may have nothing at that address; only the right to look counts.
        return "BAD allowed" if got >= 0 or ctypes.get_errno() == 14 else "refused"
        """,
    ),
    Attack(
        name="descriptors_of_parent",
        without="the control socket is taken from the harness",
        body="""
        for n in range(3, 8):
            try:
                os.close(os.open(f"/proc/{os.getppid()}/fd/{n}", os.O_RDWR))
                return "BAD opened"
            except OSError:
                pass
        wire = os.pidfd_open(os.getppid())
        got = [kernel(438, 438, wire, n, 0) for n in range(3, 8)]  # pidfd_getfd
        return f"BAD got {got}" if max(got) >= 0 else "refused"
        """,
    ),
    Attack(
        name="descriptors",
        without="sockets and files that the harness left open are used",
        body="""
        import stat
        kinds = {}
        for n in range(256):
            try:
                kinds[n] = os.fstat(n).st_mode
            except OSError:
                pass
        if odd := [n for n, mode in kinds.items() if stat.S_ISSOCK(mode) or stat.S_ISDIR(mode)]:
            return f"BAD holds {odd}"
        return sorted(kinds)
        """,
    ),
    Attack(
        name="kill_by_fcntl",
        without="a process of the same user is killed by the kernel itself, as the owner of a pipe",
        body="""
        import fcntl
        there = os.path.exists(f"/proc/{host['pid']}")
        out, into = os.pipe()
        fcntl.fcntl(out, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(out, fcntl.F_SETOWN, host["pid"] if there else 1)
        fcntl.fcntl(out, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(into, b"x")
        time.sleep(0.1)
        return "sent"
        """,
    ),
    Attack(
        name="limit_parent",
        without="the limits of a process of the same user are changed under it",
        by_filter=True,
        body="""
        import resource
        resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))
        return "BAD set"
        """,
    ),
    Attack(
        name="slow_parent",
        without="processes of the same user are put last in the queue for a processor",
        by_filter=True,
        body="""
        parent, done = os.getppid(), []
        for name, change in (
            ("priority", lambda: os.setpriority(os.PRIO_PROCESS, parent, 1)),
            ("processors", lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent))),
            ("policy", lambda: os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0))),
        ):
            try:
                change()
            except OSError:
                continue
            done.append(name)
        return f"BAD set {done}" if done else "refused"
        """,
    ),
    Attack(
        name="next_process",
        without="the process that waits for the next call is read or taken over",
        safe_unboxed=False,  # it opens whatever runs
        body="""
        mine, got = {"1", str(os.getpid())}, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for part in ("mem", "environ", "fd/3", "fd/4", "maps", "syscall"):
                try:
                    wire = os.open(f"/proc/{pid}/{part}", os.O_RDONLY)
                    if pid not in mine and (part == "mem" or os.read(wire, 1)):
                        got.append(f"{pid}/{part}")
                except OSError:
                    pass
        return f"BAD opened {got}" if got else "none"
        """,
    ),
    Attack(
        name="stop_itself",
        without="the call never ends",
        limits=SHORT,
        ends=frozenset({"timeout", "killed", "PermissionError"}),
        body="os.kill(os.getpid(), signal.SIGSTOP)\nreturn 'it went on'",
    ),
)

RIGHTS: Final = (
    Attack(
        name="setuid",
        without="a tool started by root stays or becomes root",
        body="""
        for change in (os.setuid, os.seteuid, os.setgid):
            try:
                change(0)
            except OSError:
                continue
            return f"BAD uid {os.getuid()}"
        os.setgroups([0])
        return "BAD groups"
        """,
    ),
    Attack(
        name="capabilities",
        without="root's capabilities are there to use",
        body="""
        lines = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
        for n in range(41):
            libc.prctl(47, 2, n, 0, 0)  # PR_CAP_AMBIENT_RAISE
        held = [lines[name].strip() for name in ("CapEff", "CapPrm", "CapAmb", "CapBnd")]
        return f"BAD {held}" if any(int(one, 16) for one in held) else "none"
        """,
    ),
    Attack(
        name="user_namespace",
        without="it becomes root in a namespace of its own, where much more of the kernel is open",
        by_filter=True,
        body="return 'BAD made' if libc.unshare(0x10000000 | 0x20000) == 0 else 'refused'",
    ),
    Attack(
        name="namespaces",
        without="root leaves the view that it was given",
        body="""
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000):
            if libc.unshare(flag) == 0:
                return f"BAD made {flag:x}"
        return "refused"
        """,
    ),
    Attack(
        name="namespace_by_clone3",
        without="the same by a call whose arguments no filter can read",
        by_filter=True,
        body="""
        args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)  # CLONE_NEWUSER, exit by SIGCHLD
        pid = kernel(435, 435, ctypes.byref(args), ctypes.sizeof(args))
        if pid == 0:
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
            return "BAD made"
        return "refused"
        """,
    ),
    Attack(
        name="enter_namespace",
        without="root enters the namespaces of another process",
        body="""
        for pid in (host["pid"], 1):
            for kind in ("user", "mnt", "net", "pid"):
                try:
                    wire = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                except OSError:
                    continue
                if libc.setns(wire, 0) == 0:
                    return f"BAD entered {kind} of {pid}"
        return "refused"
        """,
    ),
    Attack(
        name="kernel_keys",
        without="keys are left in the kernel for whoever runs under the same user next",
        by_filter=True,
        body="""
        name = host["tag"].encode()
        got = kernel(248, 217, b"user", name, b"x", ctypes.c_size_t(1), -3)  # session keyring
        if got > 0:
            kernel(250, 219, 9, got, -3)  # taken out again
            return "BAD left one"
        return "refused"
        """,
    ),
    Attack(
        name="other_calls",
        without="the kernel's other tables of calls, which a filter may not know, are used",
        by_filter=True,
        body="""
        if os.uname().machine != "x86_64":
            return "there are none"
        if kernel(0x40000000 + 39, 0) > 0:  # getpid of the x32 table
            return "BAD x32"
        import mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("53 b814000000 cd80 5b c3"))  # getpid of i386
        at = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return "BAD i386" if ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0 else "refused"
        """,
    ),
    Attack(
        name="rare_calls",
        without="parts of the kernel where most of its holes were are open",
        by_filter=True,
        body="""
        zeros = ctypes.create_string_buffer(256)
        calls = {
            "io_uring_setup": (425, 425, 4, zeros),
            "userfaultfd": (323, 282, 1),
            "perf_event_open": (298, 241, zeros, 0, -1, -1, 0),
            "bpf": (321, 280, 0, zeros, 72),
            "keyctl": (250, 219, 0, -3, 1),
        }
        opened = [name for name, words in calls.items() if kernel(*words) >= 0]
        return f"BAD {opened}" if opened else "refused"
        """,
    ),
)

INWARD: Final = STARTING + NEIGHBOURS + RIGHTS
