"""The memory tool of Anthropic. The commands stand for those of a model: `run_tools` takes the tool for real ones."""

from hearth_memory.anthropic import HearthMemoryTool

tool = HearthMemoryTool(root="example-tool")
tool.clear_all_memory()
for command in [
    {"command": "create", "path": "/memories/user.md", "file_text": "units: feet\nlanguage: English\n"},
    {"command": "str_replace", "path": "/memories/user.md", "old_str": "feet", "new_str": "metric"},
    {"command": "insert", "path": "/memories/user.md", "insert_line": 2, "insert_text": "city: Hamburg"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/user.md"},
]:
    print(tool.call(command))
