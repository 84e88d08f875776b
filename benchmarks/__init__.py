"""What is promised, measured: `invariants` over real agent logs, `core` for speed. See docs/benchmarks.md."""

from workers import telemetry

# What the engine tells as it works would stand on stdout, amid the JSON of a report.
telemetry.configure("WARNING")
