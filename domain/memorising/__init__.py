"""Memorising: what is worth remembering, what becomes of it beside what is held, and what is let go."""
