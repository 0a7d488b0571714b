"""How hard Hypothesis tries: ``perago-ci`` for every change, ``perago-nightly`` for a night.

Not plainly ``ci``: Hypothesis has a profile of that name, and yours may be another one still.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

#: What is slow or big in a world is so on purpose.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)

#: Explaining a failure takes longer than finding it, and the replayed run explains it better.
_PHASES = tuple(phase for phase in Phase if phase is not Phase.explain)

CI = settings(
    deadline=None,
    print_blob=True,
    max_examples=100,
    stateful_step_count=60,
    phases=_PHASES,
    suppress_health_check=_SLOW,
)
NIGHTLY = settings(CI, max_examples=5_000, stateful_step_count=200)


def register() -> None:
    """Make the profiles known to Hypothesis."""
    settings.register_profile("perago-ci", CI)
    settings.register_profile("perago-nightly", NIGHTLY)
