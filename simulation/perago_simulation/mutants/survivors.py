"""The mutants nobody notices, each with the reason why nobody has to, or who looks after it instead.

A mutant that is neither noticed nor named here fails the tests; so does one that is named here and noticed.
"""

from __future__ import annotations

from collections.abc import Mapping

_SILENT = "Silence instead of FAILED: the orchestrator times the attempt out. Slower by one time-out, never wrong."
_ONE_READ = "One more read, whose answer leads to the same row. Costs a call; the call budgets of the core notice."
_NO_PROOF = "Nothing is known of the owners then, so the owner rule refuses every child of the input: it fails closed."
_NEXT_STEP = "Nothing was opened, so the next step, a commit under that name, is refused, and the attempt fails closed."
_EVIDENCE = "After the report. It leaves less evidence in the ledger or in the log, and changes no verdict."
_SWEPT = "After the report. The intent stays open until the next sweep, which settles it as what it is (L-06)."
_RETURNED = "A return ends at the input, which is what is reported; a return called unknown costs one more attempt."
_TOLD = "Finds out what it was told already: nothing of it landed. Costs three calls, ends in the same FAILED."
_BARRIER = "Barrier and revocation end what an unclean predecessor has on its way, before anybody looks at the head."
_MAY_MISS = (
    "`atomic` has no barrier: what is not at the head may still land, so a look at the head may miss it as well. "
    "FAILED without looking costs one more attempt, whose owner rule replaces what landed."
)
_SAVES = (
    "The look before the body only saves work: whoever skips it runs the body and adopts the same commit at the head. "
    "`tests/crash/test_adoption.py` counts the runs of the body."
)
_TWIN_FAILS = (
    "FAILED instead of silence: the lower of two twins costs its line an attempt, and here each line has its own. "
    "Where one failure fails the workflow it matters; `tests/conductor/test_adoption.py` has such a workflow."
)
_OVERLAP = (
    "The rules of number and of status overlap here: whoever has a greater number is open or accepted by the time an "
    "older attempt looks at the head, and the rule of status refuses it. Without both (`no owner rule`) S-16 notices, "
    "and so it does without the rule of status (`owners all dead`). Nor does a rerun tell them apart: its claim is "
    "lost to the execution before it."
)

_FOR_GOOD = (
    "The task fails where only its attempt had: retries that might have helped are not made. Nothing is published that "
    "was not, and a workflow that fails is no dead end. The vectors of the core have it."
)
_ONCE_MORE = (
    "The head is seen and judged once more, and the store refuses once more what it has refused. Costs calls, and ends "
    "as it would have."
)

_RUNS_AGAIN = (
    "On a shared branch a head that moved ends the attempt instead of being looked at again: the body runs once more, "
    "and nothing else is published. `tests/core/test_sharing.py` counts the runs of the body."
)

#: By mutant, why it may survive.
REASONS: Mapping[str, str] = {
    "numbers ignored": _OVERLAP,
    "ours by tree": (
        "With the owner rule and the expected head, nothing with our tree stands anywhere but on our input. It takes a "
        "stranger who copies our tree; the vectors of the core have it."
    ),
    "lease always released": _BARRIER,
    "T1 as T2": "Waits although there is nothing to wait for. Costs time.",
    "no CONFIRMATION": _EVIDENCE,
    "Z2 as Z4": _EVIDENCE,
    "Z3 as Z2": _EVIDENCE,
    "Z4 as Z2": "Reads the task once more after a FAILED. " + _EVIDENCE,
    "ZU2 as Z4": _EVIDENCE,
    "ZU3 as Z2": _EVIDENCE,
    "ZU3 as Z4": _SWEPT,
    "ZU4 as Z2": "Reads the task once more after a FAILED. " + _EVIDENCE,
    "Z5 as Z1": _SWEPT,
    "Z5 as Z2": _SWEPT,
    "FX2 as F2": _NEXT_STEP,
    "FX4 as F2": _NEXT_STEP,
    "FX5 as F2": _NEXT_STEP,
    "FX2 as FX1": _SILENT,
    "GX2 as GX1": _SILENT,
    "JX2 as JX1": _SILENT,
    "H5 as H6": _SILENT,
    "HX1 as H6": _SILENT,
    "K3 as K2": _SILENT,
    "Q1 as Q2": _SILENT,
    "EC2 as EC1": _ONE_READ,
    "ECX1 as EC1": _ONE_READ,
    "Q4 as Q2": _SILENT,
    "R5 as RF1": _SILENT + " The publication stands, and the next attempt replaces it.",
    "UX2 as U1": "Uploads of this world have no content, so none can be half there. The staged tree is read back.",
    "CX1 as C1": "The name is gone only once a newer attempt has revoked it; the next fence finds the attempt stale.",
    "K1 as K3": _ONE_READ,
    "K4 as K3": _ONE_READ,
    "Y2 as YX1": "Looks for it at the head, where what is not as planned proves nothing either: the same FAILED.",
    "K2 as K3": _ONE_READ,
    "L2 as L1": _ONE_READ,
    "LG1 as L1": _ONE_READ,
    "LG3 as L1": _ONE_READ,
    "LX1 as L1": _NO_PROOF,
    "LX1 as L2": _NO_PROOF,
    "NX1 as N1": _NO_PROOF,
    "P3 as P1": _RETURNED,
    "P3 as P2": _RETURNED,
    "P3 as P5": _RETURNED,
    "P3 as P6": _RETURNED,
    "P5 as PX1": _MAY_MISS,
    "P5 as PX2": _MAY_MISS,
    "P4 as PX2": "Asks for the claims, of which `soft` has none, and ends in the same FAILED.",
    "NX1 as N3": _SILENT,
    "PX1 as P5": _TOLD,
    "PX1 as P6": _TOLD,
    "PX2 as P5": _TOLD,
    "PX2 as P6": _TOLD,
    "PX2 as P4": _TWIN_FAILS,
    "no RIVALS": _TWIN_FAILS,
    "N3 as NX1": _TWIN_FAILS,
    "PR1 as PR2": _TWIN_FAILS,
    "PR3 as PR2": _TWIN_FAILS,
    "outranked fails": _TWIN_FAILS,
    "PR2 as PR1": _SILENT,
    "PRX1 as PR1": _SILENT,
    "no EARLIER_OWNERS": _SAVES,
    "no EARLIER_HEAD": _SAVES,
    "EC1 as EC2": _SAVES,
    "EO1 as EO2": _SAVES,
    "EO1 as EOX1": _SAVES,
    "EO2 as EOX1": _SAVES,
    "EH1 as EH2": _SAVES,
    "EOX1 as EO2": "Claims and head say what was published; the word on the owners only says what was accepted.",
    "EHX1 as EH1": (
        "The body does not run, and the attempt goes on like one that changed nothing. Worlds do not show whether a "
        "body ran, and with one lost answer nobody else is there to disagree. `EH2 as EH1`, the same mistake where "
        "the head was seen, is noticed (S-41)."
    ),
    "N2 as N1": "What was accepted is still at the head, where it is adopted: the same result, some calls later.",
    "adopted without a name": (
        "Who adopts publishes nothing, so nothing here looks for its name. A recovery does: it revokes the names of "
        "all who may have a claim before it takes a commit back."
    ),
    "H5 as H8": _FOR_GOOD,
    "HX1 as H8": _FOR_GOOD,
    "PR4 as PR1": _RUNS_AGAIN,
    "PR4 as PR2": _RUNS_AGAIN,
    "PR1 as PR4": _ONCE_MORE,
    "PR2 as PR4": _ONCE_MORE,
    "PR3 as PR4": _ONCE_MORE,
    "PRX1 as PR4": _ONCE_MORE,
}
