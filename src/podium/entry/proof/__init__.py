"""What podium promises, tried out: for `podium selftest`, tests/faults and benchmarks/soak."""
