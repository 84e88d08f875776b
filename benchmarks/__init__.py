"""What is promised, measured: `invariants` over real agent logs, `core` for speed. See docs/benchmarks.md."""
