"""What others need for the same publication. Runs in an environment of its own, which has them and nothing of ours.

Reads one order a line and answers with the seconds it took: the workspace is fetched, one file in it edited, and the
result published.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EDITED = "d/00000.bin"


def _package(name: str) -> Any:  # noqa: ANN401  not installed where this is checked
    return importlib.import_module(name)


def edit(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def perago(client: Any, order: dict[str, str], work: Path) -> None:  # noqa: ANN401  not installed where this is checked
    """Do what perago 0.6 does around a body: download, stage, publish, clean up."""
    models, runtimes = _package("perago.models"), _package("perago.lakefs_runtime")
    runtime = runtimes.LakeFSWorkspaceRuntime(client=client)
    spec = models.WorkspaceSpec(prefix="/ws")
    wanted = models.WorkspaceInput(repository=order["repository"], branch="main", refType="commit", ref=order["ref"])
    attempt = types.SimpleNamespace(
        workflow_instance_id="wf",
        reference_task_name="t",
        seq=1,
        iteration=0,
        task_id="t1",
        retry_count=0,
        execution_id=uuid.uuid4().hex,
    )
    runtime.download_workspace(wanted, spec, work)
    edit(work / EDITED)
    staged = runtime.stage_workspace(work, wanted, spec, attempt)
    runtime.publish_workspace(staged, wanted, spec, attempt)
    runtime.cleanup_staging(staged)


def transact(client: Any, order: dict[str, str], work: Path) -> None:  # noqa: ANN401  as above
    """Read every object, and upload the edited one in a transaction of the ``lakefs`` package."""
    repository = _package("lakefs").Repository(order["repository"], client=client)
    commit = repository.ref(order["ref"])
    for item in commit.objects(prefix="ws/"):
        target = work / item.path.removeprefix("ws/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with commit.object(item.path).reader(mode="rb") as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
    edit(work / EDITED)
    with repository.branch("main").transact(commit_message="edit") as transaction:
        transaction.object(f"ws/{EDITED}").upload((work / EDITED).read_bytes(), mode="wb")


def transact_abreast(client: Any, order: dict[str, Any], _work: Path) -> None:  # noqa: ANN401  as above
    """Let many writers change a file each in transactions of the ``lakefs`` package; who is refused tries again."""
    branch = _package("lakefs").Repository(order["repository"], client=client).branch("main")
    refused = _package("lakefs.exceptions").LakeFSException

    def write(number: int) -> None:
        for turn in range(order["each"]):
            while True:
                try:
                    with branch.transact(commit_message="edit") as transaction:
                        transaction.object(f"w{number}/file").upload(f"{turn} {uuid.uuid4()}".encode(), mode="wb")
                except refused:
                    continue
                break

    with ThreadPoolExecutor(order["writers"]) as pool:
        for ended in [pool.submit(write, number) for number in range(order["writers"])]:
            ended.result()


def main() -> None:
    lakefs = _package("lakefs")
    ways = {"perago": perago, "transact": transact, "transact_abreast": transact_abreast}
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        client = lakefs.Client(host=order["url"], username=order["access_key"], password=order["secret_key"])
        work = Path(tempfile.mkdtemp())
        try:
            begun = time.perf_counter()
            ways[order["way"]](client, order, work)
            print(time.perf_counter() - begun, flush=True)
        finally:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
