"""PermissionRequest, Notification: does it ask a person? Decided in podium.entry.notice."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "src"))
from podium.entry import hooks, notice

os._exit(hooks.run(notice.answer_notification))
