"""How much of the evidence for a question a compiled prompt holds: loaders, measuring, baselines."""
