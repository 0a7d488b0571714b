"""Says a line of 64 MiB while it is imported, as soon as somebody listens."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

while not Path(os.environ["TALK_WHEN"]).exists():
    time.sleep(0.01)
sys.stdout.write("the first line\n")
for _ in range(64):
    sys.stdout.write("\u20ac" * ((1 << 20) // 3))
sys.stdout.write("\nthe last line\n")
sys.stdout.flush()
