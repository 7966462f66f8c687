"""The command line, run as a file by bin/podium, or as `python -m podium`.

bin/podium runs it in Python's isolated mode: neither PYTHONPATH nor a module in the working
directory can stand in for podium's own. Exit 3 with one line if the interpreter will not do.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def refusal() -> str | None:
    """Why this interpreter cannot run the command line, or None."""
    from importlib.util import find_spec

    if sys.version_info < (3, 10):
        fault = f"is Python {sys.version_info[0]}.{sys.version_info[1]}, 3.10 or newer is wanted"
    elif not find_spec("click"):
        fault = "lacks the packages of requirements.lock"
    else:
        return None
    chosen = os.environ.get("PODIUM_PYTHON")
    remedy = "unset or change PODIUM_PYTHON" if chosen else f"remove {sys.prefix}, run it again"
    return f"{sys.executable} {fault}; {remedy}"


if __name__ == "__main__":
    if fault := refusal():
        print(f"podium: {fault}", file=sys.stderr)
        sys.exit(3)

    from podium.entry.cli import main

    main(prog_name="podium")
