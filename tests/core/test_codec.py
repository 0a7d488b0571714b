"""State is data: every value as text and back, and nothing but a ``CodecError`` for what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast, get_args, get_origin

import pytest
from attrs import fields, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from perago_core import lease, policy, recovery
from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, AttemptState, start
from perago_core.attempt.messages import AwaitTakeover, HeadSeen, OwnersRead, Publish
from perago_core.attempt.table import step
from perago_core.budget import PublishBudget
from perago_core.errors import CodecError
from perago_core.failpoints import CATALOGUE, Failpoint
from perago_core.fence import Case
from perago_core.machine import codec
from perago_core.machine.rows import Fact
from perago_core.machine.trace import Tracer, TraceRecord, read_record
from perago_core.measured import CallTimes, Measured
from perago_core.value import Value
from perago_core.values import Attempt, Backing, Target
from tests.core.attempts import Path, all_attempts, explore, make_attempt, play, walk

REGISTRY = codec.registry()
NAMES = sorted(REGISTRY)


def known(value: Value) -> dict[str, Any]:
    """Give what the text of a value says."""
    loaded: dict[str, Any] = json.loads(codec.dumps(value))
    return loaded


def text(**changes: object) -> str:
    """Give the text of a target with something wrong with it; ``...`` leaves a field out."""
    data = {**known(Target("repo", "main")), **changes}
    return json.dumps({name: value for name, value in data.items() if value is not ...})


# ---------------------------------------------------------------------------------------------------------------------
# Every value


def values_within(value: object) -> Iterator[Value]:
    """Give a value and every value inside it."""
    if isinstance(value, tuple):
        for element in cast("tuple[object, ...]", value):
            yield from values_within(element)
    elif isinstance(value, Value):
        yield value
        for each in fields(type(value)):
            yield from values_within(getattr(value, each.name))


@pytest.mark.clause("S-39", "P-25")
def test_every_value_of_every_way_comes_back_as_it_was() -> None:
    """S-39, P-25, T-W9: states, events and commands on the way to every row, and all they are made of."""
    seen: set[Value] = set()
    for path in walk(all_attempts()).values():
        for move in path.moves:
            seen.update(values_within((move.before, move.event, move.state, move.commands)))
    assert {type(value) for value in seen} >= {
        kind for name, kind in REGISTRY.items() if name.startswith("attempt.") and name != "attempt.Because"
    }
    for value in seen:
        assert codec.loads(codec.dumps(value), type(value)) == value


#: What is too rarely valid to be found by chance: seconds that break nobody's rule, calls that exist.
_BUDGETS = st.builds(PublishBudget, margin=st.floats(1, 2), lease_ttl=st.integers(3, 9) | st.just(float("inf")))
_EXTRA: Mapping[type, st.SearchStrategy[Any]] = {PublishBudget: _BUDGETS, Failpoint: st.sampled_from(CATALOGUE)}
_TEXTS = st.text(min_size=1).filter(str.strip)


def strategy(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  an annotation
    """Make anything an annotation describes; what a validator then refuses is not a value."""
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(strategy(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, arguments))
    if arguments:
        return st.one_of(*map(strategy, arguments))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    scalars: Mapping[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(0, 2**70),
        float: st.floats(0, allow_nan=False) | st.integers(0, 2**53),
        str: _TEXTS,
    }
    return scalars[hint] if hint in scalars else _value_of(cast("type[Value]", hint))


def _value_of(kind: type[Value]) -> st.SearchStrategy[Any]:
    concrete = [each for each in REGISTRY.values() if issubclass(each, kind)]
    if concrete != [kind]:
        return st.sampled_from(sorted(concrete, key=codec.tag)).flatmap(_one_of)
    return _one_of(kind)


def _one_of(kind: type[Value]) -> st.SearchStrategy[Any]:
    if kind in _EXTRA:
        return _EXTRA[kind]
    hints = {name: strategy(hint) for name, hint in codec._hints(kind).items()}  # pyright: ignore[reportPrivateUsage]

    def make(given_fields: dict[str, Any]) -> Value | None:
        try:
            return kind(**given_fields)
        except ValueError:
            return None

    return st.fixed_dictionaries(hints).map(make).filter(lambda made: made is not None)


@pytest.mark.clause("R-19")
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(st.data())
def test_every_type_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """T-W9, R-19: equal to what it was, and written again with the same bytes."""
    kind = REGISTRY[name]
    value = data.draw(_one_of(kind))
    written = codec.dumps(value)
    back = codec.loads(written, kind)
    assert back == value
    assert type(back) is kind
    assert codec.dumps(back) == written


def test_no_two_types_share_a_name_and_none_has_a_field_of_the_frame() -> None:
    """R-19: what is read is what was written."""
    assert len({*REGISTRY.values()}) == len(REGISTRY)
    for kind in REGISTRY.values():
        assert not {"type", "schema"} & {each.name for each in fields(kind)}


@pytest.mark.clause("H-29")
def test_every_type_is_declared_in_full() -> None:
    """H-29, S-39: the annotation is the schema; no value has a field that could carry a client around the ports."""
    for kind in REGISTRY.values():
        for hint in codec._hints(kind).values():  # pyright: ignore[reportPrivateUsage]
            strategy(hint)


# ---------------------------------------------------------------------------------------------------------------------
# States of every machine


def test_a_state_stored_at_any_step_goes_on_as_if_nothing_had_happened() -> None:
    """S-39, P-25, N-13: on the way to every row, store and load before each event."""
    for path in walk(all_attempts()).values():
        state = start(path.attempt).state
        for move in path.moves:
            state = codec.load_state(codec.dumps(state), ATTEMPT)
            after, commands = step(state, move.event)
            assert (after, commands) == (move.state, move.commands)
            state = after


def test_states_of_every_machine_come_back() -> None:
    """The other three begin as they were stored too."""
    chosen = policy.PolicySettings(policy.Policy.AUTO, policy.OnIndeterminate.FAIL, coordination=True, node="n")
    request = lease.LeaseRequest(Target("repo", "main"), "run-1", 10.0, 2.0)
    subject = recovery.Recovery("operation-1", Target("repo", "main"), recovery.Mode.PROBE, "worker-1")
    policies = policy.POLICY.start(chosen).state
    leases = lease.LEASE.start(request).state
    recoveries = recovery.RECOVERY.start(subject).state
    assert codec.load_state(codec.dumps(policies), policy.POLICY) == policies
    assert codec.load_state(codec.dumps(leases), lease.LEASE) == leases
    assert codec.load_state(codec.dumps(recoveries), recovery.RECOVERY) == recoveries
    with pytest.raises(CodecError, match="expected a state of the attempt machine"):
        codec.load_state(codec.dumps(leases), ATTEMPT)
    with pytest.raises(CodecError, match="expected a state of the attempt machine"):
        codec.load_state(codec.dumps(chosen), ATTEMPT)


def waiting() -> AttemptState:
    """Give a state that knows and waits for something."""
    return next(path for path in explore(make_attempt(Backing.LOCKED)) if "Publish" in path.asked).moves[-4].before


@pytest.mark.parametrize(
    ("field", "wrong", "message"),
    [
        ("machine", "engine", "State.machine: 'engine' is none of"),
        ("machine", ["attempt"], "State.machine: a list is none of"),
        ("phase", "SLEEP", "attempt has no phase 'SLEEP'"),
        ("phase", {}, "attempt has no phase an object"),
        ("phase", "DONE", "attempt does not wait for that in phase DONE"),
        ("subject", {"type": "Target", "repository": "r", "branch": "b"}, "State.subject: expected Attempt"),
        ("known", {"type": "Target", "repository": "r", "branch": "b"}, "State.known: expected Known"),
        ("known", None, "expected an object with a type, found None"),
        ("pending", {}, "State.pending: expected a list"),
        ("pending", [{"type": "attempt.RunBody"}], "attempt does not wait for that in phase"),
        ("pending", [{"type": "Target", "repository": "r", "branch": "b"}], "attempt does not wait for that in phase"),
    ],
)
def test_a_state_that_cannot_exist_is_refused(field: str, wrong: object, message: str) -> None:
    """R-19, N-14: what a machine could not have stored, no machine goes on with."""
    data = {**known(waiting()), field: wrong}
    with pytest.raises(CodecError, match=message):
        codec.load_state(json.dumps(data), ATTEMPT)


def test_a_state_has_exactly_its_fields() -> None:
    """R-19."""
    for change in ({"extra": 1}, {"known": ...}):
        data = {name: value for name, value in {**known(waiting()), **change}.items() if value is not ...}
        with pytest.raises(CodecError, match="State has the fields"):
            codec.load_state(json.dumps(data), ATTEMPT)


# ---------------------------------------------------------------------------------------------------------------------
# What cannot be read


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "expected an object, found list"),
        ("null", "expected an object, found NoneType"),
        (text(schema=2), "schema 2 is not known here"),
        (text(schema=0), "schema 0 is not known here"),
        (text(schema="1"), "schema '1' is not known here"),
        (text(schema=True), "schema True is not known here"),
        (text(schema=1.0), "schema 1.0 is not known here"),
        (text(schema=[1]), "schema a list is not known here"),
        (text(schema=...), "schema None is not known here"),
        (text(type=...), "no type None is known here"),
        (text(type="Nothing"), "no type 'Nothing' is known here"),
        (text(type=["Target"]), "no type a list is known here"),
        (text(type="Row"), "no type 'Row' is known here"),
        (text(type="StagedRef"), "StagedRef has the fields"),
        (text(branch=...), "Target has the fields"),
        (text(commit="A"), "Target has the fields"),
        (text(branch=1), "Target.branch: expected str, found 1"),
        (text(branch=None), "Target.branch: expected str, found None"),
        (text(branch=["main"]), "Target.branch: expected str, found a list"),
        (text(branch=""), "Target.branch must be a non-empty string"),
    ],
    ids=lambda value: value[:40],
)
def test_what_cannot_be_read_is_a_codec_error_that_says_why(wrong: str, message: str) -> None:
    """R-19, N-14: schema, type, fields, values; nothing is coerced and nothing is guessed."""
    with pytest.raises(CodecError, match=message):
        codec.loads(wrong, Target)


def test_a_value_of_another_kind_is_refused() -> None:
    """R-19."""
    with pytest.raises(CodecError, match="expected a Attempt, found a Target"):
        codec.loads(codec.dumps(Target("repo", "main")), Attempt)


@pytest.mark.parametrize(
    ("path", "wrong", "message"),
    [
        (("backing",), "hard", "Attempt.backing: 'hard' is no Backing"),
        (("backing",), [], "Attempt.backing: a list is no Backing"),
        (("retry_count",), True, "Attempt.retry_count: expected int, found True"),
        (("retry_count",), 1.0, "Attempt.retry_count: expected int, found 1.0"),
        (("retry_count",), -1, "Attempt.retry_count must be an integer of zero or more"),
        (("read_only",), 1, "Attempt.read_only: expected bool, found 1"),
        (("target",), "repo/main", "expected an object with a type, found 'repo/main'"),
        (("target",), {"type": "PublishBudget"}, "PublishBudget has the fields"),
        (("budget", "margin"), True, "PublishBudget.margin: expected a number, found True"),
        (("budget", "margin"), "1", "PublishBudget.margin: expected a number, found '1'"),
        (("budget", "margin"), {}, "PublishBudget.margin: expected a number, found an object"),
        (("budget", "margin"), "-inf", "PublishBudget.margin must be a number of seconds"),
        (("budget", "margin"), float("nan"), "PublishBudget.margin: nan is not a finite number"),
        (("budget", "margin"), float("inf"), "PublishBudget.margin: inf is not a finite number"),
        (("budget", "margin"), 2**53 + 1, "PublishBudget.margin: 9007199254740993 is not a finite number"),
        (("budget", "margin"), 10**400, "PublishBudget.margin: 10+ is not a finite number"),
        (("budget", "takeover_wait"), 0, "PublishBudget contradicts itself"),
    ],
)
def test_a_field_that_cannot_be_is_named(path: tuple[str, ...], wrong: object, message: str) -> None:
    """R-19, L-10: the message names type and field, and shows what was there."""
    data = known(make_attempt())
    inside: dict[str, Any] = data
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = wrong
    with pytest.raises(CodecError, match=message):
        codec.loads(json.dumps(data), Attempt)


def test_a_nested_value_of_the_wrong_kind_is_refused() -> None:
    """R-19: one kind, one of several kinds, a list, a pair."""
    data = known(make_attempt())
    target, budget = data["target"], data["budget"]
    with pytest.raises(CodecError, match=r"Attempt\.target: expected Target, found PublishBudget"):
        codec.loads(json.dumps({**data, "target": budget}), Attempt)
    report = {"schema": 1, "type": "attempt.Report", "result": target}
    with pytest.raises(CodecError, match=r"attempt\.Report\.result: a Target does not belong here"):
        codec.load(report, Value)
    owners: dict[str, Any] = {"schema": 1, "type": "attempt.OwnersRead", "snapshots": {}}
    with pytest.raises(CodecError, match=r"OwnersRead\.snapshots: expected a list, found an object"):
        codec.load(owners, OwnersRead)
    for pair in ([], ["task-1"], ["task-1", None, None]):
        with pytest.raises(CodecError, match=f"expected 2 elements, found {len(pair)}"):
            codec.load({**owners, "snapshots": [pair]}, OwnersRead)
    assert codec.load({**owners, "snapshots": [["task-1", None]]}, OwnersRead) == OwnersRead((("task-1", None),))


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def test_infinity_is_written_as_a_word() -> None:
    """JSON has no infinity, and a lease without limit is a value."""
    seen = HeadSeen(None, now=0.5)
    assert known(seen)["lease_until"] == "inf"
    assert codec.loads(codec.dumps(seen), HeadSeen) == seen
    assert json.loads(codec.dumps(Case(make_attempt(), None, None, now=float("-inf"))))["now"] == "-inf"


def test_not_a_number_is_never_written_nor_read() -> None:
    """NaN is not equal to itself, so no text could be compared with it."""
    with pytest.raises(CodecError, match="NaN has no place"):
        codec.dumps(Case(make_attempt(), None, None, now=float("nan")))
    written = codec.dumps(AwaitTakeover(1.5))
    for wrong in ("NaN", "Infinity", "1e999"):
        with pytest.raises(CodecError, match="is not a finite number"):
            codec.loads(written.replace("1.5", wrong), AwaitTakeover)


@given(st.integers(0, 2**53) | st.floats(0, allow_infinity=False).map(int))
def test_equal_values_give_equal_text(number: int) -> None:
    """T-W9: 5 and 5.0 are equal, so they are written alike."""
    one, other = AwaitTakeover(number), AwaitTakeover(float(number))
    assert one == other
    assert codec.dumps(one) == codec.dumps(other)
    assert type(codec.loads(codec.dumps(one), AwaitTakeover).seconds) is float


def test_text_is_canonical() -> None:
    """T-W9: sorted names, no spaces, letters as they are; a public contract."""
    assert codec.dumps(Target("répo", "main")) == '{"branch":"main","repository":"répo","schema":1,"type":"Target"}'
    shuffled = json.dumps({"type": "Target", "branch": "main", "schema": 1, "repository": "répo"}, indent=1)
    assert codec.loads(shuffled, Target) == Target("répo", "main")


def test_what_is_no_value_is_not_written() -> None:
    """S-39: code is not data."""

    @frozen(repr=False)
    class Odd(Value):
        thing: object

    things: tuple[object, ...] = (object(), [], {}, b"", print)
    for thing in things:
        with pytest.raises(CodecError, match="has no place in a stored value"):
            codec.plain(Odd(thing))
    with pytest.raises(CodecError, match="a function has no place"):
        codec.plain(Fact("mode", ("on",), lambda _s, _k, _e: "on"))
    assert "Odd" not in codec.registry()


# ---------------------------------------------------------------------------------------------------------------------
# Anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("type"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_a_value_or_a_codec_error(data: object) -> None:
    """R-19: nothing else ever comes out."""
    with pytest.raises(CodecError):
        codec.load(data, Value)
    with pytest.raises(CodecError):
        codec.loads(json.dumps(data), Value)


@given(st.data())
def test_any_damage_to_a_state_is_noticed_or_harmless(data: st.DataObject) -> None:
    """R-19: replace one thing anywhere in a stored state; it is refused, or it is a state of this machine."""
    whole = known(waiting())
    places = list(_places(whole))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(JSON)
    try:
        state = codec.load_state(json.dumps(whole), ATTEMPT)
    except CodecError:
        return
    assert isinstance(state.subject, Attempt)
    assert codec.load_state(codec.dumps(state), ATTEMPT) == state


def _places(data: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  decoded JSON
    match data:
        case {**fields_of}:
            keys: list[Any] = [*fields_of]
        case [*items]:
            keys = [*range(len(items))]
        case _:
            keys = []
    for key in keys:
        yield data, key
        yield from _places(data[key])


def test_nesting_of_any_depth_is_a_codec_error() -> None:
    """R-19: also just below what the JSON reader takes."""
    for depth in range(800, 1_000):
        for opening, closing in (("[", "]"), ('{"type":', "}")):
            nested = text(branch="HERE").replace('"HERE"', opening * depth + "1" + closing * depth)
            with pytest.raises(CodecError):
                codec.loads(nested, Target)


def test_events_are_read_as_events() -> None:
    """N-14: a command where an event belongs is no event."""
    path = play(make_attempt())
    publish = next(command for command in path.commands if isinstance(command, Publish))
    with pytest.raises(CodecError, match="expected a Event, found a Publish"):
        codec.loads(codec.dumps(publish), Event)


# ---- The trace: what is written down is enough to do it again.


def traced(path: Path) -> list[str]:
    """Go a way again with a tracer watching."""
    lines: list[str] = []
    tracer = Tracer("attempt", lines.append)
    for move in path.moves:
        tracer(move.before, move.event, ATTEMPT.fire(move.before, move.event))
    return lines


def test_replaying_a_trace_gives_the_same_states() -> None:
    """S-39, P-25, N-02: from the text alone, by a process that knows nothing else, on the way to every row."""
    for path in walk(all_attempts()).values():
        first, *rest = traced(path)
        state = codec.load_state(first, ATTEMPT)
        assert state == path.moves[0].before
        for number, (line, move) in enumerate(zip(rest, path.moves, strict=True)):
            record = codec.loads(line, TraceRecord)
            assert (record.machine, record.sequence) == ("attempt", number)
            assert record.phase == state.phase.name
            row, state, commands = ATTEMPT.fire(state, record.event)
            assert (row.id, state.phase.name, commands) == (record.row, record.next, record.commands)
            assert state == move.state


def test_trace_is_one_line_a_step_and_the_state_it_began_with() -> None:
    """A public contract: JSON lines, the same bytes for the same run."""
    path = play(make_attempt())
    lines = traced(path)
    assert len(lines) == len(path.moves) + 1
    assert all("\n" not in line for line in lines)
    assert [json.loads(line)["type"] for line in lines] == ["State", *["TraceRecord"] * len(path.moves)]
    assert lines == traced(path)


def test_a_last_line_may_say_what_was_measured_and_is_no_step() -> None:
    """What was written before there was such a line is read as it is; anything else is refused."""
    line = traced(play(make_attempt()))[1]
    assert isinstance(read_record(line), TraceRecord)
    measured = Measured((CallTimes("store.publish").with_call(0.2),), (("target", 2),))
    assert read_record(codec.dumps(measured)) == measured
    with pytest.raises(CodecError, match="expected a TraceRecord or Measured, found a CallTimes"):
        read_record(codec.dumps(measured.calls[0]))


def test_tracer_may_begin_in_the_middle() -> None:
    """N-13: a process that goes on with a stored state writes that state first."""
    path = play(make_attempt())
    half = Path(path.attempt, path.moves[5:], ())
    first, record, *_ = traced(half)
    assert codec.load_state(first, ATTEMPT) == path.moves[5].before
    assert codec.loads(record, TraceRecord).sequence == 0


def test_a_trace_says_when_if_the_runtime_looks_at_a_clock() -> None:
    """The core has no clock; what the runtime's one says is for people, and changes no step."""
    path = play(make_attempt())
    times = iter(range(1000, 2000))
    lines: list[str] = []
    tracer = Tracer("attempt", lines.append, lambda: next(times))
    for move in path.moves:
        tracer(move.before, move.event, ATTEMPT.fire(move.before, move.event))
    records = [codec.loads(line, TraceRecord) for line in lines[1:]]
    assert [record.at for record in records] == list(range(1000, 1000 + len(records)))
    assert [codec.loads(line, TraceRecord).at for line in traced(path)[1:]] == [0] * len(records)


class Word(str):
    """A text of a kind of its own, as libraries make them."""

    __slots__ = ()


def test_a_text_of_a_kind_of_its_own_is_written_as_the_text_it_is() -> None:
    assert codec.loads(codec.dumps(Target(Word("lake"), "main")), Target) == Target("lake", "main")
