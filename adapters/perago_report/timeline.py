"""A recorded run as a story: a scene for each moment, each with the commit graph as it was known to be by then."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from perago_core.answers import NotDone
from perago_core.attempt import ATTEMPT
from perago_core.attempt import messages as m
from perago_core.machine.description import digest
from perago_core.value import Value
from perago_core.values import Target, TaskStatus
from perago_report import sentences
from perago_report.narration import Said, say
from perago_report.observed import Seen
from perago_report.recording import (
    GivenUp,
    Moment,
    Recording,
    Stepped,
    Word,
    moments,
)
from perago_report.scenes import CommitNode, Fired, Line, Position, Scene, Standing, Story

_NOTES = {row.id: row.note for row in ATTEMPT.definition.rows}


def tell(
    title: str,
    recordings: Sequence[Recording],
    told: Sequence[Word] = (),
    history: Mapping[str, tuple[str, ...]] | None = None,
) -> Story:
    """Tell a run. ``history``: the parents of commits that the traces do not tell of, such as a stranger's."""
    happened = moments(recordings, told)
    target = _target(recordings)
    seen = Seen(target, _first_input(recordings, target), dict(history or {}))
    begun = happened[0][0] if happened else 0
    snapshots: list[_Snapshot] = []
    for at, moment in happened:
        was = seen.head
        seen.take(at, moment, told)
        said = say(moment, target.branch, was, told)
        snapshots.append(_snapshot(seen, moment, said, f"{(at - begun) / 1000:+.3f} s"))
    where = _positions(tuple(seen.mentioned), seen.line([seen.head]), seen.parents)
    scenes = _scenes(snapshots, where, seen)
    broken = [scene for scene in scenes if scene.problem]
    executions = tuple(who.name for who in recordings if who.records)
    return Story(
        property="S-01" if broken else "",
        clause="every accepted result stays on the branch" if broken else title,
        problem=broken[0].problem if broken else "",
        bounds=_bounds(recordings, target, happened),
        table=digest(ATTEMPT),
        lanes=_lanes(scenes, executions),
        scenes=scenes,
        breaks=broken[0].number if broken else 0,
        executions=executions,
        branch=target.branch,
        verdict=_verdict(happened, told, seen),
    )


def _target(recordings: Iterable[Recording]) -> Target:
    """Return the target the run is about: that of its first attempt that has one."""
    found = [who.attempt.target for who in recordings if who.attempt.input != who.attempt.target.branch]
    return found[0] if found else Target("-", "-")


def _first_input(recordings: Iterable[Recording], target: Target) -> str:
    return next((who.attempt.input for who in recordings if who.attempt.target == target), "")


# ---------------------------------------------------------------------------------------------------------------------
# The world after it


@frozen(repr=False)
class _Snapshot(Value):
    """What is needed of a moment once all commits are known and have their places."""

    said: Said
    rows: tuple[Fired, ...]
    when: str
    head: str
    refs: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    branch: frozenset[str]
    held: frozenset[str]
    accepted: frozenset[str]
    cards: tuple[tuple[Line, ...], ...]
    problem: str


def _snapshot(seen: Seen, moment: Moment, said: Said, when: str) -> _Snapshot:
    lost = seen.lost()
    return _Snapshot(
        said=said,
        rows=_fired(moment),
        when=when,
        head=seen.head,
        refs=tuple(seen.mentioned),
        names=tuple(seen.names.items()),
        branch=frozenset(seen.line([seen.head])),
        held=frozenset(seen.line(seen.names.values())),
        accepted=frozenset(seen.accepted),
        cards=tuple(tuple(each.values()) for each in (seen.tasks, seen.runs, seen.requests, seen.records)),
        problem=f"accepted {sentences.short(lost)} is not on the branch any more" if lost else "",
    )


def _fired(moment: Moment) -> tuple[Fired, ...]:
    if not isinstance(moment, Stepped):
        return ()
    record = moment.record
    event_name = type(record.event).__name__
    note = _NOTES.get(record.row, "")
    return (Fired(record.row, moment.who.name, event_name, record.phase, record.next, note),)


def _scenes(snapshots: Sequence[_Snapshot], where: Mapping[str, Position], seen: Seen) -> tuple[Scene, ...]:
    made: list[Scene] = []
    before: _Snapshot | None = None
    for number, each in enumerate(snapshots, start=1):
        tasks, runs, requests, records = (
            _changed(now, () if before is None else before.cards[card]) for card, now in enumerate(each.cards)
        )
        said = each.said
        made.append(
            Scene(
                number=number,
                label=(said.lane, said.what, said.says),
                lane=said.lane,
                peer=said.peer,
                inward=said.inward,
                says=said.says,
                rows=each.rows,
                head=sentences.short(each.head),
                nodes=_nodes(each, () if before is None else before.refs, where, seen),
                names=tuple((name, sentences.short(ref)) for name, ref in each.names),
                tasks=tasks,
                runs=runs,
                requests=requests,
                records=records,
                alive=tuple(line.name for line in runs if line.standing == "running"),
                problem=each.problem,
                when=each.when,
            )
        )
        before = each
    return tuple(made)


def _changed(now: Iterable[Line], before: Iterable[Line]) -> tuple[Line, ...]:
    old = set(before)
    return tuple(line if line in old else Line(line.name, line.text, line.standing, changed=True) for line in now)


def _nodes(
    after: _Snapshot, before: Sequence[str], where: Mapping[str, Position], seen: Seen
) -> tuple[CommitNode, ...]:
    inputs = {ref for ref in after.refs if not set(seen.parents.get(ref, ())) & set(after.refs)}

    def standing(ref: str) -> Standing:
        if ref in after.branch:
            return Standing.BRANCH
        if ref in after.accepted:
            return Standing.LOST
        return Standing.STAGED if ref in after.held else Standing.ABANDONED

    return tuple(
        CommitNode(
            ref=sentences.short(ref),
            parent=next((sentences.short(each) for each in seen.parents.get(ref, ()) if each in after.refs), ""),
            place=where[ref],
            standing=standing(ref),
            execution=seen.owners.get(ref, ""),
            stranger=ref not in seen.owners and ref not in inputs,
            head=ref == after.head,
            accepted=ref in after.accepted,
            names=tuple(name for name, at in after.names if at == ref),
            fresh=ref not in before,
        )
        for ref in after.refs
    )


# ---------------------------------------------------------------------------------------------------------------------
# The run as a whole


def _lanes(scenes: Sequence[Scene], executions: Sequence[str]) -> tuple[str, ...]:
    used = {each for scene in scenes for each in (scene.lane, scene.peer)}
    known = (sentences.ORCHESTRATOR, *executions, sentences.STORE, sentences.COORDINATION)
    return tuple(each for each in known if each in used)


def _bounds(recordings: Sequence[Recording], target: Target, happened: Sequence[tuple[int, Moment]]) -> str:
    workers = len({who.attempt.worker_id for who in recordings})
    backings = ", ".join(sorted({who.attempt.backing.value for who in recordings}))
    seconds = (happened[-1][0] - happened[0][0]) / 1000 if happened else 0
    return (
        f"{target}, backing {backings}: {len(recordings)} execution(s) of {workers} worker(s) in {seconds:.1f} s, "
        "as their traces have it"
    )


def _verdict(happened: Sequence[tuple[int, Moment]], told: Sequence[Word], seen: Seen) -> str:
    accepted = sum(word.status is TaskStatus.COMPLETED for word in told)
    given_up = sum(isinstance(moment, GivenUp) for _, moment in happened)
    refused = sum(
        isinstance(moment, Stepped) and isinstance(moment.asked, m.Publish) and isinstance(moment.record.event, NotDone)
        for _, moment in happened
    )
    counted = (f"{accepted} result(s) accepted", f"{given_up} attempt(s) given up", f"{refused} publication(s) refused")
    # Nothing may be claimed of a head whose ancestors nobody knows.
    there = seen.accepted <= seen.line([seen.head])
    ending = "is on the branch as it was last seen" if there else "may be on the branch: these traces do not show it"
    return f"{', '.join(counted)}. Every accepted result {ending}."


def _positions(
    refs: Sequence[str], branch: Collection[str], parents: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Position]:
    """Draw commits by generation, the branch as it ended on the top line. Parents come before their children."""
    depths: dict[str, int] = {}
    for ref in refs:
        depths[ref] = 1 + max((depths[each] for each in parents.get(ref, ()) if each in depths), default=-1)
    found: dict[str, Position] = {}
    taken: set[Position] = set()
    for ref in sorted(refs, key=lambda each: each not in branch):
        place = Position(depths[ref], 0 if ref in branch else 1)
        while place in taken:
            place = Position(place.column, place.line + 1)
        taken.add(place)
        found[ref] = place
    return found
