"""HTML as a tree, for tests that look at a page without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br", "hr"}


class Node:
    """An element, with its attributes, its children and its text."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Node] = []
        self.text = ""

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def percent(self, name: str) -> float:
        """Return the value of an attribute such as ``12.5%``."""
        value = self[name]
        assert value.endswith("%"), value
        return float(value[:-1])

    def all(self, tag: str, kind: str | None = None) -> list[Node]:
        """Return the elements below with a tag, and with a class, in the order of the page."""
        return [
            each
            for each in self._below()
            if each.tag == tag and (kind is None or kind in each.attributes.get("class", "").split())
        ]

    def one(self, tag: str, kind: str | None = None) -> Node:
        """Return the only such element."""
        (found,) = self.all(tag, kind)
        return found

    def _below(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child._below()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, (self._open[-1].tag, tag)
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for node in self._open:
            node.text += data


def read_markup(page: str) -> Node:
    """Return the tree of a page; fail where its tags do not match."""
    reader = _Reader()
    reader.feed(page)
    assert len(reader._open) == 1
    return reader.root
