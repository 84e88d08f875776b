"""Adapters: promptctx inside what agents are run with. One file each; each needs the package it is named after, and no
other does.

    pip install promptctx openai        # or anthropic, openai-agents, langgraph, langchain-core, pydantic-ai, litellm
"""
