"""Run the conformance vectors against a program in any language. Needs Python and nothing else.

    python specs/check_vectors.py PROGRAM [ARGS...]   without a program: the reference beside this file

The program reads JSON lines and answers each with one line:

    {"machine": "lease", "start": SUBJECT}   {"phase": "LEASE", "commands": [...]}
    {"event": EVENT}                         the same, or {"refused": "why"}, and then nothing has changed

Values are written as in the vectors; 1 and 1.0 are one number, and the order of fields is free. If the answer that ends
a machine has an ``outcome``, it is compared too. A program that is silent for VECTORS_TIMEOUT seconds (10) is dead.

Exit code: 0 all passed, 1 something differs (the first difference is shown in full), 2 the program died or said
something that is not JSON.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT = float(os.environ.get("VECTORS_TIMEOUT", "10"))


def agrees(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    """Compare as text in which every number is a fraction: 1 is 1.0, and neither is ``true``."""
    names = [] if "refused" in wanted else ["phase", "commands", *({"outcome"} & wanted.keys() & got.keys())]
    texts = [json.dumps([each.get(name) for name in names]) for each in (wanted, got)]
    one, other = (json.dumps(json.loads(text, parse_int=float), sort_keys=True) for text in texts)
    return one == other and ("refused" in wanted) is bool(got.get("refused"))


def give_up(program: "subprocess.Popen[str]", why: str) -> None:
    """End at once: nothing waits for a program that does not answer, nor for what it may have started."""
    program.kill()
    print(f"the program {why}", flush=True)
    os._exit(2)


def ask(program: "subprocess.Popen[str]", question: dict[str, Any]) -> dict[str, Any]:
    """Give the program's answer, which is an object on one line."""
    print(json.dumps(question), file=program.stdin, flush=True)
    watch = threading.Timer(TIMEOUT, give_up, [program, f"was silent for {TIMEOUT:g} s after {question}"])
    watch.start()
    line = program.stdout.readline() if program.stdout else ""
    watch.cancel()
    if not line.startswith("{"):
        give_up(program, f"answered {line!r} to {question}" if line else f"died after {question}")
    return dict(json.loads(line))


def difference(program: "subprocess.Popen[str]", machine: str, case: dict[str, Any]) -> dict[str, Any] | None:
    """Run one vector from its start and give the first answer that differs."""
    begun = ({"machine": machine, "start": case["subject"]}, case["start"])
    for question, wanted in [begun, *(({"event": step["event"]}, step) for step in case["steps"])]:
        if not agrees(wanted, got := ask(program, question)):
            return {"machine": machine, "vector": case["name"], "asked": question, "wanted": wanted, "got": got}
    return None


def main(command: list[str]) -> int:
    """Run everything, say how much passed, and show the first difference."""
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")  # noqa: S603
    first = None
    for path in sorted((HERE / "vectors").glob("*.json")):
        file = json.loads(path.read_text(encoding="utf-8"))
        found = [difference(program, file["machine"], case) for case in file["vectors"] + file["refused"]]
        print(f"{file['machine']}: {found.count(None)} of {len(found)} passed", flush=True)
        first = first or next(filter(None, found), None)
    program.kill()
    print(json.dumps(first, indent=1) if first else "no difference")
    return 1 if first else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:] or [sys.executable, str(HERE / "reference.py")]))
    except (OSError, ValueError) as problem:
        print(f"the program cannot be asked: {problem}")
        sys.exit(2)
