"""The HTTP side: what comes in is checked here and handed to the engine, what it answers is sent as it is."""
