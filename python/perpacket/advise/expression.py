"""The expressions of the catalogue: numbers, text, comparisons, `and`, `or`, `not`, arithmetic.

An expression has Python's syntax. Names are facts. Functions are those that `facts.py` defines, and
`min` and `max`. Attributes, indexing and keywords are errors.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache

from perpacket.errors import ConfigurationError

Value = bool | int | float | str
"""A fact, or the result of an expression."""

Function = Callable[..., Value]

ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

COMPARISONS: dict[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

BUILT_IN: dict[str, Function] = {"min": min, "max": max}


class NotReadable(Exception):
    """A fact that this machine or this profile does not show; the text is the reason."""

    @property
    def source(self) -> str:
        """The command or file that shows the fact, which the reason has between backquotes."""
        matched = re.search(r"`([^`]+)`", str(self))
        return matched[1] if matched else ""


def ratio(numerator: float, denominator: float, what: str) -> float:
    """A ratio of counts; raises `NotReadable` if there were none of `what`."""
    if denominator <= 0:
        raise NotReadable(f"there were no {what}")
    return numerator / denominator


def evaluate(text: str, facts: Mapping[str, Value], functions: Mapping[str, Function]) -> Value:
    """The value of an expression.

    Raises `NotReadable` for a fact that cannot be read, and `ConfigurationError` for syntax that
    the language does not have.
    """
    return _value(parse(text), facts, {**functions, **BUILT_IN})


def number(text: str, facts: Mapping[str, Value], functions: Mapping[str, Function]) -> float:
    """The value of an expression that is a number."""
    return _number(evaluate(text, facts, functions))


@cache
def parse(text: str) -> ast.expr:
    """The tree of an expression; raises `ConfigurationError` with the place of an error."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ConfigurationError(f"expression {text}: {error.msg} at {error.offset}") from None


def names(text: str) -> set[str]:
    """The names of facts and functions that an expression uses."""
    return {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}


def _value(node: ast.expr, facts: Mapping[str, Value], functions: Mapping[str, Function]) -> Value:
    def value(inner: ast.expr) -> Value:
        return _value(inner, facts, functions)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.Name(id=name) if name in facts:
            return facts[name]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
            return functions[name](*map(value, arguments))
        case ast.BoolOp() | ast.UnaryOp() | ast.BinOp() | ast.Compare():
            return _operation(node, value)
    raise _not_in_the_language(node)


def _operation(node: ast.expr, value: Callable[[ast.expr], Value]) -> Value:
    match node:
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(value(part) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not value(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            try:
                return ARITHMETIC[type(op)](_number(value(left)), _number(value(right)))
            except ZeroDivisionError:
                raise NotReadable(f"{ast.unparse(right)} is zero") from None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            return COMPARISONS[type(op)](value(left), value(right))
    raise _not_in_the_language(node)


def _not_in_the_language(node: ast.expr) -> ConfigurationError:
    return ConfigurationError(
        f"expression: {ast.unparse(node)} is no fact and not in the language",
        hint="an expression has numbers, text, facts, comparisons, and, or, not, + - * /",
    )


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise NotReadable(f"{value or 'nothing'} is no number")
    return float(value)
