"""Everything that waits or remembers: the engine, the store, the dispatchers, settings and token counts."""
