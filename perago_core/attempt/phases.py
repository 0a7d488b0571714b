"""What an attempt waits for, in the order of a publication."""

from __future__ import annotations

from perago_core.rows import Waiting


class Phase(Waiting):
    """A phase is named after what is awaited, never after what was done."""

    WORKSPACE = "the workspace"
    BODY = "the body"
    FENCE_0 = "the attempt fence before a running body may stage"
    STAGING_0 = "the staging name a running body asked for"
    FENCE_1 = "the attempt fence before staging"
    STAGING = "the staging name"
    UPLOAD = "the changes on the staging branch"
    COMMIT = "the staged commit"
    FENCE_2 = "the attempt fence before publishing"
    CLAIM = "the claim"
    CLAIM_CHECK = "the claim, read back after an unknown answer"
    CLAIMS = "the claim records of the task"
    OWNERS = "the orchestrator's word on their attempts"
    INTENTS = "the open intents of the target"
    LEASE = "the lease"
    TAKEOVER = "the end of the takeover interval"
    FENCE_3 = "the attempt fence under the lease"
    REVOCATION = "the end of older names"
    BARRIER = "the end of older requests"
    INTENT = "the durable intent"
    HEAD = "the head to decide on"
    PUBLICATION = "the movement of the target"
    OWN_REVOCATION = "the end of our own name after an unknown publication"
    OWN_BARRIER = "the end of our own request"
    OWN_HEAD = "the head that shows what became of it"
    OWN_FENCE = "the attempt fence before calling it ours"
    READ_BACK = "the published commit"
    REPORT = "the report"
    CONFIRMATION = "the confirmed intent"
    ACCEPTANCE = "the orchestrator's word on the result"
    SETTLEMENT = "the settled intent"
    CLEAN_UP = "the end of what is left"
    DONE = "nothing more"


#: The target has not moved yet: whatever happens here, nothing was published.
BEFORE_PUBLICATION = tuple(Phase)[: tuple(Phase).index(Phase.PUBLICATION)]

#: From here on the target may have moved.
FROM_PUBLICATION = (
    Phase.PUBLICATION,
    Phase.OWN_REVOCATION,
    Phase.OWN_BARRIER,
    Phase.OWN_HEAD,
    Phase.OWN_FENCE,
    Phase.READ_BACK,
)

#: From here on the result is on its way, or there is none to give; no outside event changes it.
AFTER_REPORT = (Phase.REPORT, Phase.CONFIRMATION, Phase.ACCEPTANCE, Phase.SETTLEMENT, Phase.CLEAN_UP)

#: Phases ``soft`` never comes to: the seed protocol has no claims, no lease, no names to revoke, nothing to resolve.
BEYOND_SOFT = (
    Phase.CLAIM,
    Phase.CLAIM_CHECK,
    Phase.CLAIMS,
    Phase.OWNERS,
    Phase.LEASE,
    Phase.TAKEOVER,
    Phase.FENCE_3,
    Phase.REVOCATION,
    Phase.BARRIER,
    Phase.OWN_REVOCATION,
    Phase.OWN_BARRIER,
    Phase.OWN_HEAD,
    Phase.OWN_FENCE,
    Phase.READ_BACK,
)

#: The lease is held and nothing was published under it yet.
UNDER_LEASE = (Phase.TAKEOVER, Phase.FENCE_3, Phase.REVOCATION, Phase.BARRIER, Phase.INTENT, Phase.HEAD)
