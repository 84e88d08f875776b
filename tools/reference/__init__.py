"""docs/reference.md, from the code: the Python client, the events, the settings.

`python -m tools.reference > docs/reference.md` writes the file that a test compares with it.
"""

from tools.reference.client import client
from tools.reference.schemas import events, settings

HEAD = """\
# Reference

Made from the code by `python -m tools.reference`; a test compares. Elsewhere: [the client explained](client.md),
[every command](cli.md) with its help, [the HTTP API](api.md) with [its OpenAPI document](openapi.json),
[the words](glossary.md).

- [Python client](#python-client): [Client](#client), [Session](#session), [verbs](#verbs), [Batch](#batch),
  [Job](#job), [Prompt](#prompt), [Outbox](#outbox), [values](#values), [errors](#errors), [FakeServer](#fakeserver),
  [importers](#importers), [exporters](#exporters), [adapters](#adapters)
- [Events](#events): every kind with its payload
- [Settings](#settings): every variable of the server
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *client(), *events(), *settings()])
