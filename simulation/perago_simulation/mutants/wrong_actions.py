"""What an attempt may wrongly ask for or rely on: the other half of the parts from which bugs are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import evolve

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, Known, table
from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase, work_of
from perago_core.machine.rows import Ask, Command, Row, asks
from perago_core.plan import Condition, PlanKind
from perago_core.results import Completed
from perago_core.values import Attempt, claim_of
from perago_simulation.mutants.tables import Attempts, attempts, leads, row, skip, with_rows
from perago_simulation.mutants.wrong_learning import anybody_is_abandoned, head_seen
from perago_simulation.world.model import Model, Moves, Part
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import NOBODY, Run, World, without_name

Make: TypeAlias = Callable[[Setting], Model]

# ---------------------------------------------------------------------------------------------------------------------
# What an attempt asks for


@asks(m.RevokeOlder)
def revoke_everything(attempt: Attempt, _known: Known, _event: object) -> Command:
    """Revoke newer names too."""
    return m.RevokeOlder(attempt.number + 100)


@asks(m.RevokeOlder)
def revoke_nothing(_attempt: Attempt, _known: Known, _event: object) -> Command:
    """Revoke nobody."""
    return m.RevokeOlder(0)


@asks(m.Report)
def report_staged(attempt: Attempt, known: Known, _event: object) -> Command:
    """Report what was staged."""
    ref = attempt.input if known.staged is None else known.staged.commit
    return m.Report(Completed(ref, known.output, attempt.execution))


@asks(m.CleanUp)
def release_always(attempt: Attempt, known: Known, _event: object) -> Command:
    """Release the lease whatever is known of the publication."""
    return m.CleanUp(attempt.staging_name if known.staging else None, release_lease=known.token is not None)


@asks(m.CleanUp)
def release_never(attempt: Attempt, known: Known, _event: object) -> Command:
    """Keep the lease."""
    return m.CleanUp(attempt.staging_name if known.staging else None, release_lease=False)


@asks(m.OpenStaging)
def open_the_target(attempt: Attempt, _known: Known, _event: object) -> Command:
    """Write to the target itself."""
    return m.OpenStaging(attempt.target.branch, attempt.input)


@asks(m.CleanUp)
def clean_up_another(attempt: Attempt, known: Known, _event: object) -> Command:
    """Guess the name to remove from the number of the execution."""
    name = attempt.staging_name.replace(attempt.execution, "e0") if known.staging else None
    return m.CleanUp(name, release_lease=known.token is not None and not known.uncertain)


@asks(m.Report)
def report_found(attempt: Attempt, known: Known, _event: object) -> Command:
    """Report what was seen at the head, and nothing else."""
    ref = attempt.input if known.found is None else known.found.commit
    return m.Report(Completed(ref, known.output, attempt.execution))


@asks(m.Report)
def report_own_output(attempt: Attempt, known: Known, event: object) -> Command:
    """Report the adopted commit with what the own body returned."""
    adopted = table.report_adopted.build(attempt, known, event)
    assert isinstance(adopted, m.Report)
    assert isinstance(adopted.result, Completed)
    return m.Report(evolve(adopted.result, output=known.output))


@asks(m.Report)
def report_own_work(attempt: Attempt, known: Known, event: object) -> Command:
    """Report the own commit, if there is one, although another one is at the head."""
    asked = table.report_adopted if known.staged is None else report_staged
    return asked.build(attempt, known, event)


@asks(m.MakeClaim)
def claim_without_result(attempt: Attempt, known: Known, _event: object) -> Command:
    """Claim, and put nothing on record of what the body returned."""
    return m.MakeClaim(evolve(claim_of(attempt, work_of(known)), result=None))


def asking(old: Ask, new: Ask) -> Attempts:
    """Ask for something else wherever this is asked for."""
    return attempts(evolve(each, ask=new) if each.ask is old else each for each in ATTEMPT.definition.rows)


def reported_first() -> Attempts:
    """Report what was staged, then publish it, then clean up."""
    first = [leads(each, Phase.REPORT, report_staged) for each in ("H1", "H2")]
    then = [leads(each, Phase.PUBLICATION, table.publish) for each in ("Z1", "Z2", "ZU1", "ZU2")]
    last = [leads(each, Phase.CLEAN_UP, table.clean_up) for each in ("P1", "P2", "P4", "P5", "P6", "PX1", "PX2")]
    return attempts(with_rows(*first, *then, *last))


# ---------------------------------------------------------------------------------------------------------------------
# What an attempt relies on


class ClaimsReleased(Model):
    """Clean-up takes the claim away."""

    def _work(self, world: World, index: int, run: Run) -> Moves:
        for label, after in super()._work(world, index, run):
            kept = tuple(claim for claim in after.claims if claim.execution != f"e{index}")
            yield label, after._replace(claims=kept) if label[1] == "CleanUp" else after


class EagerCollector(Model):
    """Somebody removes the names of attempts that are at work."""

    def parts(self, runs: int) -> tuple[Part, ...]:
        """Return who moves: the collector too."""
        return (*super().parts(runs), self._collect)

    def _collect(self, world: World) -> Moves:
        for run, _ in world.names:
            yield ("collector", "drop name", f"e{run}"), without_name(world, run)


class ImmortalLease(Model):
    """A lease never expires, not even that of a worker who is dead."""

    def _fail(self, world: World) -> Moves:
        return (move for move in super()._fail(world) if move[0][1] != "expire")


class PinnedAtTheHead(Model):
    """A workflow on a shared branch starts from the head, whoever has published it."""

    def pin(self, world: World, _step: int, /) -> str:
        """Return the head."""
        return world.head


class OlderClaimsRaise(Model):
    """The claim register lets an older attempt take over from a newer one."""

    def _work(self, world: World, index: int, run: Run) -> Moves:
        assert run.state is not None
        claiming = isinstance(run.state.pending[0], m.MakeClaim)
        seen = world._replace(raised=(NOBODY,) * len(world.raised)) if claiming else world
        yield from super()._work(seen, index, run)


def on(table: Callable[[], Attempts]) -> Make:
    """Run a table, which is made once."""
    made: list[Attempts] = []

    def make(setting: Setting) -> Model:
        if not made:
            made.append(table())
        return Model(setting, made[0])

    return make


def learning(event: type[Event], remember: Callable[..., Known]) -> Make:
    """Learn something else from an event."""
    return on(lambda: attempts(remember={event: remember}))


def store(**able: bool) -> Make:
    """Let the store do less, or more."""
    return lambda setting: Model(evolve(setting, store=evolve(setting.store, **able)))


def collecting_early(setting: Setting) -> Model:
    """Let the collector remove claims too early."""
    return Model(evolve(setting, early_collector=True))


def cas_only() -> Attempts:
    """Expected head, but neither claim nor owner rule: compare-and-swap and nothing else."""
    seen = head_seen(anybody_is_abandoned, {"condition": Condition.HEAD, "claim": None})
    return attempts(skip(Phase.CLAIM), {m.HeadSeen: seen})


def no_anchor() -> Attempts:
    """A no-op goes on without a name, and relocates by commit id because it has none."""
    rows = with_rows(leads("F6", Phase.FENCE_2, table.reload_task))
    return attempts(rows, {m.HeadSeen: head_seen(plan={"name": None}, kinds=(PlanKind.RETURN,))})


def adopts_without_claim() -> Attempts:
    """Report what an earlier attempt published as soon as it is seen."""
    return attempts(with_rows(leads("EH1", Phase.REPORT, report_found)))


def adopts_without_name() -> Attempts:
    """Claim what is adopted without a name of one's own."""
    return attempts(with_rows(leads("EH1", Phase.FENCE_2, table.reload_task)))


def outranked_goes_on() -> Attempts:
    """Go on to the head although a newer attempt has claimed."""
    rows: list[Row] = []
    for each in ATTEMPT.definition.rows:
        if each.id == "N3":
            onward = (row("N1"), *(row(way) for way in ("NG1", "NG3")))
            rows += [evolve(way, id=f"N3-{way.id}", when={**way.when, **each.when}) for way in onward]
        else:
            rows.append(each)
    return attempts(rows)


def outranked_fails() -> Attempts:
    """Report FAILED where a newer attempt speaks for both."""
    return attempts(with_rows(*(leads(each, Phase.REPORT, table.report_failed) for each in ("N3", "PR1"))))


def existence_is_ours() -> Attempts:
    """Take a claim that exists for ours."""
    onward = row("K1")
    assert isinstance(onward.next, Phase)
    return attempts(with_rows(*(leads(each, onward.next, onward.ask) for each in ("K2", "Q2"))))


def sent_again() -> Attempts:
    """Send a publication again that got no answer."""
    return attempts(with_rows(*(leads(each, Phase.PUBLICATION, table.publish) for each in ("P4", "P5", "P6"))))


def looked_for_at_the_head() -> Attempts:
    """Trust the head instead of the store's answer: an equal tree there is called ours, whoever made it."""
    return attempts(with_rows(leads("P1", Phase.OWN_HEAD, table.read_head)))


def refusal_completed() -> Attempts:
    """Report the input where the head was refused."""
    return attempts(with_rows(leads("H5", Phase.REPORT, table.report_input)))


def waits_for_the_lease() -> Attempts:
    """Ask for a busy lease again and again."""
    return attempts(with_rows(leads("TX1", Phase.LEASE, table.acquire_lease)))


def asks_until_current() -> Attempts:
    """Ask a second time whether a stale attempt is not current after all, and so on."""
    rows = ("GX1", "GX4")
    return attempts(with_rows(*(leads(each, Phase.FENCE_2, table.reload_task) for each in rows)))
