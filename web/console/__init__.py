"""The console: pages for people, made from the same calls of the engine as the API answers from."""
