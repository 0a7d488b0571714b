"""Everything a task, its input, its body or its files can get wrong, as a table.

Each case runs through the worker's own ``Runtime.run``: input text, attempt, real body process, report. Each must give
a reason of one line that says what to do, the right status (S-36, P-29, P-30), publish nothing, and leave no staging
name and no folder behind (P-28, S-33).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

import pytest
from attrs import frozen

from perago_core.results import Failed, FailedTerminally
from perago_worker.bodies.pool import Bodies
from perago_worker.folders.owned import MARKER
from tests.worker.support import FILES, Bench, Input, given, placed

WELL_FORMED = given()


@frozen
class Case:
    """One mistake. ``says`` is in the reason; ``files`` is what the branch holds besides the usual."""

    name: str
    task: str
    says: str
    make: Input = WELL_FORMED
    terminal: bool = False
    files: Mapping[str, bytes] = {}


def terminal(name: str, task: str, says: str, make: Input = WELL_FORMED) -> Case:
    return Case(name, task, says, make, terminal=True)


def keys(name: str, says: str, *paths: str) -> Case:
    return Case(name, "write", says, files=dict.fromkeys(paths, b"odd"))


#: Found before the body runs, and final: no retry makes them right.
NO_COMMIT, NO_BRANCH = "is no commit below it", "no such branch"


def refs(*found: str) -> tuple[Case, ...]:
    """Name what is no commit, though git or a shell would make something of it."""
    return tuple(terminal(f"ref: {ref[:20]!r}", "write", NO_COMMIT, placed(ref=ref)) for ref in found)


def branches(*found: str) -> tuple[Case, ...]:
    return tuple(terminal(f"branch: {name[:20]!r}", "write", NO_BRANCH, placed(branch=name)) for name in found)


def repositories(*found: str) -> tuple[Case, ...]:
    return tuple(terminal(f"repository: {name[:20]!r}", "write", NO_BRANCH, placed(repository=name)) for name in found)


def written(text: str) -> Input:
    return lambda _ref: text


def documents(says: str, **found: str) -> tuple[Case, ...]:
    return tuple(terminal(f"input: {name}", "write", says, written(text)) for name, text in found.items())


def parameters(says: str, **found: object) -> tuple[Case, ...]:
    return tuple(terminal(f"params: {name}", "write", says, given(value)) for name, value in found.items())


CASES = (
    *refs("main~1", "HEAD", "--upload-pack=x", "..", "refs/heads/main", "main@{0}", ":/x", "main:data/a.txt"),
    *refs("A" * 40, "a" * 39, "0" * 64, "\u202e", "\ud800", "@", "^main"),
    *branches(
        "../main", "main.lock", "a..b", "a b", "-x", "--all", "a~1", "a:b", "a*", "/a", "a//b", ".a", "@", "HEAD"
    ),
    *branches("refs/heads/main", "\x7f", "\ud800", "x" * 300, "main\\x"),
    *repositories("../lake", "/etc", "lake/../x", "-x", "lake.git", "lake/", ".", "..", "x" * 300, "\ud800", "no-such"),
    *documents("expected JSON; found", bom="\ufeff{}", two="{}{}", comment="// x\n{}", quotes="{'a': 1}", nul="{\0}"),
    *documents(
        "expected JSON; found", comma='{"a": 1,}', unclosed='{"params": "', long='{"params": ' + "9" * 5000 + "}"
    ),
    *documents("which is not JSON", infinity='{"params": Infinity}', minus='{"params": -Infinity}'),
    *documents("a JSON object as input", string='"x"', number="7", boolean="true"),
    *parameters("count: Input should be", null={"count": None}, half={"count": 1.5}, nested={"count": {"a": 1}}),
    *parameters("count: Input should be", empty={"count": ""}, sign={"count": "-"}, listed={"count": [True]}),
    *parameters("text: Input should be", seven={"text": 7}, nothing={"text": None}, several={"text": ["a"]}),
    # The input as text
    terminal("no JSON", "write", "expected JSON", lambda _ref: "{"),
    terminal("empty input", "write", "expected JSON", lambda _ref: ""),
    terminal("NaN", "write", "NaN, which is not JSON", lambda _ref: '{"params": {"count": NaN}}'),
    terminal("nested too deep", "write", "expected JSON", lambda _ref: "[" * 100_000),
    terminal("an array", "write", "found an array", lambda _ref: "[]"),
    terminal("null", "write", "found null", lambda _ref: "null"),
    terminal("no workspace", "write", '"workspace"', given({}, workspace=None)),
    terminal("workspace is text", "write", "found a string", given({}, workspace="main")),
    terminal("no repository", "write", "workspace.repository", placed(repository=None)),
    terminal("no branch", "write", "workspace.branch", placed(branch=None)),
    terminal("empty branch", "write", "workspace.branch", placed(branch=" ")),
    terminal("no ref", "write", "workspace.ref", placed(ref=None)),
    terminal("ref is a number", "write", "workspace.ref", placed(ref=7)),
    terminal("a ref of a million", "write", "at most 1024 characters in workspace.ref", placed(ref="1" * 1_000_000)),
    terminal("ref is a long list", "write", "workspace.ref", placed(ref=list(range(100_000)))),
    terminal("ref is an object", "write", "found an object", placed(ref={"id": "main"})),
    terminal("ref with NUL", "write", "workspace.ref", placed(ref="a\0b")),
    terminal("a branch as ref type", "write", "a branch moves", placed(refType="branch")),
    terminal("a branch, old spelling", "write", "a branch moves", placed(ref_type="branch")),
    # The parameters
    terminal("no params", "write", '"params"', given(None, params=None)),
    terminal("params is a list", "write", "found an array", given([1])),
    terminal("params at the top", "write", "'text'", given({}, params=None, text="x")),
    terminal("a wrong type", "write", "count: Input should be a valid integer", given({"count": "many"})),
    terminal("a missing field", "dataclass", "folder: Field required", given({"depth": 2})),
    terminal("many mistakes", "typed-dict", "name: Field required", given({"nome": 1})),
    terminal("a validator that raises", "fussy", "validator out of order", given({"word": "secret"})),
    # The ref
    terminal("no such commit", "write", NO_COMMIT, placed(ref="0" * 40)),
    terminal("a branch name as ref", "write", NO_COMMIT, placed(ref="main")),
    # Checks before
    terminal("pre: no file", "pre-file", "expected a file 'missing.csv'"),
    terminal("pre: a file for a folder", "pre-dir", "expected a folder 'a.txt'; found something else"),
    terminal("pre: no match", "pre-glob", "at least 1 files like '*.parquet'; found 0"),
    terminal("pre: too many", "pre-glob-many", "1 to 1 files like '*.txt'; found 2"),
    terminal("pre: forbidden", "pre-forbid", "expected no file like '**/*.txt'; found 'a.txt', 'b.txt'"),
    terminal("pre: returns False", "pre-false", "returned False"),
    terminal("pre: raises", "pre-raises", "raised OSError: cannot look into work"),
    Case("pre: crashes", "pre-crash", "died of SIGSEGV"),
    # The body
    Case("raises", "raise", "RuntimeError: line one line two"),
    terminal("says terminal", "terminal", "TaskTerminalError: work can never work"),
    Case("sys.exit", "exit", "called sys.exit(4)"),
    Case("os._exit(0)", "hard-exit", "exit code 0 before it returned"),
    Case("os._exit(3)", "exit-three", "exit code 3 before it returned"),
    Case("segmentation fault", "segfault", "died of SIGSEGV"),
    Case("killed, as when memory is out", "killed", "died of SIGKILL"),
    Case("killed by a signal without a name", "real-time", f"died of signal {signal.SIGRTMIN + 6}"),
    Case("interrupted", "interrupt", "KeyboardInterrupt"),
    Case("more memory than allowed", "leak", "MemoryError"),
    Case("endless recursion", "recursion", "RecursionError"),
    Case("hangs", "hang", "ran longer than 0.5 s"),
    Case("hangs and ignores SIGTERM", "stubborn", "ran longer than 0.5 s"),
    Case("stops itself", "stopped", "ran longer than 2 s"),
    # The result
    Case("11 MiB of output", "big-output", "at most 3080192 bytes; found 11534338"),
    Case("another type than declared", "wrong-type", "as task 'wrong-type' declares it; found dict", terminal=True),
    Case("no JSON possible", "no-json", "as task 'no-json' declares it; found method", terminal=True),
    Case(
        "not a number",
        "nan-result",
        "as task 'nan-result' declares it; found dict: Out of range float values",
        terminal=True,
    ),
    Case("a number nobody can read", "big-number", "declares it; found dict: Exceeds the limit", terminal=True),
    # A verdict that the body wrote itself
    Case("verdict: a pipe", "verdict-fifo", "exit code 0 before it returned"),
    Case("verdict: endless", "verdict-endless", "exit code 0 before it returned"),
    Case("verdict: no JSON", "verdict-no-json", "can be written as JSON and read again"),
    Case("verdict: NaN", "verdict-nan", "NaN is no number in JSON"),
    Case("verdict: 20 MiB", "verdict-huge", "exit code 0 before it returned"),
    Case("verdict: nested too deep", "verdict-deep", "found RecursionError"),
    # What the body leaves
    Case("a link out", "symlink", "'link' (a symbolic link)"),
    Case("a link inside", "symlink-inside", "'link' (a symbolic link)"),
    Case("a link to a folder", "symlink-folder", "'etc' (a symbolic link)"),
    Case("a file became a link", "symlink-swap", "'a.txt' (a symbolic link)"),
    Case("the workspace became a link", "symlink-root", "something else in its place"),
    Case("the workspace is gone", "remove-root", "the body removed it"),
    Case("folders too deep for a path", "long-path", "File name too long"),
    Case("folders too deep for the store", "deep", "was not stored"),
    Case("a named pipe", "fifo", "'pipe' (neither file nor folder)"),
    Case("a name that is not UTF-8", "not-utf8", "expected names in UTF-8"),
    Case("a name the store refuses", "backslash", "was not stored"),
    Case("read-only: a new file", "read-writes", "changes in 'new.txt'"),
    Case("read-only: a file deleted", "read-deletes", "changes in 'a.txt'"),
    Case("read-only: a file edited", "read-edits", "changes in 'a.txt'"),
    Case("permissions taken away", "locked-away", "after taking permissions away"),
    # Checks after
    Case("post: no file", "post-file", "post-check: expected a file 'missing.csv'"),
    Case("post: forbidden", "post-forbid", "post-check: expected no file like 'r*n'; found 'ran'"),
    Case("post: objects", "post-objects", "not to my taste"),
    Case("post: crashes", "post-crash", "the post-check died of SIGSEGV"),
    # What the branch holds
    keys("key: up and out", "stay inside the workspace; found 'data/../../etc/x'", "data/../../etc/x"),
    keys("key: up at the end", "stay inside the workspace", "data/x/.."),
    keys("key: absolute", "stay inside the workspace", "data//etc/passwd"),
    keys("key: NUL", "stay inside the workspace", "data/a\0b"),
    keys("key: file and folder", "expected a place of its own for each key", "data/a.txt/inner"),
    keys("key: too long a name", "cannot be a file here", "data/" + "n" * 300),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_gives_a_line_that_teaches_and_leaves_nothing(case: Case, bench: Bench, bodies: Bodies) -> None:
    if case.files:
        bench = Bench(bench.folder / "odd", bodies, files={**FILES, **case.files})
    ran = bench.run(case.task, case.make)

    assert isinstance(ran.result, FailedTerminally if case.terminal else Failed), ran.result
    reason = str(ran.result.refusal)
    assert case.says in reason
    assert reason in bench.told[-1][1], "the task's log says the same"
    assert "\n" not in reason
    assert len(reason) < 1000
    assert ran.head == bench.first, "something was published"
    assert bench.branches() == {"main"}
    assert [each.name for each in (bench.folder / "work").iterdir()] == [MARKER]


def test_a_value_of_a_parameter_is_never_in_the_reason(bench: Bench) -> None:
    """A parameter may be a password."""
    ran = bench.run("write", given({"count": "hunter2", "text": "fine"}))
    assert isinstance(ran.result, FailedTerminally)
    assert "hunter2" not in str(ran.result.refusal)
    assert all("hunter2" not in str(note) for note in ran.notes)
