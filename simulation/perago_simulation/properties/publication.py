"""What no execution ever publishes, whatever the others do: over whom, when, and on what a publication may be sent.

The promises about the branch itself are in ``properties``; these are broken first, by whoever is about to break those.
"""

# ruff: noqa: E501  one clause, one line
from __future__ import annotations

from collections.abc import Iterator

from perago_core import fence
from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.plan import PlanKind
from perago_core.results import Completed
from perago_core.values import Backing
from perago_simulation.properties.commands import about
from perago_simulation.properties.safety import Property, When, stands_on
from perago_simulation.world.history import ROOT, chain, commit, maker
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, NOBODY, OPEN, Request, World, recoverers


def _published_on_its_input(setting: Setting, world: World) -> str | None:
    for ref in chain(world.head):
        owner = maker(ref)
        if owner != NOBODY and not stands_on(setting, world, ref, world.tasks[world.runs[owner].task].input):
            return f"{ref} was published on {commit(ref).parents}, not on its input"
    return None


def _nothing_changed_is_free(_setting: Setting, world: World) -> str | None:
    for index, run in enumerate(world.runs):
        if run.state is not None and not run.state.known.changed:
            made = [ref for ref in chain(world.head) if ref != ROOT and maker(ref) == index]
            if made:
                return f"e{index} changed nothing and made {made}"
    return None


def _refused_is_refused(_setting: Setting, world: World) -> str | None:
    for index, run in enumerate(world.runs):
        if run.state is None or not isinstance(run.state.known.decision, fence.Refused | fence.Late):
            continue
        asked = run.state.pending[0]
        if isinstance(asked, m.Publish) or any(request.run == index for request in world.requests):
            return f"e{index} decided to leave the target alone and publishes"
        if isinstance(asked, m.Report) and isinstance(asked.result, Completed):
            return f"e{index} decided to leave the target alone and reports {asked.result.ref}"
    return None


def _over_the_living(world: World) -> Iterator[tuple[Request, str]]:
    """Give the relocations on their way over what may be alive, and say what each of them does."""
    for request in world.requests:
        plan = request.plan
        if plan.kind is PlanKind.MERGE:
            continue
        owner = maker(plan.expected)
        if owner == NOBODY:
            yield request, f"e{request.run} sends a relocation over {plan.expected}, which no execution made"
            continue
        # A status that has ended never changes, so what is open or completed now was so when the request was sent.
        status = world.tasks[world.runs[owner].task].status
        if status is OPEN or status is COMPLETED:
            yield request, f"e{request.run} sends a relocation over {plan.expected} of a task that is {status}"


def _nothing_alive_is_replaced(_setting: Setting, world: World) -> str | None:
    return next((problem for _, problem in _over_the_living(world)), None)


def _nothing_alive_can_be_replaced(setting: Setting, world: World) -> str | None:
    sent = _over_the_living(world)
    return next((problem for request, problem in sent if not _is_refused_for_good(setting, world, request)), None)


def _is_refused_for_good(setting: Setting, world: World, request: Request) -> bool:
    """Return whether the store will not begin a request, whatever the head: its name is gone, or its claim outraised.

    Neither comes back. What the store has begun already it installs.
    """
    able, plan = setting.store, request.plan
    if request.begun:
        return False
    if able.revocable_names and plan.name is not None and request.run not in dict(world.names):
        return True
    return able.conditional_claim and plan.claim is not None and world.raised[_step(world, request.run)] != request.run


def _one_publisher(_setting: Setting, world: World) -> str | None:
    """A sender is seen while its request is on its way, and afterwards by its commit on the branch.

    A recovery publishes for nobody: it undoes.
    """
    senders: dict[int, int] = {}
    nobodies = recoverers(world) | {NOBODY}
    for run in (*(request.run for request in world.requests), *map(maker, chain(world.head))):
        if run in nobodies:
            continue
        other = senders.setdefault(world.runs[run].task, run)
        if other != run:
            return f"e{other} and e{run} both published for t{world.runs[run].task}"
    return None


def _intent_before_effect(setting: Setting, world: World) -> str | None:
    """Judged while the attempt is open: of one that was given up, a successor may have settled the intent since."""
    if not setting.ledger:
        return None
    for request in world.requests:
        is_open = world.tasks[world.runs[request.run].task].status is OPEN
        if is_open and request.awaited and request.run not in world.intents:
            return f"e{request.run} publishes without an intent"
    return None


@about(m.Publish)
def _sent_under_a_lease(
    setting: Setting, _world: World, index: int, state: AttemptState, _asked: m.Publish
) -> str | None:
    if setting.backing is not Backing.LOCKED or state.known.token is not None:
        return None
    return f"e{index} publishes and never held the lease"


def revoked_and_overtaken(world: World) -> list[int]:
    """Return the executions with a request on its way, without their name, and a newer attempt's commit on the branch."""
    if not world.requests:
        return []
    names = dict(world.names)
    newest: dict[int, int] = {}
    for run in map(maker, chain(world.head)):
        if run != NOBODY:
            task = world.tasks[world.runs[run].task]
            newest[task.step] = max(newest.get(task.step, 0), task.number)
    return [
        request.run
        for request in world.requests
        if request.run not in names and _number(world, request.run) < newest.get(_step(world, request.run), 0)
    ]


def _number(world: World, run: int) -> int:
    return world.tasks[world.runs[run].task].number


def _step(world: World, run: int) -> int:
    return world.tasks[world.runs[run].task].step


def _revocation_is_final(setting: Setting, world: World) -> str | None:
    """What the store has begun it installs, unless the branch moves first; so nothing of this kind may be begun."""
    if setting.backing not in {Backing.CONDITIONAL, Backing.LOCKED}:
        return None
    late = revoked_and_overtaken(world)
    begun = [request.run for request in world.requests if request.begun and request.run in late]
    return f"the name of e{begun[0]} is gone, a newer attempt has published, and the store goes on" if begun else None


# fmt: off
PUBLISHING = (
    Property("S-04b", "whatever is published stands on its input, accepted or not", When.ALWAYS, _published_on_its_input),
    Property("S-12", "a no-op makes no commit", When.ALWAYS, _nothing_changed_is_free),
    Property("S-13", "who refuses the head neither publishes nor completes", When.ALWAYS, _refused_is_refused),
    Property("S-16", "no relocation is sent over what may be alive", When.ALWAYS, _nothing_alive_is_replaced),
    Property("S-17", "at most one execution of a task publishes", When.ALWAYS, _one_publisher),
    Property("S-18", "an intent stands before its publication is sent", When.ALWAYS, _intent_before_effect),
    Property("S-24", "nothing is sent without ever having held the lease", When.ALWAYS, _sent_under_a_lease),
    Property("S-30", "a request whose name is gone changes nothing once a newer attempt has published", When.ALWAYS, _revocation_is_final),
)

#: S-16 where its letter is too strict (ADR 34): of attempts with equal trees that replace, a stale one may take a newer
#: one's commit for an older one's, and send a relocation over it. By then the newer one has raised the claim, or it or
#: who started its workflow has revoked the name, and nothing lands. A relocation that may land is as wrong as ever.
NOTHING_ALIVE_CAN_BE_REPLACED = Property("S-16", "no relocation that may land is sent over what may be alive", When.ALWAYS, _nothing_alive_can_be_replaced)
# fmt: on
