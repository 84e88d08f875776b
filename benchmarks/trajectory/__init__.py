"""Replaying agent logs under a tight budget: how much of what the agent's next step used was still in its prompt.

sessions   logs as turns, folded one event at a time
methods    promptctx and its peers, each a way from a history and a budget to a list of messages
scoring    what a call needed, whether it stands in a prompt with what it meant, and which rules a prompt breaks
measuring  every method at every turn, added up per cell
"""
