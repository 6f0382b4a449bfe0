"""A plugin of pytest for `run`: implicit sharding, outcomes by case, and comparing in any order.

MAYFLY_SHARD    address of a router: each collection is sharded by {_id: "hashed"} ahead of its first write
MAYFLY_OUTCOMES file for the outcomes, a JSON object {case, outcome, text} a line
MAYFLY_ONLY     file with the cases to run, one a line; the others are left out
MAYFLY_ANY      "order": the elements of arrays, and documents, are compared in any order;
                "equal": and numbers by their values, of whatever type
"""

import decimal
import json
import os

import bson
import pymongo
from pymongo import monitoring

# What makes a collection. Others ($out, $merge, create, createIndexes) make an unsharded one.
WRITES = ("insert", "update", "findAndModify", "findandmodify", "bulkWrite")


class Sharder(monitoring.CommandListener):
    """Sharder shards each collection ahead of the first write on it, where that is allowed."""

    def __init__(self, address):
        self.address, self.client, self.seen = address, None, {}

    def started(self, event):
        command, database = event.command, event.database_name
        if event.command_name in ("drop", "renameCollection", "dropDatabase"):
            self.seen.pop(database, None)
        if event.command_name not in WRITES:
            return
        names = [f"{database}.{command[event.command_name]}"]
        if event.command_name == "bulkWrite":
            names = [info.get("ns") for info in command.get("nsInfo", []) if isinstance(info, dict)]
        for name in names:
            self.shard(str(name))

    def shard(self, name):
        database, _, collection = name.partition(".")
        seen = self.seen.setdefault(database, set())
        if name in seen or database in ("admin", "config", "local") or collection.startswith("system."):
            return
        seen.add(name)
        if self.client is None:
            self.client = pymongo.MongoClient(self.address)
        for options in ({}, {"collation": {"locale": "simple"}}):  # the second, where the collection has a collation
            try:
                self.client.admin.command("shardCollection", name, key={"_id": "hashed"}, **options)
                return
            except Exception:  # a view, a capped collection, a time series, a unique index, a bad name
                continue

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


def canonical(value, equal):
    """Returns a text that is the same for values that differ in the order of arrays and fields; or, if equal, in types of numbers."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{name!r}: {canonical(v, equal)}" for name, v in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(sorted(canonical(v, equal) for v in value)) + "]"
    value = getattr(value, "expected", value)  # of pytest.approx
    if equal and isinstance(value, (int, float, bson.Decimal128)) and not isinstance(value, bool):
        number = value.to_decimal() if isinstance(value, bson.Decimal128) else decimal.Decimal(value)
        return "NaN" if number.is_nan() else str(number.normalize() + 0)
    return f"{type(value).__name__} {value!r}"


def pytest_configure(config):
    if how := os.environ.get("MAYFLY_ANY"):
        from documentdb_tests.framework import assertions, property_checks

        def same(a, b):
            return canonical(a, how == "equal") == canonical(b, how == "equal")
        assertions._strict_equal = same
        check = property_checks.Eq.check
        property_checks.Eq.check = lambda self, value, path: None if same(value, self.expected) else check(self, value, path)


def pytest_collection_modifyitems(config, items):
    if only := os.environ.get("MAYFLY_ONLY"):
        wanted = set(open(only).read().split("\n"))
        items[:] = [item for item in items if item.nodeid.encode("unicode_escape").decode() in wanted]


def pytest_runtest_logreport(report):
    if os.environ.get("PYTEST_XDIST_WORKER") or "MAYFLY_OUTCOMES" not in os.environ:
        return
    if report.when == "call" or report.outcome != "passed":
        with open(os.environ["MAYFLY_OUTCOMES"], "a") as out:
            case = report.nodeid.encode("unicode_escape").decode()
            print(json.dumps({"case": case, "outcome": report.outcome, "text": report.longreprtext[-3000:]}), file=out)


if address := os.environ.get("MAYFLY_SHARD"):
    monitoring.register(Sharder(address))
