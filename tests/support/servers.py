"""A server for tests: in a thread of this process, or as a process of its own that may be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from osrl.service.app import Application
from osrl.service.protocol import LIMITS, Limits
from osrl.service.server import Server, new_config
from osrl.service.tokens import create_token

STUDIES = "/api/v1/studies"
NAMES: dict[str, Any] = {
    "tasks": ["young", "old"],
    "representations": ["A", "B"],
    "predictors": ["low", "high"],
}


class Serving:
    """A server in a thread of this process."""

    def __init__(self, place: str, port: int = 0, limits: Limits = LIMITS, **given: Any) -> None:
        self.place = place
        self.application = Application(place, **given)
        self._started = threading.Event()
        config = new_config(self.application, "127.0.0.1", port, limits)
        self._server = Server(config, self.application, self._has_started)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        assert self._started.wait(30)

    def _has_started(self, address: str) -> None:
        self.url = address
        self._started.set()

    def token(self, role: str = "own", study: str | None = None) -> str:
        """Return a new token."""
        return create_token(self.application.context.storage, role, study, None).token

    def client(self, role: str = "own", study: str | None = None, **given: Any) -> httpx.Client:
        """Return a client with a new token."""
        headers = {"Authorization": f"Bearer {self.token(role, study)}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **given)

    def stop(self) -> None:
        """End it as a signal would."""
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def serving(place: str, **given: Any) -> Iterator[Serving]:
    """Serve a place until the end of the block."""
    server = Serving(place, **given)
    try:
        yield server
    finally:
        server.stop()


class Process:
    """A server as a process of its own."""

    def __init__(self, place: str, port: int = 0, *more: str) -> None:
        command = [sys.executable, "-m", "osrl.cli", "serve", place, "--port", str(port), *more]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert " at http" in line, line + self.process.stderr.read()
        self.url = line.rsplit(" ", 1)[1].strip()
        self.said = ""  # after its first line, once it has ended
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.said = lines.read()

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def kill(self) -> None:
        """Kill it at once, as a power cut would."""
        self.process.kill()
        self.process.wait(20)
        self._reader.join(20)

    def end(self) -> None:
        """Tell it to end, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        self._reader.join(20)


def free_port() -> int:
    """Return a port that the system says is free, for a program that must be told one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def raw(server: Serving) -> socket.socket:
    """Connect to a server without a client."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 20)


def until_end(connection: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    found = b""
    while part := connection.recv(2**16):
        found += part
    return found
