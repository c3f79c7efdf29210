"""Pages from templates, in which every value is escaped: names are text, whatever they contain."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from osrl.page.snapshot import PageSnapshot
from osrl.page.view import page_view
from osrl.report.html import Environment, Markup, new_environment

ASSETS = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


@cache
def asset(name: str) -> str:
    """Return a style sheet or a script that ships with the package."""
    return (files("osrl.page") / "assets" / name).read_text(encoding="utf-8")


@cache
def asset_digest(name: str) -> str:
    """Return a short digest of an asset, so that browsers never show an old one."""
    return hashlib.sha256(asset(name).encode()).hexdigest()[:12]


@cache
def style_digest(name: str) -> str:
    """Return the digest of a style sheet that a content security policy allows inside a page."""
    return base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = new_environment("osrl.page")
    environment.globals["asset_digest"] = asset_digest
    return environment


def study_page(name: str, snapshot: PageSnapshot, *, root: str, may: Sequence[str], due: bool) -> str:
    """Return the live page of a study; ``may``: roles of the reader, ``due``: something is still computed."""
    view = page_view(name, snapshot)
    return _environment().get_template("study.html").render(view, root=root, may=may, due=due, frozen=False)


def list_page(studies: Sequence[dict[str, Any]], *, root: str) -> str:
    """Return the page with the list of studies."""
    return _environment().get_template("list.html").render(studies=studies, root=root, frozen=False)


def message_page(title: str, text: str, *, root: str) -> str:
    """Return a page that says why there is no other."""
    template = _environment().get_template("message.html")
    return template.render(title=title, text=text, root=root, frozen=False)


def sign_in_page(why: str, *, root: str, wanted: str) -> str:
    """Return the page on which a person gives a token; it continues to the path that was ``wanted``."""
    template = _environment().get_template("sign_in.html")
    return template.render(why=why, root=root, wanted=wanted, style=Markup(asset("sign_in.css")))


def frozen_page(name: str, snapshot: PageSnapshot) -> str:
    """Return the page as one file, which loads nothing and runs nothing."""
    view = page_view(name, snapshot)
    template = _environment().get_template("study.html")
    return template.render(
        view,
        root="",
        may=(),
        due=False,
        frozen=True,
        style=Markup(asset("page.css")),
        policy=f"default-src 'none'; style-src 'sha256-{style_digest('page.css')}'",
    )
