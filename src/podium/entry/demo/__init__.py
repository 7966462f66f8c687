"""podium demo: a concert on this machine without a model. Hooks, commands and database are real."""
