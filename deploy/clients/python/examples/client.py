"""Stores a memory, finds it, and changes it unless another client did."""

from hearth_memory import Client, ConditionFailed

with Client() as hearth:
    memory = hearth.create(
        label="The user prefers metric units.", memory_type="preference", namespace="example", external_id="units"
    )
    found = hearth.search(query="which units does the user prefer?", namespace="example", limit=3)
    print("found:", found[0]["label"])

    read = hearth.get(memory["id"])
    hearth.update(memory["id"], label="The user prefers SI units.")
    try:
        hearth.update(memory["id"], etag=read["etag"], label="The user prefers feet.")
    except ConditionFailed:
        print("kept:", hearth.get_by_external_id("units", namespace="example")["label"])
    print("texts:", [version["label"] for version in hearth.versions(memory["id"])])
