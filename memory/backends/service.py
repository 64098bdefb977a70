"""The owner's side of a shared memory folder: a socket, and a thread for each process on it."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from ...errors import StoreError
from . import address, wire
from .operations import Operations, perform
from .wire import Closed, Frame, Lost

BEAT_SECONDS: Final = 1.0
"""How often a process that waits for a long operation is told that the owner is alive."""
GREETING_SECONDS: Final = 10.0
"""Who has not said by then that it speaks this protocol is hung up on."""
MAX_PEERS: Final = 256
"""More connections than this are closed at once."""
LEAVE_SECONDS: Final = 2.0
"""How long an owner that leaves waits for its last answers to be read."""


class _Gone(Exception):
    """Who made the request has hung up: it was not carried out."""


Submit = Callable[[Callable[[Operations], Frame]], Future[Frame]]


class Service:
    """Serves a folder to other processes of the same user until `finish`.

    Args:
        folder: The memory's folder, whose lock this process holds.
        submit: Runs a job in the thread that owns the shards.

    Raises:
        OSError: If there is no place for a socket, or no thread.
    """

    def __init__(self, folder: Path, submit: Submit) -> None:
        self._submit = submit
        self._leaving = False
        self._peers: dict[socket.socket, threading.Thread] = {}
        self._door = threading.Lock()
        self._listener, self.path = address.listen(folder)
        self._thread = threading.Thread(
            target=self._accept, name="mem2evolve-memory-door", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as exc:  # as in `_admit`
            self._listener.close()
            address.withdraw(self.path)
            raise OSError(str(exc)) from exc

    def shut(self) -> None:
        """Take no more connections and free the address. Call it while the lock is held."""
        self._leaving = True
        with contextlib.suppress(OSError):
            address.withdraw(self.path)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._thread.join()
        self._listener.close()

    def finish(self) -> None:
        """Let each connection send the answer it owes, and close them. Idempotent."""
        deadline = time.monotonic() + LEAVE_SECONDS
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            with self._door:
                peers = list(self._peers.items())
            for sock, _ in peers:
                with contextlib.suppress(OSError):
                    sock.shutdown(how)
            for _, thread in peers:
                thread.join(max(0.0, deadline - time.monotonic()))
            deadline += LEAVE_SECONDS

    def abandon(self) -> None:
        """Close this forked child's copies; the parent's connections stay as they are."""
        for sock in (self._listener, *list(self._peers)):
            sock.close()

    def _accept(self) -> None:
        while not self._leaving:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                time.sleep(0.05)  # no descriptor is left, or `shut` was called
                continue
            thread = threading.Thread(
                target=self._serve, args=(sock,), name="mem2evolve-memory-peer", daemon=True
            )
            if not self._admit(sock, thread):
                sock.close()

    def _admit(self, sock: socket.socket, thread: threading.Thread) -> bool:
        with self._door:
            if len(self._peers) >= MAX_PEERS:
                return False
            try:
                thread.start()
            except RuntimeError:  # the system, or an interpreter that is ending, has no more
                return False
            self._peers[sock] = thread
            return True

    def _serve(self, sock: socket.socket) -> None:
        try:
            with contextlib.suppress(Lost, OSError):
                if _greeted(sock):
                    while self._answer(sock, wire.receive(sock)):
                        pass
        finally:
            with self._door:
                del self._peers[sock]
            sock.close()

    def _answer(self, sock: socket.socket, request: Frame) -> bool:
        """Carry out a request and send the answer; return whether there may be another."""
        future = self._submit(lambda target: _unless_gone(sock, target, request))
        exc = _patiently(future, sock)
        if isinstance(exc, _Gone):
            return False
        if isinstance(exc, Closed):
            wire.send(sock, Frame({"leaving": True}))
            return False
        _reply(sock, Frame({"error": wire.pack_error(exc)}) if exc else future.result())
        return True


def _patiently(future: Future[Frame], sock: socket.socket) -> BaseException | None:
    """Wait for what became of a request; tell the other side meanwhile that we are alive."""
    while True:
        try:
            return future.exception(BEAT_SECONDS)
        except TimeoutError:
            wire.send(sock, Frame({"busy": True}))


def _greeted(sock: socket.socket) -> bool:
    """Exchange greetings; return whether the other side may ask for something."""
    if not wire.same_user(sock):
        return False
    sock.settimeout(GREETING_SECONDS)
    theirs = wire.receive(sock, limit=wire.GREETING_BYTES).head.get("protocol")
    wire.send(sock, Frame({"protocol": wire.PROTOCOL}))
    sock.settimeout(None)
    return bool(theirs == wire.PROTOCOL)


def _unless_gone(sock: socket.socket, target: Operations, request: Frame) -> Frame:
    """Carry out a request, unless who made it has hung up and may have repeated it elsewhere."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    if poll.poll(0):
        raise _Gone
    return perform(target, request)


def _reply(sock: socket.socket, answer: Frame) -> None:
    try:
        wire.send(sock, answer)
    except StoreError as exc:  # the answer is too long
        wire.send(sock, Frame({"error": wire.pack_error(exc)}))
