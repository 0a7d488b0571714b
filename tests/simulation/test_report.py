"""Reports tell what happened: every step once, in order, in words; nothing in them is taken for markup."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import cache
from html.parser import HTMLParser

import pytest
from attrs import evolve

from perago_core.attempt import messages as m
from perago_core.machine.description import digest
from perago_core.machine.rows import Command
from perago_core.values import Backing
from perago_report import Story, columns, page, sequence
from perago_report.scenes import Standing
from perago_simulation.explore.search import explore
from perago_simulation.report.story import story
from perago_simulation.runs.replay import Stored, store
from perago_simulation.world.effects import EFFECTS
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting

SOFT = setting(Backing.SOFT, crashes=0)
SETTINGS = {
    "soft": SOFT,
    "wild": setting(Backing.SOFT, crashes=1, losses=1, strangers=1),
    "equal trees": setting(Backing.SOFT, crashes=0, same_tree=True),
    "workflow": setting(Backing.SOFT, crashes=0, steps=2),
    "conditional": setting(Backing.CONDITIONAL, crashes=0, strangers=1, no_ops=True),
    "locked": setting(Backing.LOCKED, crashes=0, strangers=1, no_ops=True, ledger=True),
}
HOSTILE = "<script>alert(1)</script>\"'&;#\n-->"


@cache
def stories(name: str) -> tuple[Story, ...]:
    where = SETTINGS[name]
    return tuple(story(Model(where), each) for each in explore(where).violations)


def lost() -> Story:
    """The accepted publication that is erased by a worker everybody had given up."""
    return next(each for each in stories("soft") if each.property == "S-01")


every = pytest.mark.parametrize("name", SETTINGS)


# ---------------------------------------------------------------------------------------------------------------------
# What is told


@every
def test_a_story_ends_where_its_property_breaks(name: str) -> None:
    assert stories(name)
    for told in stories(name):
        assert told.breaks == told.opens() == len(told.scenes)
        assert told.scenes[-1].problem == told.problem
        assert not any(scene.problem for scene in told.scenes[:-1])
        assert {scene.lane for scene in told.scenes} <= set(told.lanes)
        assert all(scene.says for scene in told.scenes)


def test_a_story_can_go_on_after_the_break_and_opens_on_it() -> None:
    model, told = Model(SOFT), lost()
    trace = tuple(scene.label for scene in told.scenes)
    longer = Stored(told.table, SOFT, told.property, told.problem, (*trace, ("e1", "CleanUp", "CleanedUp")))
    assert (story(model, longer).breaks, len(story(model, longer).scenes)) == (22, 23)


def test_a_run_that_shows_nothing_and_a_property_nobody_knows_can_be_told_too() -> None:
    model, told = Model(SOFT), lost()
    trace = tuple(scene.label for scene in told.scenes)
    plain = story(model, Stored(told.table, SOFT, trace=trace))
    assert (plain.breaks, plain.opens()) == (0, 22)
    assert "Nothing is broken" in page(plain)
    assert columns(plain).startswith("22 steps\n")
    assert "BROKEN" not in sequence(plain)
    own = story(model, Stored(told.table, SOFT, "MY-01", "not good", trace))
    assert own.breaks == 22
    assert "MY-01" in page(own)


def test_the_story_of_the_erased_publication_says_what_happened() -> None:
    told = lost()
    assert told.lanes == ("orchestrator", "e0", "e1", "store")
    said = [f"{scene.lane} {scene.says}" for scene in told.scenes]
    assert said[6] == "orchestrator gives up on t0; e0 still runs"
    assert said[-5:] == [
        "e0 looks at main: sees M1",
        "e0 asks to replace main's head by C0",
        "e1 reports: M1 is accepted",
        "store begins e0's publication on M1",
        "store moves main from M1 to C0",
    ]
    assert told.table == digest(Model(SOFT).table)
    assert told.bounds == SOFT.bounds()


def test_there_are_words_for_every_command() -> None:
    commands: tuple[type[Command], ...] = (*EFFECTS, m.RunBody, m.ResumeBody)
    assert [kind for kind in commands if not kind.does] == []


@every
def test_commits_keep_their_places_and_never_share_one(name: str) -> None:
    for told in stories(name):
        places = {node.ref: node.place for node in told.scenes[-1].nodes}
        assert len(set(places.values())) == len(places)
        for scene in told.scenes:
            assert {node.ref: node.place for node in scene.nodes}.items() <= places.items()
            assert [node.ref for node in scene.nodes if node.head] == [scene.head]
            assert all(node.execution or node.stranger or node.ref == "A" for node in scene.nodes)


def test_an_accepted_commit_that_left_the_branch_is_lost_and_one_nobody_holds_is_left_behind() -> None:
    before, last = lost().scenes[-2:]
    standing = {node.ref: (node.standing, node.accepted) for node in last.nodes}
    assert standing["M1"] == (Standing.LOST, True)
    assert standing["C0"] == (Standing.BRANCH, False)
    assert standing["C1"] == (Standing.STAGED, False)
    assert {node.ref: node.standing for node in before.nodes}["M1"] is Standing.BRANCH
    (stranger,) = [each for each in stories("conditional") if each.property == "S-15"]
    ends = {node.standing for node in stranger.scenes[-1].nodes if node.stranger}
    assert ends == {Standing.LOST}
    assert Standing.ABANDONED in {node.standing for node in stranger.scenes[-1].nodes}


# ---------------------------------------------------------------------------------------------------------------------
# Text and Mermaid


@every
def test_text_has_one_aligned_line_per_step(name: str) -> None:
    for told in stories(name):
        lines = columns(told).splitlines()
        (top,) = [number for number, line in enumerate(lines) if line.startswith("step  ")]
        body = lines[top + 1 :]
        assert [int(line.split()[0]) for line in body] == list(range(1, len(told.scenes) + 1))
        for heading, value in (("what happens", "lane"), ("head", "head")):
            at = lines[top].index(f"  {heading}") + 2
            assert all(line[at:].startswith(getattr(s, value)) for line, s in zip(body, told.scenes, strict=True))
        assert [line.endswith("<-- broken here") for line in body] == [False] * (len(body) - 1) + [True]
        assert told.bounds in columns(told)


@every
def test_mermaid_has_a_participant_per_lane_and_a_line_per_step(name: str) -> None:
    for told in stories(name):
        lines = [line.strip() for line in sequence(told).splitlines()]
        assert lines[0] == "sequenceDiagram"
        assert [line.split()[1] for line in lines if line.startswith("participant")] == list(told.lanes)
        steps = [found for line in lines if (found := re.match(r"(?:Note over |\w+-)[^:]*: (\d+)\. ", line))]
        assert [int(step[1]) for step in steps] == list(range(1, len(told.scenes) + 1))
        assert sum("BROKEN" in line for line in lines) == 1


def test_mermaid_takes_nothing_for_its_own() -> None:
    diagram = sequence(evolve(lost(), problem=HOSTILE, clause=HOSTILE))
    assert "<script>" not in diagram
    assert "#lt;script#gt;alert(1)" in diagram
    assert len(diagram.splitlines()) == len(sequence(lost()).splitlines())


# ---------------------------------------------------------------------------------------------------------------------
# The page


class Reader(HTMLParser):
    """Reads a page as a browser would begin to: what is open, which ids there are, what is run, what is fetched."""

    EMPTY = frozenset({"meta", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.policy = ""
        self.inside: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.seen.append(tag)
        self.attributes += given.items()
        self.ids += [given["id"]] if "id" in given else []
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + data


@every
def test_a_page_is_well_formed_and_has_every_step(name: str) -> None:
    for told in stories(name):
        read = Reader(page(told))
        assert read.open == []
        assert len(set(read.ids)) == len(read.ids)
        numbers = range(1, len(told.scenes) + 1)
        assert {f"step-{number}" for number in numbers} <= set(read.ids)
        assert {value for name, value in read.attributes if name == "href"} == {f"#step-{at}" for at in numbers}
        assert ("data-opens", str(told.breaks)) in read.attributes
        assert told.clause[1:] in read.inside["title"]
        assert told.bounds in read.inside["p"]


def test_a_page_runs_its_own_script_and_fetches_nothing() -> None:
    read = Reader(page(lost()))
    assert read.policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        assert read.seen.count(tag) == 1
        made = b64encode(hashlib.sha256(read.inside[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{made}'" in read.policy
    assert not {"link", "img", "iframe", "object", "base", "form"} & set(read.seen)
    assert not [name for name, _ in read.attributes if name in {"src", "style", "srcset", "action"} or name[:2] == "on"]
    assert not re.search(r"url\(|@import|https?:", page(lost()))


def test_a_page_takes_nothing_for_markup() -> None:
    told = lost()
    scene = evolve(
        told.scenes[-1],
        says=HOSTILE,
        problem=HOSTILE,
        rows=tuple(evolve(row, note=HOSTILE, id=HOSTILE) for row in told.scenes[-1].rows),
        nodes=tuple(evolve(node, execution=HOSTILE, names=(HOSTILE,)) for node in told.scenes[-1].nodes),
        names=((HOSTILE, HOSTILE),),
        tasks=tuple(evolve(line, name=HOSTILE, text=HOSTILE, standing=HOSTILE) for line in told.scenes[-1].tasks),
    )
    hostile = evolve(
        told, property=HOSTILE, clause=HOSTILE, problem=HOSTILE, bounds=HOSTILE, table=HOSTILE, scenes=(scene,)
    )
    text = page(hostile)
    assert text.count("<script>") == 1
    read = Reader(text)
    assert read.open == []
    assert read.seen.count("script") == 1


def test_pages_of_equal_runs_are_equal() -> None:
    (violation, *_) = explore(SOFT).violations
    model = Model(SOFT)
    assert page(story(model, violation)) == page(story(model, store(model, violation)))
