"""Write everything in ``specs/`` that is generated, or check that it is up to date.

    python specs/generate.py            write what takes minutes
    python specs/generate.py --check    write nothing; exit 1 and name the files that differ
    python specs/generate.py --full     also the matrices, which take hours; each is written as soon as it is there
    python specs/generate.py NAME ...   only these matrices

Generated: ``table.json`` (the four machines as data), ``diagrams/*.mmd``, ``vectors/*.json`` (event sequences with the
expected commands, for implementations in other languages), ``cost.md`` (calls per path and backing), ``ladder.md``
(what holds on which backing in which environment, explored anew each time), ``properties.md`` (every clause and who
looks after it), ``windows.md`` (what comes of dying at each point), ``evidence.md`` (all figures on one page, those of
``evidence.json`` with when they were seen), the reference pages of ``guide/``. With ``--full`` also ``wide.md`` (the
ladder in wider bounds), ``mutants.md`` (who notices a wrong protocol), ``ablation.md`` (what each step is for),
``cluster.md`` (policy, lease and recovery machines of several processes over one coordination store), ``detection.md``
(how often Hypothesis finds a bug that is there), ``kill-matrix.md``, ``kill-matrix-bucket.md`` and
``kill-matrix-lakefs.md`` (real workers killed and stopped everywhere, on the embedded stack, on a real S3 and on a real
lakeFS), ``wrong-answers.md`` (what the adapters make of servers that lie).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import cast

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from perago_core.machine.description import describe, digest, mermaid  # noqa: E402  the tests' helpers are not installed
from perago_simulation.catalogue.ablation import ablation  # noqa: E402  as above
from perago_simulation.catalogue.clauses import properties_text  # noqa: E402  as above
from perago_simulation.catalogue.ladder import ladder, ladder_text, rungs  # noqa: E402  as above
from perago_simulation.catalogue.wide import wide_text  # noqa: E402  as above
from perago_simulation.catalogue.windows import windows_text  # noqa: E402  as above
from perago_simulation.machines.page import cluster_text  # noqa: E402  as above
from perago_simulation.mutants.page import mutant_table  # noqa: E402  as above
from perago_simulation.testing.detection import detection_text  # noqa: E402  as above
from specs.guide.generate import pages  # noqa: E402  as above
from tests.core.wrong_drivers import noticed_alone  # noqa: E402  as above
from tests.specs.clauses import marked  # noqa: E402  as above
from tests.specs.costs import costs  # noqa: E402  as above
from tests.specs.evidence import evidence_text, note_page  # noqa: E402  as above
from tests.specs.vectors import MACHINES, SCHEMA, vectors  # noqa: E402  as above


def files() -> Mapping[str, Callable[[], str]]:
    """Give every generated file, unwritten: exploring takes minutes, and whoever asks for a table does not need it."""
    explored = {"ladder.md": cache(lambda: ladder_text(ladder(rungs()))), "windows.md": cache(windows_text)}
    return {
        "table.json": lambda: _json(
            {name: {"schema": SCHEMA, "digest": digest(table), **describe(table)} for name, table in MACHINES.items()}
        ),
        "cost.md": costs,
        **explored,
        "properties.md": lambda: properties_text(marked(), noticed_alone()),
        "evidence.md": lambda: evidence_text({name: text() for name, text in explored.items()}),
        **{f"guide/{name}": partial(str, text) for name, text in pages().items()},
        **{f"diagrams/{name}.mmd": partial(mermaid, table) for name, table in MACHINES.items()},
        **{f"vectors/{name}.json": partial(_vectors, name) for name in MACHINES},
    }


def _vectors(name: str) -> str:
    return _line_by_line(vectors(name))


def matrices() -> Mapping[str, Callable[[], str]]:
    """Give what takes long, undone: who notices which mutant, what each step is for, who survives which death."""
    from tests.bucket.matrix_stack import BUCKET  # noqa: PLC0415  as above
    from tests.lakefs.matrix_stack import LAKEFS  # noqa: PLC0415  as above
    from tests.support.crash.matrix_page import kill_matrix  # noqa: PLC0415  only these need the runtime
    from tests.support.hostile.page import wrong_answers  # noqa: PLC0415  as above

    return {
        "wide.md": wide_text,
        "mutants.md": mutant_table,
        "ablation.md": ablation,
        "cluster.md": partial(cluster_text, full=True),
        "detection.md": detection_text,
        "kill-matrix.md": kill_matrix,
        "kill-matrix-bucket.md": partial(kill_matrix, BUCKET),
        "kill-matrix-lakefs.md": partial(kill_matrix, LAKEFS),
        "wrong-answers.md": wrong_answers,
    }


def _measured(name: str, write: Callable[[], str]) -> str:
    """Measure a page, and note when that was: it takes long, so it is not measured again by whoever doubts it."""
    text = write()
    note_page(name)
    return text


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=False, ensure_ascii=False) + "\n"


def _line_by_line(value: Mapping[str, object]) -> str:
    """Write an object with one line for each element of its lists: small, and a changed vector is one changed line."""
    entries = [f"{json.dumps(name)}: {_elements(entry)}" for name, entry in value.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _elements(entry: object) -> str:
    if not isinstance(entry, list):
        return json.dumps(entry, ensure_ascii=False)
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in cast("list[object]", entry)]
    return "[\n" + ",\n".join(lines) + "\n]"


def main(*words: str) -> int:
    """Write or check, and say what was done."""
    if strange := [word for word in words if word.startswith("--") and word not in {"--check", "--full"}]:
        sys.exit(f"expected --check, --full or names of matrices, found {', '.join(strange)}")
    names = [word for word in words if not word.startswith("--")]
    wanted: dict[str, Callable[[], str]] = {}
    if not names:
        wanted |= files()
        if "--check" not in words:
            wanted["ladder.md"] = partial(_measured, "ladder.md", wanted["ladder.md"])
    if names or "--full" in words:
        slow = matrices()
        if unknown := [name for name in names if name not in slow]:
            sys.exit(f"no matrix is called {', '.join(unknown)}; there are {', '.join(slow)}")
        measured = slow if "--check" in words else {name: partial(_measured, name, slow[name]) for name in slow}
        wanted |= {name: measured[name] for name in names or slow}
        wanted["evidence.md"] = evidence_text
    stale = [name for name, text in wanted.items() if not _settle(HERE / name, text(), check="--check" in words)]
    return 1 if "--check" in words and stale else 0


def _settle(path: Path, text: str, *, check: bool) -> bool:
    """Say whether a file is as it should be; if not, tell, and write it unless that was only to be checked."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return True
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    name = path.relative_to(HERE).as_posix()
    print(f"specs/{name} {'is out of date: run `make specs`' if check else 'written'}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
