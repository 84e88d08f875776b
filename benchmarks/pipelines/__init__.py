"""The pipeline with real processes: servers and workers, what drives them, and what is measured of them."""
