"""The program of the README is run on the files that it brings."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from perago_worker import dataset
from tests.docs.documents import blocks

pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "adapters" / "examples" / "daily_orders"


def perago(project: Path, *words: str) -> str:
    """Run a command as a user does, in the project's folder; return what it prints."""
    path = os.pathsep.join(str(ROOT / each) for each in ("adapters", "simulation"))
    ran = subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_program_of_the_readme_takes_its_files_in_and_others_read_them(tmp_path: Path) -> None:
    """One run: two days, each a publication of its own, and what each customer has spent."""
    (shown,) = [block for block in blocks("README.md", "python") if "SparkDatasets" in block]
    assert shown.strip() == (EXAMPLE / "daily.py").read_text("utf-8").strip()
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    ran = json.loads(perago(project, "run", "daily", "--param", f"inbox={project / 'inbox'}", "--json"))
    assert ran["status"] == "COMPLETED"
    explained = perago(project, "explain", next(step for step in ran["output"] if step.startswith("take-in")))
    assert "orders: unique(id) passed" in explained
    brought = [row for each in sorted((project / "inbox").iterdir()) for row in csv.DictReader(each.open("r"))]
    orders = dataset("lake/main/sales/orders", project=project).arrow().to_pylist()
    assert sorted((str(each["id"]), str(each["amount"])) for each in orders) == sorted(
        (row["id"], row["amount"]) for row in brought
    )
    spent: dict[str, Decimal] = {}
    for row in brought:
        spent[row["customer"]] = spent.get(row["customer"], Decimal()) + Decimal(row["amount"])
    customers = dataset("lake/main/sales/customers", project=project).arrow().to_pylist()
    assert {str(each["customer"]): each["spent"] for each in customers} == spent
