"""The rules of the orchestra as pure data: no I/O, no clock, no environment, stdlib only."""
