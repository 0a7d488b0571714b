"""Bugs that teams have had, written as mutants: the lessons T-O, T-W, T-P, T-F and the peer's C1 to C11, R1 and R2.

Each changes what an attempt learns, asks for or relies on, in the smallest way that gives the old bug back. Where each
lesson went that is no mutant here is said in ``ELSEWHERE``.
"""

# ruff: noqa: E501  one bug or lesson, one line
from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from perago_core.answers import Unknown
from perago_core.attempt import messages as m
from perago_core.attempt import table
from perago_core.plan import Condition, PlanKind
from perago_core.value import Value
from perago_core.values import SHARING, Attempt, Backing, Between
from perago_simulation.mutants import wrong_actions as way
from perago_simulation.mutants import wrong_learning as lesson
from perago_simulation.mutants.wrong_actions import Make

_STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)
_BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
_ALL = tuple(Backing)
_SHARED = tuple(each for each in Backing if each in SHARING)


@frozen(repr=False)
class Bug(Value):
    """One bug: where it comes from, what it changes, the backings it concerns, and how to get a model that has it.

    ``rows`` are those without which it makes no difference; nor does one that is ``shared`` where nobody declares what
    he reads and writes.
    """

    id: str
    lesson: str
    says: str
    backings: tuple[Backing, ...]
    make: Make
    rows: frozenset[str] = frozenset()
    shared: bool = False


def _between(identity: str, lesson_: str, says: str, change: Callable[[Attempt, Between], Between]) -> Bug:
    """Return the rule of a shared branch without one of its parts."""
    make = way.learning(m.HeadSeen, lesson.head_seen(lesson.between(change)))
    return Bug(identity, lesson_, says, _SHARED, make, shared=True)


#: The row that every attempt takes which adopts and finds that it has company.
_LOOKED = frozenset({"EC1"})


_RELOCATIONS = (PlanKind.REPLACE, PlanKind.RETURN)
_BY_ID = {"name": None}

# fmt: off
BUGS = (
    Bug("no anchor", "T-P10", "a no-op has no name and relocates by commit id", _BY_NAME, way.on(way.no_anchor)),
    Bug("relocate by id", "T-P11, C5", "a relocation names a commit, not the staging name", _BY_NAME, way.learning(m.HeadSeen, lesson.head_seen(plan=_BY_ID, kinds=_RELOCATIONS))),
    Bug("merge by id", "T-P11, C9", "a merge names a commit, not the staging name", _BY_NAME, way.learning(m.HeadSeen, lesson.head_seen(plan=_BY_ID, kinds=(PlanKind.MERGE,)))),
    Bug("owners all dead", "C6, T-O9", "the owner rule does not ask whether the owner has ended", _STRONG, way.learning(m.OwnersRead, lesson.owners_all_dead)),
    Bug("one owner", "T-O1", "the owner rule looks at one of several records with the same tree", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.only_one_owner)))),
    Bug("own claim counts", "L-03", "the owner rule counts the attempt's own record", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.own_counts)))),
    Bug("numbers ignored", "T-W5", "the owner rule lets an older attempt replace a newer one", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.numbers_ignored)))),
    Bug("no owner rule", "C1, C3", "any child of the input is taken for abandoned", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.anybody_is_abandoned))),
    Bug("any descendant", "C5, T-O14", "the head rule accepts any descendant of the input", _ALL, way.learning(m.HeadSeen, lesson.head_seen(lesson.any_descendant))),
    Bug("first parent only", "C2, T-P9", "the head rule looks at the first parent and not at their number", _ALL, way.learning(m.HeadSeen, lesson.head_seen(lesson.first_parent_only))),
    Bug("claim only", "2.6", "a soft fence with claim and owner rule: the store checks nothing", _BY_NAME, way.store(revocable_names=False, barrier=False, conditional_merge=False)),
    Bug("always ours", "T-W9, S-05", "whatever is at the head after an unknown publication is called ours", _STRONG, way.learning(m.HeadSeen, lesson.always_ours)),
    Bug("ours by tree", "T-O1", "an equal tree is called ours, wherever it stands", _STRONG, way.learning(m.HeadSeen, lesson.ours_by_tree)),
    Bug("head only", "C.4", "compare-and-swap on the head, without the claim", (Backing.ATOMIC,), way.learning(m.HeadSeen, lesson.head_seen(plan={"condition": Condition.HEAD}))),
    Bug("compare-and-swap only", "C.4", "compare-and-swap on the head, without claim and owner rule", (Backing.ATOMIC,), way.on(way.cas_only)),
    Bug("sent again", "T-O5, N-02", "a publication without an answer is sent again", _ALL, way.on(way.sent_again)),
    Bug("looked for at the head", "T-O1", "a publication that was answered is looked for at the head, and an equal tree there is called ours", (Backing.SOFT,), way.on(way.looked_for_at_the_head)),
    Bug("claims released", "T-W10", "clean-up takes the claim away", _STRONG, way.ClaimsReleased),
    Bug("older claims raise", "T-W5", "the store lets an older attempt raise its claim over a newer one", (Backing.ATOMIC,), way.OlderClaimsRaise),
    Bug("claim by existence", "T-W9", "a claim that exists is taken for ours", _STRONG, way.on(way.existence_is_ours)),
    Bug("revoke everything", "T-O22", "newer names are revoked too, and our own", _BY_NAME, way.on(lambda: way.asking(table.revoke_older, way.revoke_everything))),
    Bug("revoke nothing", "C9", "the revocation names nobody", _BY_NAME, way.on(lambda: way.asking(table.revoke_older, way.revoke_nothing))),
    Bug("names not revocable", "T-F6, C9", "the store carries out requests whose name is gone", _BY_NAME, way.store(revocable_names=False)),
    Bug("hollow barrier", "T-F6, C9", "updates the store had begun outlive the barrier", _BY_NAME, way.store(barrier=False)),
    Bug("head not checked", "T-O16, C4", "the store does not check the expected head of a merge", (Backing.ATOMIC, Backing.CONDITIONAL), way.store(conditional_merge=False)),
    Bug("relocation not checked", "C5", "the store does not check the expected head of a relocation", (Backing.ATOMIC,), way.store(conditional_relocate=False)),
    Bug("claim not checked", "C6", "the store does not check the claim", (Backing.ATOMIC,), way.store(conditional_claim=False)),
    Bug("forgotten name", "T-P2", "a name whose making is in doubt is not cleaned up", _ALL, way.learning(Unknown, lesson.staging_refused)),
    Bug("reported first", "T-F3", "the result is reported before it is published", _ALL, way.on(way.reported_first)),
    Bug("lease always released", "T-W14", "the lease is released although the publication's fate is open", (Backing.LOCKED,), way.on(lambda: way.asking(table.clean_up, way.release_always))),
    Bug("target written", "P-24, S-11", "the staging name is the target itself", _ALL, way.on(lambda: way.asking(table.open_staging, way.open_the_target))),
    Bug("refusal completed", "P-22", "who refuses the head reports the input as if all were well", _ALL, way.on(way.refusal_completed)),
    Bug("another's name", "T-P1", "clean-up guesses the name, and removes the first execution's", _ALL, way.on(lambda: way.asking(table.clean_up, way.clean_up_another))),
    Bug("eager collector", "T-O23", "names of attempts at work are collected", _ALL, way.EagerCollector),
    Bug("claims collected early", "T-W10", "the claim of any attempt that has ended is collected", _STRONG, way.collecting_early),
    Bug("asks for ever", "R2", "a stale attempt asks again until it is current", _ALL, way.on(way.asks_until_current)),
    Bug("waits for ever", "R1", "a busy lease is asked for again and again, and none expires", (Backing.LOCKED,), lambda setting: way.ImmortalLease(setting, way.waits_for_the_lease())),
    Bug("lease kept", "T-W16", "the lease is never released", (Backing.LOCKED,), way.on(lambda: way.asking(table.clean_up, way.release_never))),
    Bug("adopted unclaimed", "S-41", "what an earlier attempt published is reported without a claim, and without looking again", _STRONG, way.on(way.adopts_without_claim), _LOOKED),
    Bug("adopted unseen", "S-41", "what was at the head before the claim is taken for what is there after it", _STRONG, way.learning(m.HeadSeen, lesson.still_there), _LOOKED),
    Bug("adopted without a name", "S-41", "who adopts has no name that a barrier could end", _STRONG, way.on(way.adopts_without_name), _LOOKED),
    Bug("any child adopted", "S-06", "any child of the input is taken for the own task's", _STRONG, way.learning(m.HeadSeen, lesson.adoptable_by(lesson.anything_is_ours)), _LOOKED),
    Bug("word unread", "S-06", "a head that says it is another task's is judged by its tree alone", _STRONG, way.learning(m.HeadSeen, lesson.word_unread)),
    Bug("own output", "S-06", "an adopted commit is reported with what the own body returned", _STRONG, way.on(lambda: way.asking(table.report_adopted, way.report_own_output)), _LOOKED),
    Bug("own work", "S-01", "who adopts reports the own commit", _STRONG, way.on(lambda: way.asking(table.report_adopted, way.report_own_work)), _LOOKED),
    Bug("no-ops unseen", "S-41", "the claim of who changed nothing is overlooked", _STRONG, way.learning(m.HeadSeen, lesson.adoptable_by(lesson.claims(lesson.no_ops_unseen))), _LOOKED),
    Bug("no result on record", "S-41", "the claim says nothing of what the body returned", _STRONG, way.on(lambda: way.asking(table.make_claim, way.claim_without_result)), _LOOKED),
    Bug("only its makers", "S-41", "the owner rule asks for those who may have made the head, not for those who may adopt it", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.only_its_makers)), _LOOKED),
    Bug("outranked goes on", "S-41", "who finds a newer claim goes on to the head", _STRONG, way.on(way.outranked_goes_on), _LOOKED),
    Bug("outranked fails", "S-41", "who finds a newer claim reports FAILED", _STRONG, way.on(way.outranked_fails), _LOOKED),
    _between("reads not counted", "S-42", "on a shared branch only changes of what a task writes are a conflict", lesson.reads_not_counted),
    _between("nothing counted", "S-42", "on a shared branch no change is a conflict", lesson.nothing_counted),
    _between("stacked on the unaccepted", "S-03", "on a shared branch nobody asks whether what lies between is accepted", lesson.all_accepted),
    _between("joined anywhere", "S-04", "on a shared branch nobody asks whether the input is below the head", lesson.below_the_head),
    Bug("pinned at the head", "S-43", "on a shared branch a workflow starts from the head, accepted or not", _SHARED, way.PinnedAtTheHead, shared=True),
)
# fmt: on


# Where the other lessons went: they are about something else than the order and the meaning of an attempt's steps, so a
# test of the core names each, or it is a duty of an adapter or of the runtime.


#: Every lesson there is.
LESSONS: tuple[str, ...] = (
    *(f"T-O{number}" for number in range(1, 29)),
    *(f"T-W{number}" for number in range(1, 18)),
    *(f"T-P{number}" for number in range(1, 13)),
    *(f"T-F{number}" for number in range(1, 7)),
    *(f"C{number}" for number in range(1, 12)),
)

# fmt: off
#: By lesson, why it is nobody's here.
ELSEWHERE: Mapping[str, str] = {
    "T-O20": "about tests: every schedule here is a list of choices, and none waits for a clock",
    "T-W15": "a duty of adapters: a fresh request id for each call, answers with an old one are dropped",
    "T-W17": "a duty of adapters: the coordination client is built from its own settings and nothing ambient",
    "T-P7": "a duty of the workspace adapter: a sweep takes nothing that belongs to a live owner",
    "T-F2": "a duty of the store's adapter: its probe and its staging refuse a tree without the hook",
    "T-F4": "a duty of the runtime (heartbeats go on until the report is answered); the worlds time an attempt out at any point, the report included",
    "C10": "a duty of the store's adapter: its probe tries a relocation on the target (P-34)",
}
# fmt: on


def mutants_of(lesson: str) -> tuple[str, ...]:
    """Name the mutants that give a lesson's bug back."""
    return tuple(bug.id for bug in BUGS if lesson in bug.lesson.split(", "))
