"""Attacks on what is outside: reading it, changing it, talking to it."""

from typing import Final

from .attack import Attack

READING: Final = (
    Attack(
        name="read_passwd",
        without="the accounts, and as root the password hashes, are read",
        body="""
        for path in ("/etc/shadow", "/etc/passwd"):
            try:
                return "BAD read " + path if open(path).read(1) else ""
            except OSError as exc:
                last = exc
        raise last
        """,
    ),
    Attack(
        name="read_key",
        without="a private key in a folder of ours is read",
        body="return open(host['secret']).read()",
    ),
    Attack(
        name="read_home",
        without="the home folder is listed",
        body="""
        if host["home"] == "/" or not os.path.isdir(host["home"]):
            return "there is none"
        seen = os.listdir(host["home"])
        ways = {".pyenv", ".local", ".cache", ".rye", "miniconda3"}  # a Python may live below
        return f"BAD {len(seen)} entries" if set(seen) - ways else "only the way to the Python"
        """,
    ),
    Attack(
        name="read_program",
        without="this program's own files, and the tests' expected values, are read",
        body="return 'BAD ' + open(host['program']).read(20)",
    ),
    Attack(
        name="read_own_environment",
        without="API keys in the environment are read",
        body="return f'BAD {len(os.environ)} variables' if os.environ else 'empty'",
    ),
    Attack(
        name="read_environments",
        without="API keys are read from another process's environment",
        body="""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                found = open(f"/proc/{pid}/environ", "rb").read()
            except OSError:
                continue
            if b"MEM2EVOLVE_CANARY=" in found or (found.strip(b"\\0") and pid == "1"):
                return "BAD the environment of " + pid
        return "none"
        """,
    ),
    Attack(
        name="read_command_lines",
        without="the command lines of all processes are read",
        body="""
        seen = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
        for pid in seen:
            if pid == str(host["pid"]):
                return "BAD the witness's is " + open(f"/proc/{pid}/cmdline").read()
        return "none"
        """,
    ),
    Attack(
        name="read_through_proc",
        without="the host's root folder is entered through another process",
        body="""
        for pid in (host["pid"], os.getppid(), 1):
            for way in ("root", "cwd"):
                path = f"/proc/{pid}/{way}" + host["secret"]
                if os.path.exists(path):
                    return "BAD " + open(path).read()
        return "none"
        """,
    ),
    Attack(
        name="read_kernel",
        without="root opens memory, disks and the kernel's log",
        body="""
        for path in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/proc/kcore", "/dev/port"):
            try:
                os.close(os.open(path, os.O_RDONLY))
            except OSError:
                continue
            return "BAD opened " + path
        return "none"
        """,
    ),
    Attack(
        name="symlink_out",
        without="a link where results are kept leads whoever follows it to the secret",
        body="""
        link = "/tmp/" + host["tag"]
        if not os.path.islink(link):
            os.symlink(host["secret"], link)
        return open(link).read()
        """,
    ),
)

WRITING: Final = (
    Attack(
        name="write_outside",
        without="a file is made anywhere the user may write",
        body="open(host['scratch'] + '/new', 'w').write('x')\nreturn 'BAD wrote'",
    ),
    Attack(
        name="overwrite",
        without="a file of ours is overwritten",
        body="open(host['secret'], 'w').write('x')\nreturn 'BAD wrote'",
    ),
    Attack(
        name="delete_tools",
        without="the folder of generated tools is deleted",
        body="import shutil\nshutil.rmtree(host['tools'])\nreturn 'BAD deleted'",
    ),
    Attack(
        name="change_python",
        without="root changes the standard library for every later program",
        body="""
        for path in (os.__file__, os.path.realpath(sys.executable or "/proc/self/exe")):
            with open(path, "r+b"):
                return "BAD opened " + path
        """,
    ),
    Attack(
        name="change_given_file",
        without="a file of the task is changed",
        files=True,
        safe_unboxed=False,  # no files are shown there
        body="""
        for change in (
            lambda: os.chmod("/data/in", 0o777),
            lambda: os.rename("/data/in", "/data/out"),
            lambda: os.unlink("/data/in"),
            lambda: os.link("/data/in", "/tmp/in"),
            lambda: open("/data/in", "r+"),
            lambda: open("/data/new", "w"),
            lambda: open("/proc/self/root/data/in", "w"),
        ):
            try:
                change()
            except OSError:
                continue
            return "BAD changed it"
        return "read-only"
        """,
    ),
    Attack(
        name="core_pattern",
        without="root has the kernel start a program of its choice at the next crash",
        body="""
        for path in (
            "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
            "/sys/kernel/uevent_helper", "/proc/sys/vm/drop_caches", "/sys/fs/cgroup/release_agent",
        ):
            try:
                os.close(os.open(path, os.O_WRONLY))
            except OSError:
                continue
            return "BAD opened " + path
        return "none"
        """,
    ),
    Attack(
        name="remount",
        without="root makes read-only places writable",
        safe_unboxed=False,
        body="""
        for place in (b"/", b"/usr/lib", b"/dev", b"/proc"):
            if libc.mount(None, place, None, 0x20 | 0x1000, None) == 0:  # MS_REMOUNT | MS_BIND
                return "BAD remounted"
            if libc.mount(b"tmpfs", place, b"tmpfs", 0, None) == 0 or libc.umount2(place, 2) == 0:
                return "BAD mounted"
        return "refused"
        """,
    ),
    Attack(
        name="chroot",
        without="root moves its own root folder, the first step out of a simple jail",
        body="os.chroot(host['scratch'] if os.path.isdir(host['scratch']) else '/tmp')\n"
        "return 'BAD moved'",
    ),
    Attack(
        name="device_node",
        without="root makes itself a device file for the disk",
        body="""
        import stat
        path = "/tmp/" + host["tag"]
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.close(os.open(path, os.O_RDONLY))
        return "BAD made and opened"
        """,
    ),
)

TALKING: Final = (
    Attack(
        name="tcp",
        without="a service on loopback is reached",
        body="socket.create_connection(('127.0.0.1', host['tcp']), 2)\nreturn 'BAD connected'",
    ),
    Attack(
        name="udp",
        without="data leaves by UDP",
        body="""
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wire.sendto(b"x", ("127.0.0.1", host["udp"]))
        return "into its own loopback"
        """,
    ),
    Attack(
        name="internet",
        without="any host is reached",
        body="""
        routes = open("/proc/net/route").read().splitlines()[1:]
        if routes:
            return f"BAD {len(routes)} routes"
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wire.connect(("192.0.2.1", 9))  # sends nothing: it only asks for a route
        return "BAD a route"
        """,
    ),
    Attack(
        name="abstract_socket",
        without="a desktop or container service that listens without a file is reached",
        body="socket.socket(socket.AF_UNIX).connect(host['abstract'])\nreturn 'BAD connected'",
    ),
    Attack(
        name="named_socket",
        without="a socket file is connected to, as Docker's would be",
        body="socket.socket(socket.AF_UNIX).connect(host['socket'])\nreturn 'BAD connected'",
    ),
    Attack(
        name="vsock",
        without="the hypervisor's own network is open, which no namespace covers",
        by_filter=True,
        body="socket.socket(40, socket.SOCK_STREAM)\nreturn 'BAD a socket'",
    ),
    Attack(
        name="netlink",
        without="the kernel's configuration interfaces, where its bugs are, are open",
        by_filter=True,
        body="socket.socket(16, socket.SOCK_RAW, 0)\nreturn 'BAD a socket'",
    ),
    Attack(
        name="raw_packets",
        without="root reads and forges the traffic of the host",
        body="""
        for family, kind in ((17, socket.SOCK_RAW), (2, socket.SOCK_RAW)):
            try:
                socket.socket(family, kind, 255)
            except OSError:
                continue
            return f"BAD a socket of family {family}"
        return "none"
        """,
    ),
    Attack(
        name="rare_sockets",
        without="protocols that nobody uses and few have checked are loaded into the kernel",
        by_filter=True,
        body="""
        opened = []
        for family in (5, 9, 21, 29, 30, 31, 33, 38, 41, 43, 44):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
                try:
                    socket.socket(family, kind).close()
                except OSError:
                    continue
                opened.append(family)
        return f"BAD families {opened}" if opened else "none"
        """,
    ),
    Attack(
        name="socket_pairs",
        without="the same protocols are loaded by a call that makes two sockets at once",
        by_filter=True,
        body="""
        reached, two = [], (ctypes.c_int * 2)()
        for family in (2, 10, 16, 17, 30, 38, 40):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
                made = libc.socketpair(family, kind, 0, two) == 0
                if made or ctypes.get_errno() == 95:  # EOPNOTSUPP: made, then found wanting
                    reached.append(family)
        return f"BAD families {sorted(set(reached))}" if reached else "none"
        """,
    ),
    Attack(
        name="terminal",
        without="keys are typed into the terminal of whoever started this",
        safe_unboxed=False,
        body="""
        import fcntl
        wire = os.open("/dev/tty", os.O_RDWR)
        fcntl.ioctl(wire, 0x5412, b"x")
        return "BAD typed"
        """,
    ),
)

OUTWARD: Final = READING + WRITING + TALKING
