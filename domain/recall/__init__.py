"""Recall: which older material answers a query. Terms of a text, passages of a long one, an index, a ranking."""
