"""Stop: may this session end? Standard library only; decided in podium.entry.hooks."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "src"))
from podium.entry import hooks

os._exit(hooks.run(hooks.answer_stop))
