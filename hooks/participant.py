"""The events that only participants' sessions pay for; answered in podium.entry.signals."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "src"))
from podium.entry import hooks, signals

os._exit(hooks.run(getattr(signals, "answer_" + sys.argv[1])))
