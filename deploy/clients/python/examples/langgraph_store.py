"""A graph of LangGraph that remembers across threads. Its node is a function: put a model in its place."""

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

from hearth_memory.langgraph import HearthStore


class State(TypedDict):
    user: str
    message: str
    known: list[str]


def remember(state: State, *, store: BaseStore) -> dict:
    namespace = ("users", state["user"])
    known = store.search(namespace, query=state["message"], limit=3)
    store.put(namespace, state["message"], {"text": state["message"]})
    return {"known": [item.value["text"] for item in known]}


builder = StateGraph(State)
builder.add_node("remember", remember)
builder.add_edge(START, "remember")
builder.add_edge("remember", END)
graph = builder.compile(store=HearthStore())
for message in ["I prefer metric units.", "Which units do I prefer?"]:
    print(message, "known:", graph.invoke({"user": "anna", "message": message, "known": []})["known"])
