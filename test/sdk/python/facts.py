"""What vendors once answered, and what any client must make of it. $RECORDINGS has the answers and the facts."""

import json
import os


def read(name):
    with open(os.path.join(os.environ["RECORDINGS"], name), encoding="utf-8") as f:
        return json.load(f)


RECORDINGS = read("recordings.json")
CONVERSATIONS = read("conversations.json")
RESULT = "15 degrees, cloudy"


def prompt(r):
    """Tells the vendor what to answer."""
    return f"replay {r['recording']}" + (f" then {r['then']}" if "then" in r else "")
