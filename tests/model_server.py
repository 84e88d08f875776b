"""The scripted model of the examples, for tests: one implementation."""

from scripted_model import ModelServer, Said, model_server

__all__ = ["ModelServer", "Said", "model_server"]
