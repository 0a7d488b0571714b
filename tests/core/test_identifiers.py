"""Every capability of the core is shown by a test that is marked with it; what no test can show says who does instead.

The identifiers are those of protocol.md, section 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perago_simulation.machines.scenes import AGREEMENT, CHANGING, LOCK, SWEEPING
from perago_simulation.mutants.known_bugs import LESSONS
from perago_simulation.properties.register import REGISTER
from tests.specs.clauses import marked

CORE = {
    "P": [*range(1, 38), 40, 41, 42],
    "W": [*range(4, 25)],
    "H": [*range(1, 31)],
    "R": [*range(1, 32)],
}
CAPABILITIES = {f"{prefix}-{number:02d}" for prefix, numbers in CORE.items() for number in numbers}

#: What no test of the core can show, and who does instead.
LEFT_TO_ADAPTERS = {
    "P-21": "how a deployment is run; the simulator breaks each constraint, and P-22 says what must happen then",
    "H-06": "how a gate is introduced: the history of the project shows it",
    "H-27": "a rule for reviews: no further substrate",
    "H-28": "what a change must run: `make test`",
    "R-25": "there is no language of operations here; a body is one unit and its class is one attribute (H-11)",
    "R-26": "what each rung cannot promise is found by the explorer and written into specs/ from there",
    "R-27": "garbage collection is the store's; its adapter keeps what open intents name",
    "R-28": "what triggers a residual is injected by the simulator, at the failpoints of R-30",
}


def test_every_capability_is_shown_by_a_test_or_left_to_somebody() -> None:
    """A capability with neither is a promise nobody keeps; with both, the reason is out of date."""
    shown = {*marked()} & CAPABILITIES
    assert CAPABILITIES - shown == {*LEFT_TO_ADAPTERS}


def test_every_mark_names_a_clause_a_capability_or_a_lesson() -> None:
    """A mark with a typing mistake would show nothing."""
    assert {*marked()} <= CAPABILITIES | {*LESSONS} | {each.id for each in REGISTER}


# ----------------------------------------------------------------------------------------------------------------------
# What is cited resolves

ROOT = Path(__file__).parents[2]
FAMILIES = "S|L|M|ST|OR|CO|RC|RT|P|W|H|R|K|D|F|CW|N"
IDENTIFIER = re.compile(rf"(?<![\w-])(?:(?:{FAMILIES})-\d{{1,2}}[a-d]?|T-[OWPF]\d{{1,2}})(?![\w-]| -\d)")
#: A line of a table, or the bold beginning of a rule.
DEFINITION = re.compile(r"^\| ([A-Z]+-[A-Z]?\d+[a-d]?) \||\*\*([A-Z]+-\d+[a-d]?)\.?\*\*", re.MULTILINE)
PAGES = ("clauses.md", "properties.md", "protocol.md")
#: What `cluster.md`, which takes hours, has a line for.
PROMISES = {promise.id for kind in (LOCK, AGREEMENT, CHANGING, SWEEPING) for promise in kind.promises}


def cited() -> Iterator[tuple[str, str]]:
    """Give every identifier with the file that cites it; what stands before a negative number belongs to a drawing."""
    for folder in ("perago_core", "adapters", "simulation", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from ((each, path.name) for each in IDENTIFIER.findall(path.read_text("utf-8")))


def test_every_identifier_that_is_cited_has_a_line_in_the_specification() -> None:
    pages = [(ROOT / "specs" / page).read_text("utf-8") for page in PAGES]
    defined = PROMISES | {table or rule for page in pages for table, rule in DEFINITION.findall(page)}
    assert {(each, where) for each, where in cited() if each not in defined} == set()


def test_no_identifier_means_two_things() -> None:
    """The lettered properties of the three machines beside the attempt are in a page of their own, and nowhere else."""
    lines = [table for table, _ in DEFINITION.findall((ROOT / "specs" / "clauses.md").read_text("utf-8"))]
    assert sorted(lines) == sorted(set(lines))
