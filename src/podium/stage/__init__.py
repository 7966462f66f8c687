"""Windows and processes: what podium starts, watches and ends."""
