"""A verdict reaches people: once, signed, after failures and after a restart, and only when it is final."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from sqlalchemy import select, update

from osrl.cli import main
from osrl.errors import OsrlError
from osrl.service import webhooks
from osrl.service.tables import messages
from osrl.service.webhooks import Receiver, read_receiver
from osrl.study.storage.sql import SqlStorage
from osrl.study.study import Study
from tests.support.processes import wait_until
from tests.support.servers import NAMES, serving

SECRET = "0123456789abcdef"


class Inbox:
    """A receiver that refuses the first ``refusals`` messages."""

    def __init__(self, refusals: int = 0) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []
        self.attempts = 0
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                inbox.attempts += 1
                good = inbox.attempts > refusals
                if good:
                    inbox.messages.append((dict(self.headers), body))
                self.send_response(204 if good else 500)
                self.end_headers()

            def log_message(self, *given: object) -> None:
                return None

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(webhooks, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(webhooks, "CLAIM_MICROSECONDS", 2_000_000)  # a server that ends while it sends has not let go


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    found = Inbox(refusals=2)
    yield found
    found.close()


def delivered(path: str) -> list[bool]:
    """Whether each message has arrived."""
    storage = SqlStorage(path)
    with storage.transaction() as connection:
        found = [row.delivered_at is not None for row in connection.execute(select(messages))]
    storage.close()
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[webhooks.Messenger]:
    """A list that grows each time that a server has looked for verdicts."""
    found: list[webhooks.Messenger] = []
    look = webhooks.Messenger.write_messages

    def noted(messenger: webhooks.Messenger) -> None:
        look(messenger)
        found.append(messenger)

    monkeypatch.setattr(webhooks.Messenger, "write_messages", noted)
    return found


def look_again(looks: list[webhooks.Messenger]) -> None:
    """Return when a server has looked, and has sent what was due, at least once from now on."""
    enough = len(looks) + 3
    wait_until(lambda: len(looks) >= enough)


def test_one_signed_message_when_the_verdict_is_final(
    path: str, inbox: Inbox, quick: None, looks: list[webhooks.Messenger]
) -> None:
    began = int(time.time())
    receiver = Receiver(inbox.url, SECRET)
    study = Study.create(path, **NAMES, policy="uniform", seed=1, budget=2, name="prices")
    first, second = study.ask(n=2)
    with serving(path, receiver=receiver):
        study.tell(first, 1)
        look_again(looks)
        assert inbox.attempts == 0  # it is running
        study.tell(second, 0)
        wait_until(lambda: inbox.attempts)  # and is refused
    with serving(path, receiver=receiver):  # another server takes it up
        wait_until(lambda: all(delivered(path)))
        look_again(looks)
    assert len(inbox.messages) == 1
    headers, body = inbox.messages[0]
    stamp, _, signature = headers["Osrl-Signature"].partition(",v1=")
    seconds = stamp.removeprefix("t=")
    expected = hmac.new(SECRET.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert signature == expected and began <= int(seconds) <= time.time()
    message = json.loads(body)
    assert (message["study"], message["verdict"]) == ("prices", "budget exhausted")
    assert message["head"] == study.head and message["best"]["representation"] == study.best.representation
    study.close()


def test_a_verdict_of_long_ago_is_not_announced(
    path: str, inbox: Inbox, quick: None, looks: list[webhooks.Messenger], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study.create(path, **NAMES, policy="uniform", seed=1, budget=1) as study:
        study.tell(study.ask(), 1)
    monkeypatch.setattr(webhooks, "DELIVERY_MICROSECONDS", 0)
    with serving(path, receiver=Receiver(inbox.url, SECRET)):
        wait_until(lambda: delivered(path))
        look_again(looks)
    assert inbox.attempts == 0 and delivered(path) == [False]


def test_only_one_of_two_servers_sends(path: str, inbox: Inbox) -> None:
    with Study.create(path, **NAMES, policy="uniform", seed=1, budget=1) as study:
        study.tell(study.ask(), 1)
    storage = SqlStorage(path)
    from osrl.service.tables import prepare_tables

    prepare_tables(storage)
    one, other = (webhooks.Messenger(storage, Receiver(inbox.url, SECRET)) for _ in range(2))
    one.write_messages()
    other.write_messages()
    (row,) = one._due()
    assert one._claim(row) and not other._claim(row)
    with storage.transaction(write=True) as connection:
        connection.execute(update(messages).values(due=None))
    assert other._due() == []
    storage.close()


def test_the_receiver_is_the_operators_choice(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OSRL_VERDICT_SECRET", raising=False)
    assert main(["serve", path, "--on-verdict", "http://localhost/"]) == 2
    assert "OSRL_VERDICT_SECRET" in capsys.readouterr().err
    with pytest.raises(OsrlError, match="http"):
        read_receiver("file:///etc/passwd", SECRET)
