"""Imports point one way. The imports of every module are compared with the table `LAYERS`.

    front -> plan.logical;  runtime -> plan -> operators -> tables, parquet, functions, columns -> expr -> kernels

So the same operators run on a driver thread and in an executor's worker, a kernel can be read without knowing Arrow,
and a matcher without knowing how a query runs. If a folder needs one above it, the shared part moves down or is passed
in; the table changes only with that discussion.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sundog

SOURCE = Path(sundog.__file__).parent

# Importable by every folder but kernels; they import each other and no folder.
BASE = {"errors", "support", "tree", "types", "metrics", "config", "machine"}


@dataclass(frozen=True)
class Layer:
    """What a folder may import besides itself and BASE: parts of sundog, and packages of others."""

    sundog: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()


def layer(*parts: str, packages: str) -> Layer:
    return Layer(frozenset(parts), frozenset(packages.split()))


# A folder inside a folder is a layer of its own. `parquet` stands for all of parquet/, `parquet.*` for its loose
# modules.
LAYERS = {
    "kernels": layer(packages="numpy numba llvmlite"),
    "expr": layer("kernels", packages="numpy pyarrow"),
    "columns": layer("kernels", "expr", packages="numpy pyarrow"),
    "functions": layer("columns", "expr", "kernels", packages="numpy pyarrow"),
    "parquet": layer(packages="numpy pyarrow"),
    "parquet.meta": layer("parquet.*", "expr", "kernels", packages="numpy pyarrow"),
    "tables": layer("parquet.*", "parquet.meta", packages="numpy pyarrow"),
    "parquet.prune": layer("parquet.*", "parquet.meta", "tables", "expr", packages="numpy pyarrow"),
    "parquet.decode": layer("parquet.*", "parquet.meta", "expr", "kernels", packages="numpy pyarrow"),
    "operators": layer("columns", "expr", packages="numpy pyarrow"),
    "operators.scan": layer("operators.*", "parquet", "columns", "expr", packages="numpy pyarrow"),
    "operators.topk": layer("operators.*", "operators.scan", "parquet", "columns", "expr", packages="numpy pyarrow"),
    "operators.join": layer("operators.*", "columns", "expr", "kernels", packages="numpy pyarrow"),
    "operators.aggregate.keys": layer("operators.*", "columns", "kernels", packages="numpy pyarrow"),
    "operators.aggregate.grouping": layer(
        "operators.*", "functions", "columns", "expr", "kernels", packages="numpy pyarrow"
    ),
    "operators.aggregate": layer(  # the final phase keeps the best groups of an ORDER BY ... LIMIT above it
        "operators.*",
        "operators.topk",
        "operators.aggregate.keys",
        "operators.aggregate.grouping",
        "functions",
        "columns",
        "expr",
        packages="numpy pyarrow",
    ),
    "operators.window.frames": layer("functions", "columns", "expr", "kernels", packages="numpy pyarrow"),
    "operators.window.ranges": layer(
        "operators.*",
        "operators.scan",
        "operators.window.frames",
        "parquet",
        "functions",
        "expr",
        "kernels",
        packages="numpy pyarrow",
    ),
    "operators.window": layer(
        "operators.*",
        "operators.window.frames",
        "operators.window.ranges",
        "functions",
        "columns",
        "expr",
        "kernels",
        packages="numpy pyarrow",
    ),
    "plan": layer(
        "operators",
        "parquet",
        "tables",
        "columns.narrow",  # the costs of blocks
        "expr",
        packages="numpy pyarrow",
    ),
    "plan.rules": layer("plan.*", "expr", packages="pyarrow"),
    "plan.lower": layer("plan.*", "operators", "parquet", "functions", "columns", "expr", packages="numpy pyarrow"),
    "versions": layer(packages="numpy pyarrow"),
    "front": layer(
        "plan.logical",
        "parquet.reading",
        "tables",
        "parquet.file_statuses",  # sizes and times of now, as `stat` tells them of local files
        "parquet.paths",
        "parquet.store_settings",
        "functions",
        "expr",
        "versions",
        packages="numpy pyarrow",
    ),
    "runtime": layer(  # no logical plan: what follows from the query, the stages say
        "plan.outputs",
        "plan.stages",
        "plan.records",
        "plan.sites",
        "plan.costs",
        "plan.lower.planner",
        "operators",
        "parquet.problems",
        "columns.narrow",
        "expr",
        "versions",
        packages="numpy pyarrow",
    ),
    "simulate": layer("plan", "operators", "parquet", "tables", "functions", "expr", packages="numpy pyarrow"),
    "report": layer(
        "front.expressions",
        "front.session.conf_table",
        "functions",
        "plan",
        "operators",
        "parquet",
        "expr",
        "versions.tested",
        packages="numpy pyarrow jinja2 markupsafe",
    ),
}
BASE_PACKAGES = {"numpy", "pyarrow"}

# The only modules of a layer that may speak to Spark. The modules above all layers (query, cli, ...) may as well.
SPARK_MODULES = {
    "front.jvm.large_text",
    "front.spark_errors",
    "front.splice",
    "front.write_command",
    "runtime.blocks",
    "runtime.frames",
    "runtime.processes.profiles",
    "runtime.processes.stage",
    "runtime.sessions",
    "runtime.spark",
    "versions",
    "versions.spark_3_5",
    "versions.spark_4_0",
    "versions.spark_4_1",
    "versions.spark_4_2",
    "versions.spark_4_3",
}
SPARK_PACKAGES = {"pyspark", "py4j"}


@dataclass(frozen=True)
class Import:
    name: str
    line: int
    inside_function: bool


def imports(source: str) -> Iterator[Import]:
    """Every import that is ever executed, wherever it stands. `from a import b` is `a.b`, since b may be a module."""

    def visit(node: ast.AST, inside: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue  # names for annotations only
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child.lineno, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"line {child.lineno}: imports are absolute in sundog"
                yield from (Import(f"{child.module}.{alias.name}", child.lineno, inside) for alias in child.names)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, inside or function)

    return visit(ast.parse(source), False)


def layer_of(name: str) -> str | None:
    """The innermost layer that a module, or something in it, belongs to."""
    found = [key for key in LAYERS if name == key or name.startswith(f"{key}.")]
    return max(found, key=len, default=None)


def is_part_of(name: str, parts: frozenset[str] | set[str]) -> bool:
    return any(
        layer_of(name) == part[:-2] if part.endswith(".*") else name == part or name.startswith(f"{part}.")
        for part in parts
    )


def violations(module: str, source: str) -> list[str]:
    """Imports of a module (`operators.filter`, `config`) that the table does not allow."""
    own = layer_of(module)
    if own is None and module not in BASE:
        return []  # above all layers
    name, allowed = own or module, LAYERS[own] if own else Layer(packages=frozenset(BASE_PACKAGES))
    parts = allowed.sundog | {f"{name}.*"} | (set() if name == "kernels" else BASE)
    found = []
    for each in imports(source):
        package, _, rest = each.name.partition(".")
        where = f"{module}:{each.line}: {each.name}"
        if package == "sundog":
            if not is_part_of(rest, parts):
                found.append(f"{where} is not below {name}")
            elif each.inside_function:
                found.append(f"{where} is imported inside a function")
        elif package in SPARK_PACKAGES:
            if module not in SPARK_MODULES:
                found.append(f"{where}: only {sorted(SPARK_MODULES)} speak to Spark")
        elif package not in sys.stdlib_module_names and package not in allowed.packages:
            found.append(f"{where} is a package that {name} does not know")
    return found


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = (
            ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__").removesuffix("__init__")
        )
        if name:
            yield name, path


def test_imports_follow_the_layers() -> None:
    found = [problem for name, path in modules() for problem in violations(name, path.read_text())]
    assert not found, "\n".join(found)


def test_our_decoder_has_one_door() -> None:
    """Whoever decodes pages asks `OwnDecoder`, which has the switch."""
    inside = {
        f"parquet.decode.{name}" for name in ("own_decoder", "chunk_pages", "number_pages", "text_pages", "pages")
    }
    found = [
        f"{name}: {each.name}"
        for name, path in modules()
        if name not in inside
        for each in imports(path.read_text())
        if is_part_of(each.name.removeprefix("sundog."), inside - {"parquet.decode.own_decoder"})
    ]
    assert found == []


def test_every_folder_has_a_layer_or_stands_above_all() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {"actions", "benchmarks", "commands", "demo", "environment", "shadow_mode"} <= set(LAYERS)


@pytest.mark.parametrize("parent", ["operators", "parquet"])
def test_every_folder_inside_has_a_layer_of_its_own(parent: str) -> None:
    inits = (SOURCE / parent).glob("*/**/__init__.py")
    folders = {".".join(path.parent.relative_to(SOURCE).parts) for path in inits}
    assert folders == {key for key in LAYERS if key.startswith(f"{parent}.")}


def test_every_module_of_the_tables_exists() -> None:
    names = {name for name, _ in modules()}
    assert names >= SPARK_MODULES | BASE


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("kernels.x", "from sundog.errors import SundogError", "is not below kernels"),
        ("kernels.x", "import pyarrow as pa", "is a package that kernels does not know"),
        ("expr.x", "from sundog.plan import logical", "is not below expr"),
        ("front.x", "from sundog.operators.base import Operator", "is not below front"),
        ("front.x", "from sundog.plan import stages", "is not below front"),
        ("runtime.x", "from sundog.plan.logical import Limit", "is not below runtime"),
        ("operators.x", "from sundog.operators.topk.topk import TopKOperator", "is not below operators"),
        ("operators.scan.x", "from sundog.operators.topk.topk import TopKOperator", "is not below operators.scan"),
        ("operators.x", "def f():\n    from sundog.expr import nodes", "is imported inside a function"),
        ("operators.x", "if True:\n    import pyspark.sql", "speak to Spark"),
        ("config", "from pyspark import SparkConf", "speak to Spark"),
        ("config", "from sundog.expr import nodes", "is not below config"),
        ("runtime.driver", "from py4j.java_gateway import java_import", "speak to Spark"),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str, problem: str) -> None:
    (found,) = violations(module, source)
    assert problem in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels.x", "import numba\nfrom sundog.kernels.compile import kernel"),
        ("front.x", "from sundog.plan.logical import TopK\nfrom sundog.plan import logical\nfrom sundog import config"),
        ("runtime.spark", "from pyspark.sql import DataFrame"),
        ("operators.x", "def f():\n    import numpy"),
        ("operators.x", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        ("query", "from sundog.front import match\nimport pyspark"),
    ],
)
def test_a_right_import_is_let_through(module: str, source: str) -> None:
    assert violations(module, source) == []
