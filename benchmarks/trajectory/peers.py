"""Other libraries as methods, each in a virtual environment of its own, asked by JSON lines.

`install` makes the environments under a folder that ignores itself. A peer that is not there is skipped, and why is in
the report.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.trajectory.methods import Compiled, Run
from benchmarks.trajectory.scoring import WireMessage
from benchmarks.trajectory.sessions import Session, Turn
from workers.tokens import unpack_ranks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"
STARTING, PATIENCE = 600, 120
"""Seconds that a peer may take to start, and one prompt. Large libraries start slowly on a busy machine."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: what to install, with which Python, and the module that drives it."""

    name: str
    package: str
    pinned: str
    module: str
    python: tuple[int, int] = (3, 11)
    carries: bool = False
    low_water: float = 1.0


PEERS = (
    Peer("langchain-trim", "langchain-core", "1.8.3", "langchain_trim"),
    Peer("llama-index", "llama-index-core", "0.14.25", "llama_memory", carries=True, low_water=0.9),
    Peer("langmem", "langmem", "0.0.30", "langmem_summary", carries=True),
    Peer("hello-agents", "hello-agents", "1.0.1", "hello_builder", python=(3, 12)),
    Peer("sumy", "sumy", "0.13.0", "sumy_summary"),
    Peer("openhands", "openhands-sdk", "1.58.2", "openhands_view", python=(3, 12), carries=True, low_water=0.5),
)


def environment(peer: Peer, folder: Path = FOLDER) -> Path:
    """The interpreter of a peer's environment."""
    return folder / peer.name / "bin" / "python"


# --- as methods -------------------------------------------------------------------------------------------------------


class PeerFailed(Exception):
    """What a peer said instead of a prompt."""


class PeerMethod:
    """A peer at work: its process, and a lane in it for each session and budget."""

    def __init__(self, peer: Peer, folder: Path = FOLDER) -> None:
        self.name = peer.name
        self.carries = peer.carries
        self.low_water = peer.low_water
        self._log = (folder / f"{peer.name}.log").open("w")
        self._process = subprocess.Popen(
            [environment(peer, folder), "-m", f"benchmarks.trajectory.peer_side.{peer.module}"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=_variables(folder),
        )  # fmt: skip
        self._lanes = 0
        self.version: str = self._read(STARTING)["version"]

    def begin(self, session: Session, budget: int) -> Run:
        self._lanes += 1
        return _Lane(self, self._lanes, budget)

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        self.tell(question)
        return self._read()

    def tell(self, question: dict[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed(f"{self.name} is gone; see {self._log.name}") from None

    def _read(self, patience: int = PATIENCE) -> dict[str, Any]:
        assert self._process.stdout
        impatience = threading.Timer(patience, self._process.kill)
        impatience.start()
        try:
            line = self._process.stdout.readline()
        finally:
            impatience.cancel()
        if not line:
            raise PeerFailed(f"{self.name} ended or took more than {patience} s; see {self._log.name}")
        found: dict[str, Any] = json.loads(line)
        return found


def _variables(folder: Path) -> dict[str, str]:
    """What a peer needs of our environment: the rank files for tiktoken, a place for what Python compiles once, and no
    key that might let it ask a model."""
    names = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {
        **kept,
        "TIKTOKEN_CACHE_DIR": str(unpack_ranks("o200k_base")),
        "PYTHONPYCACHEPREFIX": str(folder.resolve() / "bytecode"),
    }


@dataclass(slots=True)
class _Lane:
    method: PeerMethod
    number: int
    budget: int
    _told: Sequence[WireMessage] = field(default_factory=tuple)
    _begun: bool = False

    def compile(self, turn: Turn) -> Compiled:
        keep = _same(self._told, turn.messages)
        answer = self.method.ask(
            {
                "lane": self.number, "begin": not self._begun, "budget": self.budget, "base": turn.base, "keep": keep,
                "new": turn.messages[keep:], "instruction": turn.instruction,
            }
        )  # fmt: skip
        self._told, self._begun = turn.messages, True
        if "error" in answer:
            raise PeerFailed(answer["error"])
        messages = [turn.messages[one] if isinstance(one, int) else one for one in answer["messages"]]
        return Compiled(messages, answer["ms"])

    def end(self) -> None:
        self._told = ()
        if self._begun:
            self.method.tell({"lane": self.number, "begin": False, "end": True})


def _same(before: Sequence[WireMessage], after: Sequence[WireMessage]) -> int:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return place
    return min(len(before), len(after))


def started(wanted: Sequence[str], folder: Path = FOLDER) -> tuple[list[PeerMethod], dict[str, str]]:
    """The peers that run, and why each of the others does not."""
    methods: list[PeerMethod] = []
    skipped: dict[str, str] = {}
    for peer in PEERS:
        if wanted and peer.name not in wanted:
            continue
        if not environment(peer, folder).exists():
            least = ".".join(map(str, peer.python))
            skipped[peer.name] = f"not installed (needs Python >= {least}): run with --install-peers"
            continue
        try:
            methods.append(PeerMethod(peer, folder))
        except PeerFailed as error:
            skipped[peer.name] = str(error)
    return methods, skipped


# --- installing -------------------------------------------------------------------------------------------------------


def install(wanted: Sequence[str], folder: Path = FOLDER) -> int:
    """Makes the environments that are not there yet; how many could not be made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    failed = 0
    for peer in PEERS:
        if (wanted and peer.name not in wanted) or environment(peer, folder).exists():
            continue
        problem = _install(peer, folder)
        print(f"{peer.name}: {problem or 'installed'}", file=sys.stderr)
        failed += bool(problem)
    return failed


def _install(peer: Peer, folder: Path) -> str | None:
    python = next(_interpreters(peer.python), None)
    if python is None:
        return f"skipped: no Python >= {'.'.join(map(str, peer.python))} found"
    place = folder / peer.name
    packages = [f"{peer.package}=={peer.pinned}", "tiktoken"]
    uv = _uv()
    if uv:
        steps = [[uv, "venv", "--quiet", "--python", python, str(place)]]
        steps.append([uv, "pip", "install", "--quiet", "--python", str(environment(peer, folder)), *packages])
    else:
        steps = [[python, "-m", "venv", str(place)]]
        steps.append([str(environment(peer, folder)), "-m", "pip", "install", "--quiet", *packages])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)
            return f"failed: {(done.stderr or done.stdout).strip()[-400:]}"
    return None


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _interpreters(least: tuple[int, int]) -> Iterator[str]:
    """Pythons of this machine that are new enough, each tried: a name on the path may lead nowhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [sys.executable, *(f"python3.{minor}" for minor in (12, 13, 11)), "python3"]
    candidates = [found for name in names if (found := shutil.which(name))]
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    for candidate in candidates:
        asked = [candidate, "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            told = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False).stdout.split()
        except (OSError, subprocess.TimeoutExpired):
            continue
        if len(told) == 2 and least <= (int(told[0]), int(told[1])) <= (3, 13):
            yield candidate
