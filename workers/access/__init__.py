"""Who may do what: API keys, their scopes and limits, and an account of what administrators did."""

from workers.access.callers import Access, Caller, refuse_open_door
from workers.access.keys import create, in_words, listing, revoke
from workers.access.scopes import SCOPES, Scope

__all__ = ["SCOPES", "Access", "Caller", "Scope", "create", "in_words", "listing", "refuse_open_door", "revoke"]
