"""What a type checker must refuse, line by line. Never run: a test compares the lines marked with those reported."""

from promptctx import AsyncClient, AsyncSession, Client, Job, Outbox, Prompt, Session


def of_client(client: Client) -> None:
    client.session()  # wrong
    client.session("s", mode=3)  # wrong
    client.session("s", locale="fr")  # wrong
    client.session("s", subjekt="u")  # wrong
    client.sessions(limit="ten")  # wrong
    client.prompt("p", "openapi")  # wrong
    client.flagged("ugly")  # wrong
    client.restore("text")  # wrong
    client.memories("u", scope="session")  # wrong
    client.memories()  # wrong
    Client(8765)  # wrong
    Client(transport=client)  # wrong


def of_session(s: Session) -> None:
    s.compile(8000)  # wrong
    s.compile(budget="8000")  # wrong
    s.compile(format="gemini")  # wrong
    s.compile(budgets=8000)  # wrong
    s.events(stream="all")  # wrong
    s.rollback(3)  # wrong
    s.rollback(to_version="v3")  # wrong
    s.rollback(to_version=3, scope="all")  # wrong
    s.fork(3)  # wrong
    s.document(b"bytes")  # wrong
    s.seq = 3  # wrong
    s.nothing()  # wrong


def of_verbs(s: Session) -> None:
    s.user(5)  # wrong
    s.user("hello", directive="yes")  # wrong
    s.user("hello", event=3)  # wrong
    s.user("hello", expected_seq="3")  # wrong
    s.constraint("id")  # wrong
    s.constraint("id", "text", level="hard")  # wrong
    s.instructions("You help travellers.")  # wrong
    s.instructions(rules=5)  # wrong
    s.tool("f", parameters=["a"])  # wrong
    s.tool_result("c", status="fine")  # wrong
    s.environment(["cwd"])  # wrong
    s.plan("t", [5])  # wrong
    s.pin(5)  # wrong
    s.remember("fact", importance="high")  # wrong
    s.remember("fact", scope="world")  # wrong
    s.summary("text")  # wrong
    s.flag(verdict="ugly")  # wrong
    s.label()  # wrong
    s.unset_profile(s.user("hello"))  # wrong
    with s.batch() as batch:
        batch.user("hello").seq  # wrong  # noqa: B018


def of_prompt(job: Job, prompt: Prompt) -> None:
    job.result("ten seconds")  # wrong
    job.prompt()  # wrong
    prompt.derive("gemini")  # wrong
    prompt.anthropic(max_tokens="many")  # wrong
    prompt.why()  # wrong
    prompt.tokens = 5  # wrong


def of_outbox(client: Client, other: AsyncClient) -> None:
    Outbox(other)  # wrong
    with Outbox(client) as outbox:
        outbox.session("s").compile(budget=8000)  # wrong
        outbox.session("s").user("hello").seq  # wrong  # noqa: B018


async def of_async(client: AsyncClient, s: AsyncSession) -> None:
    await client.session("s")  # wrong
    s.user("hello").seq  # wrong  # noqa: B018
    await s.compile(8000)  # wrong
    for _ in s.events():  # wrong
        pass
    with s.batch():  # wrong
        pass
    await s.user(5)  # wrong
