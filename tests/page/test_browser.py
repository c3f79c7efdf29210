"""Pages in a real browser: what is seen, what is refused, and what changes by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import Error

from osrl.page.render import frozen_page
from osrl.service.middleware import COOKIE
from osrl.service.tokens import revoke_token
from tests.support.pages import STATES, Complaints, begin, browser, play, snapshot_of
from tests.support.processes import wait_until
from tests.support.servers import Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

VIEWS: list[tuple[Literal["light", "dark"], int]] = [
    ("light", 1280),
    ("dark", 1280),
    ("light", 390),
    ("dark", 390),
]
TOLD = 'data[data-key="trials.told"]'


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def place(chromium: Browser, states: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = shutil.copytree(states, tmp_path_factory.mktemp("browser") / "copy")
    return str(folder / "studies.db")


@pytest.fixture(scope="module")
def server(place: str) -> Iterator[Serving]:
    with serving(place) as found:
        yield found


def visit(chromium: Browser, server: Serving, token: str, path: str, **given: Any) -> Page:
    """A page, as the bearer of a token sees it."""
    context = chromium.new_context(**given)
    context.add_cookies([{"name": COOKIE, "value": token, "url": server.url}])
    page = context.new_page()
    page.goto(f"{server.url}{path}")
    return page


def shown(page: Page, what: str) -> str:
    return page.locator(what).first.inner_text()


def serious(page: Page) -> list[str]:
    """What axe finds that keeps people out."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", STATES)
def test_every_state_can_be_seen_anywhere(chromium: Browser, place: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.html"
    file.write_text(frozen_page(name, snapshot_of(place, name)), encoding="utf-8")
    page = chromium.new_page()
    complaints = Complaints(page)
    page.goto(file.as_uri())
    for scheme, width in VIEWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if (scheme, width) == VIEWS[3 * (list(STATES).index(name) % 2)]:
            assert serious(page) == []
    assert complaints.found == []
    page.close()


def test_without_javascript_everything_is_there(chromium: Browser, server: Serving) -> None:
    page = visit(chromium, server, server.token("own"), "/studies/running", java_script_enabled=False)
    assert "leads" in shown(page, ".headline")
    assert page.locator("circle.mean").count() >= 4 and page.locator("table").count() >= 3
    assert not page.locator("form[data-verb]").first.is_visible()  # it would do nothing
    page.context.close()


def test_a_person_signs_in(chromium: Browser, server: Serving) -> None:
    page = chromium.new_page()
    complaints = Complaints(page, server.url)
    page.goto(server.url)
    page.get_by_label("Token").fill(server.token("read"))
    page.get_by_role("button", name="Sign in").press("Enter")
    wait_until(lambda: page.title() == "Studies")
    assert [each for each in complaints.found if "401" not in each] == []
    page.close()


def test_the_list_leads_to_the_page(chromium: Browser, server: Serving) -> None:
    token = server.token("read")
    page = visit(chromium, server, token, "/", viewport={"width": 390, "height": 800})
    complaints = Complaints(page, server.url)
    assert page.locator(".studies li").count() == len(STATES)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="decided").click()
    wait_until(lambda: "is the best choice" in shown(page, ".headline"))
    assert page.locator("form[data-verb]").count() == 0
    assert serious(page) == []
    assert complaints.found == []
    page.context.close()
    page = visit(chromium, server, server.token("read", "running"), "/")
    assert page.locator(".studies li").count() == 1
    page.context.close()


def test_hostile_names_do_nothing(chromium: Browser, server: Serving) -> None:
    page = visit(chromium, server, server.token("own"), "/studies/hostile")
    complaints = Complaints(page, server.url)
    page.reload()
    wait_until(lambda: shown(page, "#live") == "Live")
    assert page.locator("main img, main script").count() == 0
    assert "<script>alert(1)</script>" in page.locator("main").inner_text()
    assert complaints.found == []
    with pytest.raises(Error, match="TrustedHTML"):  # whatever a script may do, text is not made markup
        page.evaluate("document.body.innerHTML = '<b>bold</b>'")
    page.context.close()


def test_marks_on_the_screen_are_where_the_api_says(chromium: Browser, server: Serving) -> None:
    page = visit(chromium, server, server.token("read"), "/studies/running")
    with server.client("read") as http:
        arms = http.get("/api/v1/studies/running/arms").json()["arms"]
    marks = page.evaluate(
        """() => [...document.querySelectorAll("circle.mean")].map((mean) => {
          const chart = mean.closest("svg").getBoundingClientRect(), box = mean.getBoundingClientRect();
          return [mean.dataset.mark, (box.x + box.width / 2 - chart.x) / chart.width];
        })"""
    )
    assert len(marks) == sum(arm["mean"] is not None for arm in arms)
    for mark, at in marks:
        mean = arms[int(mark.split(".")[1])]["mean"]  # the axis of rates is from 0 to 1
        assert at == pytest.approx(mean, abs=0.002), mark
    page.context.close()


def test_a_result_is_seen_at_once_in_the_same_node(chromium: Browser, server: Serving) -> None:
    with begin(server.place, "live", delta=1e-9, budget=100) as study:  # a short forecast
        play(study, 10)
        page = visit(chromium, server, server.token("read"), "/studies/live")
        complaints = Complaints(page, server.url)
        page.reload()
        wait_until(lambda: shown(page, "#live") == "Live" and not page.locator("[data-due]").count(), 60)
        page.evaluate(f"document.querySelector('{TOLD}').mine = 'the same'")
        page.locator("summary").first.click()
        for told in (11, 12, 13):
            study.tell(study.ask(), 1)
            wait_until(lambda told=told: shown(page, TOLD) == str(told))  # type: ignore[misc]
        assert page.evaluate(f"document.querySelector('{TOLD}').mine") == "the same"
        assert page.locator("details[open]").count() == 1  # what was opened stays open
        wait_until(lambda: not page.locator("[data-due]").count(), 60)
        assert page.locator("polyline").count() >= 2
        assert complaints.found == []
        page.context.close()


def test_a_server_that_comes_back_leaves_no_gap(chromium: Browser, tmp_path: Path) -> None:
    place = str(tmp_path / "killed.db")
    with begin(place, "study", delta=1e-9) as study:
        play(study, 5)
        first = Serving(place)
        page = visit(chromium, first, first.token("read"), "/studies/study")
        wait_until(lambda: shown(page, "#live") == "Live")
        first.stop()
        wait_until(lambda: "connection is lost" in shown(page, "#banner"))
        assert shown(page, TOLD) == "5"
        play(study, 4)
        with serving(place, port=int(first.url.rpartition(":")[2])):
            wait_until(lambda: not page.locator("#banner").is_visible(), 30)
            wait_until(lambda: shown(page, TOLD) == "9")
        page.context.close()


def test_access_that_ends_is_said(chromium: Browser, server: Serving) -> None:
    token = server.token("read")
    page = visit(chromium, server, token, "/studies/running")
    wait_until(lambda: shown(page, "#live") == "Live")
    revoke_token(server.application.context.storage, token.split("_")[1])
    wait_until(lambda: "access has ended" in shown(page, "#banner"))
    assert "leads" in shown(page, ".headline")  # what was shown stays
    page.context.close()


def test_ten_tabs_share_one_stream(chromium: Browser, server: Serving) -> None:
    with begin(server.place, "tabs", delta=1e-9) as study:
        page = visit(chromium, server, server.token("read"), "/studies/tabs")
        tabs = [page, *(page.context.new_page() for _ in range(9))]
        for tab in tabs[1:]:
            tab.goto(page.url)
        for tab in tabs:
            wait_until(lambda tab=tab: shown(tab, "#live") == "Live")  # type: ignore[misc]
        assert server.application.context.feeds.streams == 1
        play(study, 1)
        for tab in tabs:
            wait_until(lambda tab=tab: shown(tab, TOLD) == "1")  # type: ignore[misc]
        page.context.close()


def test_a_study_is_run_by_hand(chromium: Browser, server: Serving) -> None:
    with begin(server.place, "clinic", delta=1e-9, budget=50) as study:
        page = visit(chromium, server, server.token("own"), "/studies/clinic")
        complaints = Complaints(page, server.url)
        page.reload()
        wait_until(lambda: shown(page, "#live") == "Live")

        def form(verb: str) -> Any:
            return page.locator(f'form[data-verb="{verb}"]')

        form("ask").locator("select").select_option("old")
        form("ask").locator("input").fill("patient-1")
        form("ask").get_by_role("button").press("Enter")
        wait_until(lambda: "Trial 1:" in form("ask").locator("output").inner_text())
        wait_until(lambda: page.locator("table.pending tbody tr").count() == 1)
        page.get_by_role("button", name="Success").click()
        page.keyboard.press("Escape")
        assert study.summary["told"] == 0
        page.get_by_role("button", name="Success").click()
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: shown(page, TOLD) == "1")
        assert study.trial("patient-1").reward == 1.0
        form("tell").locator("input").first.fill("99")
        form("tell").locator("input").last.fill("1")
        form("tell").get_by_role("button").click()
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: "99" in form("tell").locator("output").inner_text())
        form("raise-budget").locator("input").fill("80")
        form("raise-budget").get_by_role("button").click()
        assert "guarantee is not touched" in shown(page, "#effect")
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: study.settings.budget == 80)
        form("withdraw").locator("select").select_option("representation:lynx")
        form("withdraw").locator("input").fill("a rash")
        form("withdraw").get_by_role("button").click()
        assert "evidence begins anew" in shown(page, "#effect")
        assert serious(page) == []
        page.get_by_role("button", name="Cancel").click()
        form("pause").locator("input").fill("the freezer is broken")
        form("pause").get_by_role("button").click()
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: "the freezer is broken" in shown(page, ".headline"))
        form("resume").get_by_role("button").click()
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: form("pause").count() == 1)
        page.get_by_role("button", name="Replay the log now").click()
        wait_until(lambda: "everything follows from the log" in shown(page, "#verified"), 60)
        form("add").locator("select").select_option("predictor")
        form("add").locator("input[name=name]").fill("middle")
        form("add").locator("input[name=reason]").fill("a new dose")
        form("add").get_by_role("button").click()
        assert "evidence begins anew" in shown(page, "#effect")
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: "middle" in study.settings.predictors)
        form("close").locator("input").fill("enough")
        form("close").get_by_role("button").click()
        assert "without a decision" in shown(page, "#effect")
        page.get_by_role("button", name="Confirm").click()
        wait_until(lambda: "closed before a decision" in shown(page, ".headline"))
        assert study.verdict == "closed" and form("ask").count() == 0
        assert [each for each in complaints.found if "404" not in each] == []
        page.context.close()
