"""The process that serves studies: `osrl serve`."""

from __future__ import annotations

import asyncio
import ipaddress
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from osrl.errors import OsrlError
from osrl.files import new_private_file, read_file
from osrl.service.app import Application
from osrl.service.protocol import LIMITS, Limits, Protocol, limited_protocol
from osrl.service.tokens import new_token, token_id
from osrl.service.webhooks import Receiver

GRACE_SECONDS = 2  # for requests that are being answered, when the server ends


class Server(uvicorn.Server):
    """A server that ends its streams as soon as it is told to end."""

    def __init__(self, config: uvicorn.Config, application: Application, started: Callable[[str], object]) -> None:
        super().__init__(config)
        self._application, self._started = application, started

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and report the address."""
        await super().startup(sockets)
        if self.started:
            address = self.servers[0].sockets[0].getsockname()
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self._started(f"http://{host}:{address[1]}{self._application.root}")

    async def shutdown(self, sockets: Any = None) -> None:
        """End; cut off unfinished answers, which would each log an error when time is up."""
        asyncio.get_running_loop().call_later(0.75 * GRACE_SECONDS, self._cut_off)
        await super().shutdown(sockets)

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol) and connection.answering:
                connection.transport.abort()

    def handle_exit(self, signal: int, frame: Any) -> None:
        """Begin to end; at a second signal, without waiting."""
        self._application.end_streams()
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(
    place: str,
    *,
    host: str,
    port: int,
    token_file: str | None,
    hosts: Sequence[str],
    root_path: str,
    receiver: Receiver | None,
    prepare: Callable[[Application], object],
    started: Callable[[str, Application], object],
) -> None:
    """Serve the studies of a database until the process is told to end."""
    token = None if token_file is None else read_token_file(Path(token_file))
    application = Application(place, token=token, hosts=[host, *hosts], root=root_path, receiver=receiver)
    if not is_loopback(host) and not application.context.tokens.grants:
        raise OsrlError(
            f"{host} can be reached by others, and there is no token yet; make one with `osrl token create`, "
            "or give --token-file"
        )
    prepare(application)
    config = new_config(application, host, port)
    server = Server(config, application, lambda address: started(address, application))
    server.run()
    if not server.started:
        raise OsrlError(f"{host}:{port} cannot be listened on; another program may be there, give another --port")


def new_config(application: Application, host: str, port: int, limits: Limits = LIMITS) -> uvicorn.Config:
    """Return the configuration of uvicorn."""
    return uvicorn.Config(
        application,
        host=host,
        port=port,
        http=limited_protocol(limits),
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        backlog=2048,
        lifespan="on",
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can call an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def read_token_file(path: Path) -> str:
    """Return the token in a file; make one where there is no file."""
    try:
        if not path.exists():
            new_private_file(path)
            path.write_text(f"{new_token().token}\n", encoding="ascii")
        mode = path.stat().st_mode
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
            raise OsrlError(
                f"{path}: others may read or change the token (mode {stat.S_IMODE(mode):03o}); make a new "
                "one, in a file with mode 600"
            )
        token = read_file(path, 1000).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise OsrlError(f"{path}: the token cannot be read ({error}); give a file with one token") from None
    try:
        token_id(token)
    except OsrlError:
        raise OsrlError(f"{path} has no token on its first line; remove it, and a new one is made") from None
    return token
