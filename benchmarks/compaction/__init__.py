"""Compactions that other tools recorded in their own logs, beside what promptctx keeps at the same budget.

recorded   where a log says that its tool compacted, the summary it wrote, and what it kept as it was
rules      what a user laid down in words of their own
judging    both contexts by the same measures: tokens, grounding of the turns that followed, rules kept
page       the tables of docs/compactions.md
"""
