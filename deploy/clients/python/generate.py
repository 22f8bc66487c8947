"""Writes `hearth_memory/types.py`: the types of requests and responses, out of `docs/openapi.json`.

    generate.py [--check]

With `--check`, it writes nothing, and fails if the file is not what it would write.
"""

import json
import keyword
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE / "hearth_memory/types.py"
DOCUMENT = json.loads((HERE / "../../../docs/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]

# The operations of the client.
OPERATIONS = {
    "boost_memory",
    "create_memories",
    "create_memory",
    "delete_memories",
    "delete_memory",
    "get_hot_context",
    "get_memory",
    "get_storage",
    "give_memory_feedback",
    "list_memories",
    "list_versions",
    "load_context",
    "search_memories",
    "supersede_memory",
    "update_memory",
    "verify_key",
}
# Names for schemas whose own names state how they are built.
NAMES = {
    "WithNotifications_Batch": "Batch",
    "WithNotifications_FeedbackEffect": "FeedbackEffect",
    "WithNotifications_MemoryOrDeleted": "WrittenMemory",
}
# operations.py raises NotFound for the other variants.
VARIANTS = {"MemoryOrDeleted": "Memory"}
# Parameters of a list that the client sets by itself, or that `filter` covers.
NOT_FILTERS = {"cursor", "metadata", "page", "tag", "tags"}
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
HEAD = '''"""Types of requests and responses. `generate.py` writes this file: do not edit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired
'''


class Types:
    """Definitions by name. A definition is written after those that it inherits from."""

    def __init__(self):
        self.definitions = {}

    def of(self, schema):
        """The expression of a schema as a type."""
        if "$ref" in schema:
            return self.of_name(schema["$ref"].rsplit("/", 1)[1])
        if "enum" in schema:
            return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
        if "oneOf" in schema:
            return union(self.of(part) for part in schema["oneOf"])
        kind = schema.get("type")
        if isinstance(kind, list):
            return union(self.of(schema | {"type": one}) for one in kind)
        if kind == "array":
            return f"list[{self.of(schema['items'])}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.of(values) if isinstance(values, dict) else 'Any'}]"
        return SCALARS.get(kind, "Any")

    def of_name(self, name):
        """The expression of a named schema, which is defined if it has fields or names its values."""
        name = VARIANTS.get(name, name)
        schema, own = SCHEMAS[name], NAMES.get(name, name)
        if "properties" in schema or "allOf" in schema:
            self.define(own, schema)
        elif "enum" in schema:
            self.definitions[own] = f"{own} = {self.of(schema)}"
        else:
            return self.of(schema)
        return own

    def define(self, name, schema):
        """Defines a class. Parts that are references are its bases, other parts have fields."""
        if name in self.definitions:
            return
        self.definitions[name] = ""
        bases, fields, required = [], {}, set()
        for part in schema.get("allOf", [schema]):
            if "oneOf" in part:
                part = part["oneOf"][0]
            if "$ref" in part:
                bases.append(self.of_name(part["$ref"].rsplit("/", 1)[1]))
            fields |= part.get("properties", {})
            required |= set(part.get("required", []))
        kinds = {field: self.of(content) for field, content in fields.items()}
        kinds = {field: kind if field in required else f"NotRequired[{kind}]" for field, kind in kinds.items()}
        # Again at the end, so that it comes after its bases.
        del self.definitions[name]
        if any(map(keyword.iskeyword, kinds)):
            self.definitions[name] = f"{name} = TypedDict({json.dumps(name)}, {json.dumps(kinds)})"
            return
        lines = [f"class {name}({', '.join(bases) or 'TypedDict'}):", *quoted(schema.get("description"))]
        self.definitions[name] = "\n".join(lines + [f"    {field}: {kind}" for field, kind in kinds.items()])


def union(kinds):
    """One type for several, without those that occur twice. None comes last."""
    kinds = sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None")
    return " | ".join(kinds)


def quoted(description):
    text = " ".join((description or "").split())
    return textwrap.wrap(f'"""{text}"""', 110, initial_indent="    ", subsequent_indent="    ") if text else []


def operations():
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            if operation["operationId"] in OPERATIONS:
                yield operation


def main():
    types = Types()
    # What a deletion returns: the variants of its response have it last.
    types.of_name("Deleted")
    for operation in operations():
        if operation["operationId"] == "list_memories":
            parameters = {one["name"]: one["schema"] for one in operation["parameters"]}
            filters = {name: schema for name, schema in parameters.items() if name not in NOT_FILTERS}
            filters = {name: schema for name, schema in filters.items() if not name.startswith("X-")}
            filters["consistency"] = parameters["X-Hearth-Consistency"]
            filters["filter"] = {"$ref": "#/components/schemas/Filter"}
            types.define("ListFilters", {"description": "Filters of a list.", "properties": filters})
        if "requestBody" in operation:
            types.of(operation["requestBody"]["content"]["application/json"]["schema"])
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                types.of(response["content"]["application/json"]["schema"])
    version = f'\n\nVERSION = "{DOCUMENT["info"]["version"]}"\n'
    text = HEAD + version + "".join(f"\n\n{definition}\n" for definition in types.definitions.values())
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        sys.exit(f"{TARGET} is old: run deploy/clients/python/generate.py")


main()
