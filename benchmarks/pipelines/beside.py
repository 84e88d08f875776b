"""Libraries that keep sessions or checkpoints, on the same texts and stores."""

from collections.abc import Callable

from sqlalchemy import make_url

from benchmarks import peers
from benchmarks.driving import libpq
from benchmarks.speed import Measured, Scale, events, fresh_url
from benchmarks.workload import chat_messages

LENGTHS = (10, 100, 1_000)
"""Messages in the state that LangGraph writes at every put."""


def beside(store: str, scale: Scale, missing: list[str]) -> Measured:
    """Events (or puts) per second of each peer that can be installed here."""
    found: Measured = {}
    asked: tuple[Callable[[str, Scale], Measured], ...] = (_langgraph, _adk)
    for ask in asked:
        try:
            found |= ask(store, scale)
        except peers.PeerMissing as error:
            missing.append(str(error))
    return found


def _langgraph(store: str, scale: Scale) -> Measured:
    with fresh_url(store) as url:
        place = str(make_url(url).database) if store == "sqlite" else libpq(url)
        order = {"store": store, "url": place, "messages": chat_messages(events(max(LENGTHS))), "lengths": LENGTHS,
                 "puts": scale.compiles * 5}  # fmt: skip
        rates = peers.measure("langgraph", order)["rates"]
    return {f"langgraph_put_{length}": rate for length, rate in rates.items()}


def _adk(store: str, scale: Scale) -> Measured:
    driver = {"sqlite": "sqlite+aiosqlite", "postgres": "postgresql+asyncpg"}[store]
    with fresh_url(store) as url:
        place = make_url(url).set(drivername=driver).render_as_string(hide_password=False)
        said = [str(message["content"]) for message in chat_messages(events(scale.appends // 4))]
        return {"adk_one": float(peers.measure("adk", {"url": place, "texts": said})["rate"])}
