"""An agent loop with the published client (`pip install sulcus`): load context, answer, remember, feed back.

    HEARTH_URL=https://127.0.0.1:4200 HEARTH_API_KEY=sk-… SSL_CERT_FILE=bundle.pem python agent.py

The language model is a function here that repeats what it is given: put yours in its place.
"""

import os

from sulcus import Sulcus

memory = Sulcus(api_key=os.environ["HEARTH_API_KEY"], base_url=os.environ["HEARTH_URL"])


def model(prompt):
    return f"I know: {prompt}"


def turn(message):
    found = memory.search(message, limit=5)
    known = "; ".join(one.pointer_summary for one in found) or "nothing yet"
    answer = model(known)
    # What the user says is worth keeping. The service recognises what it has already.
    memory.remember(message, memory_type="episodic")
    if found:
        memory.feedback(found[0].id, "relevant")
    return answer


for message in [
    "I prefer metric units.",
    "My train leaves at nine tomorrow.",
    "Which units do I prefer?",
]:
    print("user: ", message)
    print("agent:", turn(message))
