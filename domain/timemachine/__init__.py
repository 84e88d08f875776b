"""The time machine: what two prompts differ in, where each line came from, and why something is not there."""
