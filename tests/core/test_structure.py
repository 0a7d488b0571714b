"""How the core is built: who may publish, how long a function may be, what is public, what it costs to import.

Most of this reads the source as a syntax tree: a rule about *where* something may be written cannot be tested by
running it. It sees what is written, not what is computed: a plan read back by the codec is not found here.
"""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import perago_core
from perago_core import ports
from perago_core.failpoints import CATALOGUE, Edge, Failpoint
from perago_core.ports import PORT_CALLS

LAZY: Any = perago_core
ROOT = Path(__file__).parents[2]
CORE = ROOT / "perago_core"
SOURCES = {path.relative_to(CORE).as_posix(): path.read_text("utf-8") for path in sorted(CORE.rglob("*.py"))}
TREES = {path: ast.parse(source, path) for path, source in SOURCES.items()}


def nodes(path: str) -> Iterator[ast.AST]:
    return ast.walk(TREES[path])


def by_file(found: Mapping[str, int]) -> dict[str, int]:
    """Leave out the files in which nothing was found."""
    return {path: count for path, count in found.items() if count}


def calls(name: str) -> dict[str, int]:
    """Count the calls of a function or class by its own name, bare or after a dot."""
    return by_file({path: sum(_called(node) == name for node in nodes(path)) for path in TREES})


def _called(node: ast.AST) -> str | None:
    return _name(node.func) if isinstance(node, ast.Call) else None


def _name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def uses(name: str) -> dict[str, int]:
    """Count every mention of a name as a name, called or not."""
    return by_file({path: sum(_name(node) == name for node in nodes(path)) for path in TREES})


def literals(text: str) -> dict[str, int]:
    """Count the strings written exactly like this."""
    return by_file({path: written[text] for path, written in STRINGS.items()})


STRINGS = {
    path: Counter(node.value for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for path in TREES
}


# ----------------------------------------------------------------------------------------------------------------------
# Who may publish


def test_a_publish_plan_is_made_by_the_fence_and_nowhere_else() -> None:
    assert calls("PublishPlan") == {"fence.py": 3}


def test_a_publish_plan_is_never_altered() -> None:
    """``evolve`` would be another way to make one."""
    altered = [
        (path, node.lineno)
        for path in TREES
        for node in nodes(path)
        if isinstance(node, ast.Call) and _called(node) in {"evolve", "replace"} and node.args
        if _name(node.args[0]) in {"plan", "publish_plan"}
    ]
    assert altered == []


def test_the_fence_decides_in_one_place() -> None:
    """Named once, in the block of HEAD, where a reader of the table sees it; not even an alias exists elsewhere."""
    assert uses("decide") == {"attempt/table.py": 1}
    assert "wait(P.HEAD, m.ReadHead, judge=judged_by(fence.decide)," in SOURCES["attempt/table.py"]


def test_recovery_compensates_in_one_place() -> None:
    assert calls("compensate") == uses("compensate") == {"recovery/run.py": 1}


def test_the_call_that_moves_a_branch_is_made_in_three_places() -> None:
    """The attempt publishes, recovery takes back, and reverts where others publish too.

    As a string it is only in the catalogue of calls.
    """
    named = by_file(
        {
            path: sum(isinstance(node, ast.Attribute) and node.attr == "publish" for node in nodes(path))
            for path in TREES
        }
    )
    assert named == {"attempt/run.py": 1, "recovery/run.py": 1, "revert.py": 1}
    assert literals("publish") == {"ports.py": 1}


def test_no_port_is_called_by_a_string_but_the_clock() -> None:
    """Every other call names the protocol's method, so that type checkers see both sides of the seam."""
    assert calls("Call") == {"calls.py": 5}


# ----------------------------------------------------------------------------------------------------------------------
# How long it may be


def test_no_function_is_longer_than_70_lines() -> None:
    long = [
        (path, node.name, length)
        for path in TREES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > 70
    ]
    assert long == []


# ----------------------------------------------------------------------------------------------------------------------
# Ports and failpoints

PROTOCOLS = {
    "orchestrator": ports.Orchestrator,
    "store": ports.Store,
    "workspace": ports.Workspace,
    "coordination": ports.Coordination,
}

#: What a runtime and its operators ask of the same systems; no machine does.
ADMINISTRATION = (
    ports.BranchCreator,
    ports.Cautioned,
    ports.Closeable,
    ports.Leaseless,
    ports.ManagedOrchestrator,
    ports.ManagedStore,
    ports.Nudgeable,
    ports.ObjectCollector,
    ports.Overwriting,
    ports.RunBranches,
    ports.SeveralTargets,
    ports.TaskWorkspace,
)

#: They make a value and no call: whatever the value does is counted and failed by whoever holds it.
VALUE_MAKERS = {"store": {"read", "sink"}}


def methods_of(protocol: type) -> set[str]:
    return {name for name, member in vars(protocol).items() if inspect.isfunction(member) and not name.startswith("_")}


def test_the_ports_are_the_four_their_helpers_and_administration() -> None:
    protocols = {
        name
        for name, member in vars(ports).items()
        if inspect.isclass(member) and member.__module__ == ports.__name__ and getattr(member, "_is_protocol", False)
    }
    administration = {each.__name__ for each in ADMINISTRATION}
    assert protocols == {each.__name__ for each in PROTOCOLS.values()} | administration | {"Sink", "Source", "Clock"}


def test_no_adapter_is_asked_by_name_for_what_a_protocol_has() -> None:
    """Type checkers see nothing of ``getattr(store, "create")``; of ``isinstance(store, BranchCreator)`` they do."""
    names = {name for protocol in (*PROTOCOLS.values(), *ADMINISTRATION) for name in methods_of(protocol)}
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("perago_worker", "examples")
        for path in sorted((ROOT / "adapters" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _called(node) in {"getattr", "hasattr"}
        if any(isinstance(each, ast.Constant) and each.value in names for each in node.args)
    ]
    assert asked == []


@pytest.mark.parametrize("port", PROTOCOLS)
def test_the_catalogue_lists_exactly_the_calls_of_a_port(port: str) -> None:
    assert set(PORT_CALLS[port]) == methods_of(PROTOCOLS[port]) - VALUE_MAKERS.get(port, set())


@pytest.mark.parametrize("port", PROTOCOLS)
def test_every_call_gives_one_of_the_three_answers(port: str) -> None:
    """All but the makers of values, which make no call."""
    protocol = PROTOCOLS[port]
    returned = {name: getattr(protocol, name).__annotations__["return"] for name in methods_of(protocol)}
    silent = {name for name, annotation in returned.items() if not annotation.startswith("Answer[")}
    assert silent == VALUE_MAKERS.get(port, set())


def test_no_port_is_forgotten() -> None:
    assert {port: len(methods) for port, methods in PORT_CALLS.items()} == {
        "orchestrator": 4,
        "store": 14,
        "workspace": 5,
        "coordination": 7,
    }


def test_only_publishing_is_charged_to_the_target() -> None:
    """H-05: the cost table counts the calls that touch the target, and one does."""
    charges = Counter(charge for methods in PORT_CALLS.values() for charge in methods.values())
    assert charges["target"] == 1
    assert PORT_CALLS["store"]["publish"] == "target"


@pytest.mark.clause("R-30")
def test_every_call_has_exactly_two_failpoints() -> None:
    """R-30: generated from the ports, one before and one after."""
    assert len(CATALOGUE) == 60
    assert set(CATALOGUE) == {
        Failpoint(port, method, edge) for port, methods in PORT_CALLS.items() for method in methods for edge in Edge
    }


@pytest.mark.clause("T-O19")
@pytest.mark.parametrize(
    ("port", "method"),
    [("store", "publsh"), ("stor", "publish"), ("store", "read"), ("store", "sink"), ("clock", "now")],
)
def test_a_failpoint_of_a_call_that_does_not_exist_is_refused(port: str, method: str) -> None:
    """R-30, T-O19: a misspelt one cannot be armed and then never fire."""
    with pytest.raises(ValueError, match=f"{port}.{method}"):
        Failpoint(port, method, Edge.BEFORE)


@pytest.mark.parametrize("point", CATALOGUE, ids=str)
def test_a_failpoint_is_read_back_from_its_name(point: Failpoint) -> None:
    assert Failpoint.parse(str(point)) is point


@pytest.mark.parametrize("name", ["", "store.publish", "store.publish.during", " store.publish.before"])
def test_an_unknown_failpoint_name_is_refused(name: str) -> None:
    """The message shows what names look like."""
    with pytest.raises(ValueError, match="no such failpoint") as caught:
        Failpoint.parse(name)
    assert repr(name) in str(caught.value)
    assert str(CATALOGUE[0]) in str(caught.value)


def test_no_failpoint_is_named_by_a_literal() -> None:
    """R-30: the catalogue is the only source of them."""
    assert {str(point): where for point in CATALOGUE if (where := literals(str(point)))} == {}


# ----------------------------------------------------------------------------------------------------------------------
# What is public

#: The verbs of transactions. ``Commit`` with a capital letter is a noun: one commit as the store shows it.
VERBS = {
    "abort",
    "begin",
    "cancel",
    "commit",
    "compensate",
    "confirm",
    "enlist",
    "prepare",
    "rollback",
    "savepoint",
    "transaction",
    "try",
}


@pytest.mark.parametrize("name", perago_core.__all__)
def test_every_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(perago_core, name) is not None
    assert name in dir(perago_core)


def test_no_public_name_is_listed_twice() -> None:
    assert len(set(perago_core.__all__)) == len(perago_core.__all__)


def test_every_lazy_name_is_public() -> None:
    """What ``__getattr__`` finds and what ``__all__`` promises are the same."""
    assert {*LAZY._MODULE_OF, *LAZY._MODULES} == set(perago_core.__all__)


@pytest.mark.parametrize("name", perago_core.__all__)
def test_a_public_name_is_found_also_before_anybody_imported_it(name: str) -> None:
    """Once its module is imported Python finds a submodule without asking; here it is asked."""
    assert LAZY.__getattr__(name) is getattr(perago_core, name)


@pytest.mark.parametrize("name", ["publish", "Attemp", "_nothing", "__path_to_nowhere__"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'perago_core' has no attribute '{name}'"):
        getattr(perago_core, name)
    assert not hasattr(perago_core, name)


def test_authors_get_no_transaction_verbs() -> None:
    """P-23: whoever writes a body is not asked to try, confirm or cancel."""
    assert [name for name in perago_core.__all__ if VERBS & set(name.split("_"))] == []


def test_the_package_says_that_it_is_typed() -> None:
    assert (CORE / "py.typed").exists()


def test_the_version_is_the_one_that_is_packaged() -> None:
    assert perago_core.__version__ == project()["project"]["version"]


# ----------------------------------------------------------------------------------------------------------------------
# What it costs to import

BASE = "import attrs, transitions"
PACKAGE = "import perago_core"
MACHINE = "from perago_core import start, step"
DRIVER = "from perago_core import drive"

#: A round is five imports of each; the best of all rounds so far counts, so that a busy machine gets more tries.
ROUNDS, REPEATS = 6, 5


def seconds(statement: str, bytecode: Path) -> float:
    """Import in a fresh interpreter and say what processor time it took, without the interpreter's own start."""
    program = f"import time; began = time.process_time(); {statement}; print(time.process_time() - began)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def test_importing_the_core_costs_little_more_than_its_dependencies(tmp_path: Path) -> None:
    """The package itself is lazy; a machine is compiled when it is first used, and that has its own limit.

    All of it is byte-compiled, in a folder of the test's own. Where somebody had compiled the dependencies and
    ``PYTHONDONTWRITEBYTECODE`` kept the core from it, the ratio was the compiler's: 3.3 instead of 2.7.
    """
    best = dict.fromkeys((BASE, PACKAGE, MACHINE, DRIVER), float("inf"))
    for _ in range(ROUNDS):
        for _ in range(REPEATS):
            best = {statement: min(time, seconds(statement, tmp_path)) for statement, time in best.items()}
        if best[PACKAGE] <= 1.5 * best[BASE] and max(best[MACHINE], best[DRIVER]) <= 3 * best[BASE]:
            return
    pytest.fail(", ".join(f"{statement}: {time * 1000:.0f} ms" for statement, time in best.items()))


@pytest.mark.parametrize("module", sorted({*LAZY._WHERE, *LAZY._MODULES}))
def test_every_public_module_can_be_the_first_to_be_imported(module: str, tmp_path: Path) -> None:
    """Names are loaded in whatever order an embedder uses them; a circle of imports would show in some of them."""
    seconds(f"import perago_core.{module}", tmp_path)


def test_importing_the_package_loads_no_machine() -> None:
    program = f"{PACKAGE}, sys; print(sorted(name for name in sys.modules if name.startswith('perago_core.')))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    assert run.stdout.strip() == "[]"


# ----------------------------------------------------------------------------------------------------------------------
# What it imports

#: Pure modules of the standard library, and the two dependencies.
PURE = {
    "__future__",
    "attrs",
    "collections",
    "contextlib",
    "enum",
    "functools",
    "hashlib",
    "importlib",
    "itertools",
    "json",
    "math",
    "re",
    "string",
    "sys",
    "transitions",
    "types",
    "typing",
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def imports(path: str) -> set[str]:
    found = set[str]()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            found.add(node.module or "")
    return {name.partition(".")[0] for name in found}


def test_the_core_imports_nothing_but_itself_and_what_is_pure() -> None:
    """Neither another package of ours nor a module with a clock, chance or IO, also not inside a function."""
    assert {path: strange for path in TREES if (strange := imports(path) - PURE - {"perago_core"})} == {}


def test_what_counts_as_pure_is_not_forbidden() -> None:
    (contract,) = (each for each in project()["tool"]["importlinter"]["contracts"] if each["id"] == "core-is-pure")
    assert len(contract["forbidden_modules"]) > 9
    assert set(contract["forbidden_modules"]) & PURE == set()


def test_what_is_imported_by_name_is_the_core_itself() -> None:
    """``import_module`` and ``__import__`` would be a side door."""
    dynamic = [
        ast.unparse(node.args[0])
        for path in TREES
        for node in nodes(path)
        if isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}
    ]
    assert [argument for argument in dynamic if not argument.startswith("f'perago_core.")] == []


def test_the_core_neither_reads_nor_writes_nor_evaluates() -> None:
    builtins = ("open", "print", "input", "eval", "exec", "breakpoint", "globals", "setattr", "delattr")
    assert {name: where for name in builtins if (where := calls(name))} == {"globals": {"__init__.py": 1}}


def test_only_the_driver_catches_what_it_cannot_name() -> None:
    """Once for each kind of port: an exception is a missing answer. Anywhere else failing closed is a row."""
    wide = [
        path
        for path in TREES
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        if node.type is None or _name(node.type) in {"Exception", "BaseException"}
    ]
    assert wide == ["driver.py", "driver.py"]
