"""Python source as a reader of documentation sees it: classes, signatures as they were written, docstrings.

Read from the syntax tree: what `inspect` prints differs from one Python to the next.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A method, or a value if it has no signature."""

    name: str
    about: str
    signature: str | None = None


def methods(kind: type) -> Iterator[Member]:
    """The public methods and properties of a class and of what it is made from, its own first."""
    seen: set[str] = set()
    for base in kind.__mro__:
        for node in _body(base):
            if isinstance(node, Function) and not node.name.startswith("_") and node.name not in seen:
                seen.add(node.name)
                plain = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
                yield Member(node.name, _told(node), None if plain else _signature(node))


def values(kind: type) -> Iterator[Member]:
    """The public fields of a data class or typed dict, in order, each with its type and default."""
    for base in reversed(kind.__mro__):
        for node in _body(base):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
                default = f" = {ast.unparse(node.value)}" if node.value else ""
                default = re.sub(r"field\(default_factory=(\w+)\)", r"\1()", default)
                yield Member(f"{node.target.id}: {_type(node.annotation)}{default}", "")


def made_by(kind: type) -> str:
    """How an object of a class is made."""
    classes = [_classes(base.__module__)[base.__name__] for base in kind.__mro__ if _body(base)]
    return next(_made(node) for node in classes if node.name == kind.__name__)


def module(name: str) -> tuple[str, list[Member]]:
    """What a module says of itself, and the functions and classes that it names there. It is not imported."""
    tree = _tree(name)
    told = inspect.cleandoc(ast.get_docstring(tree) or "")
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = [node for node in tree.body if isinstance(node, kinds) and re.search(rf"\b{node.name}\b", told)]
    return told, [Member(node.name, _told(node), _made(node)) for node in nodes]


def aliases(modules: Iterable[str]) -> Iterator[str]:
    """The public names of types that modules define, each with what it stands for."""
    for module in modules:
        for node in _tree(module).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias" and node.value:
                yield f"{ast.unparse(node.target)} = {ast.unparse(node.value)}"


def words_in(kind: type, name: str) -> set[str]:
    """The texts that stand in a method's code."""
    nodes = [node for base in kind.__mro__ for node in _body(base) if isinstance(node, Function) and node.name == name]
    told = [node for one in nodes[:1] for node in ast.walk(one) if isinstance(node, ast.Constant)]
    return {node.value for node in told if isinstance(node.value, str)}


def about(thing: object) -> str:
    """A docstring as paragraphs of Markdown; what is indented stays as it is."""
    return inspect.cleandoc(thing.__doc__ or "")


def wrapped(name: str, parameters: list[str], returns: str = "") -> str:
    """A signature in lines that a page has room for; no parameter is torn apart."""
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    kept = ", ".join(one.replace(" ", "\0") for one in parameters)
    rows = textwrap.wrap(kept, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    body = "\n    ".join(rows).replace("\0", " ")
    return f"{name}(\n    {body},\n){returns}"


def _made(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The signature of a function, or of what makes an object of a class."""
    if isinstance(node, ast.FunctionDef):
        return _signature(node)
    made = next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)
    return wrapped(node.name, _parameters(made.args) if made else [])


def _signature(node: Function) -> str:
    returns = f" -> {_type(node.returns)}" if node.returns else ""
    return wrapped(node.name, _parameters(node.args), returns)


def _parameters(told: ast.arguments) -> list[str]:
    """As written, without `self`."""
    named = [*told.posonlyargs, *told.args]
    defaults = [None] * (len(named) - len(told.defaults)) + list(told.defaults)
    found = [_parameter(*one) for one in zip(named, defaults, strict=True) if one[0].arg != "self"]
    if told.vararg or told.kwonlyargs:
        found.append(f"*{told.vararg.arg}" if told.vararg else "*")
    found += [_parameter(*one) for one in zip(told.kwonlyargs, told.kw_defaults, strict=True)]
    return found + ([f"**{told.kwarg.arg}: {_type(told.kwarg.annotation)}"] if told.kwarg else [])


def _parameter(told: ast.arg, default: ast.expr | None) -> str:
    return f"{told.arg}: {_type(told.annotation)}" + (f" = {ast.unparse(default)}" if default else "")


def _type(node: ast.expr | None) -> str:
    """A type as written. `R`, what verbs return, is a receipt; options are named, not unpacked."""
    if node is None:
        return "Any"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Unpack":
        return ast.unparse(node.slice)
    return {"R": "Receipt"}.get(found := ast.unparse(node), found).replace("_messages.", "").replace("errors.", "")


def _told(node: Function | ast.ClassDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _body(kind: type) -> list[ast.stmt]:
    found = _classes(kind.__module__).get(kind.__name__) if kind.__module__.startswith("promptctx") else None
    return found.body if found else []


def _classes(module: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _tree(module).body if isinstance(node, ast.ClassDef)}


@cache
def _tree(module: str) -> ast.Module:
    found = find_spec(module)
    assert found is not None, module
    return ast.parse(Path(str(found.origin)).read_text(encoding="utf-8"))
