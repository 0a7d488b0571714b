"""Campaigns: very many random schedules with crashes in every window, made by processes or by Spark, kept as a table.

folder = Folder(Path("out"))
summary = carry_out(Campaign(setting=setting(Backing.ATOMIC, crashes=1)), folder, 1_000_000, Processes())
"""

from __future__ import annotations

from collections.abc import Callable

from perago_simulation.campaign.engines import Engine, EngineError, Processes
from perago_simulation.campaign.folder import CampaignError, Folder
from perago_simulation.campaign.outcomes import make
from perago_simulation.campaign.plan import SCHEDULERS, Campaign
from perago_simulation.campaign.summary import BrokenProperty, Summary, summarise

#: Schedules of one piece: about a second of work, so that handing it out costs little and a stop loses little.
PIECE = 25_000


def carry_out(
    campaign: Campaign,
    folder: Folder,
    schedules: int,
    engine: Engine,
    *,
    resume: bool = False,
    piece: int = PIECE,
    progress: Callable[[int], object] = lambda _made: None,
) -> Summary:
    """Make what is missing of the first so many schedules, keep each piece as it comes, and say what it came to."""
    folder.open(campaign, resume=resume)
    work = [(campaign, each) for each in folder.missing(schedules, piece)]
    made = schedules - sum(stop - start for _, (start, stop) in work)
    progress(made)
    if work:
        for each in engine(make, work):
            folder.store(each)
            made += each.stop - each.start
            progress(made)
    return summarise(folder, schedules)


__all__ = [
    "PIECE",
    "SCHEDULERS",
    "BrokenProperty",
    "Campaign",
    "CampaignError",
    "Engine",
    "EngineError",
    "Folder",
    "Processes",
    "Summary",
    "carry_out",
]
