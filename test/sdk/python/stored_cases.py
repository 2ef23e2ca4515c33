"""The official Python SDK with what the gateway stores: responses, conversations, and the background."""

import sys
import time

import openai

from gateway import case, equal, raises, run

ECHO = "echo/echo"
PATIENCE = 40  # seconds


def said(response):
    return "".join(i.content[0].text for i in response.output if i.type == "message")


@case("a conversation by previous responses")
def _(c):
    first = c.responses.create(model=ECHO, input="one", metadata={"a": "b"})
    equal((first.store, first.status), (True, "completed"))
    with c.responses.stream(model=ECHO, input="two", previous_response_id=first.id) as stream:
        second = stream.get_final_response()
    equal((second.previous_response_id, said(second)), (first.id, "two"))
    equal(c.responses.retrieve(second.id).output_text, second.output_text)
    items = list(c.responses.input_items.list(second.id, order="asc", limit=1))
    equal([i.content[0].text for i in items if i.type == "message"], ["one", "one", "two"])
    c.responses.delete(second.id)
    raises(openai.NotFoundError, lambda: c.responses.retrieve(second.id))
    e = raises(openai.BadRequestError, lambda: c.responses.create(model=ECHO, input="x", previous_response_id=second.id))
    equal(e.code, "previous_response_not_found")


@case("conversations")
def _(c):
    made = c.conversations.create(metadata={"a": "b"}, items=[{"role": "user", "content": "one"}])
    done = c.responses.create(model=ECHO, input="two", conversation=made.id)
    equal(done.conversation.id, made.id)
    items = list(c.conversations.items.list(made.id, order="asc"))
    equal([i.content[0].text for i in items], ["one", "two", "two"])
    equal(c.conversations.items.retrieve(items[0].id, conversation_id=made.id).id, items[0].id)
    c.conversations.items.delete(items[0].id, conversation_id=made.id)
    added = c.conversations.items.create(made.id, items=[{"role": "assistant", "content": "three"}])
    equal(len(added.data), 1)
    equal(c.conversations.update(made.id, metadata={"c": "d"}).metadata, {"c": "d"})
    equal(c.conversations.retrieve(made.id).metadata, {"c": "d"})
    equal(c.conversations.delete(made.id).deleted, True)
    raises(openai.NotFoundError, lambda: c.conversations.retrieve(made.id))


@case("a background response")
def _(c):
    made = c.responses.create(model=ECHO, input="later", background=True)
    equal((made.status, made.background), ("queued", True))
    deadline = time.monotonic() + PATIENCE
    while (done := c.responses.retrieve(made.id)).status in ("queued", "in_progress"):
        assert time.monotonic() < deadline, done
        time.sleep(0.05)
    equal((done.status, said(done)), ("completed", "later"))
    equal(c.responses.cancel(made.id).status, "completed")


@case("a background response is streamed and resumed")
def _(c):
    events = list(c.responses.create(model=ECHO, input="later and later", background=True, stream=True))
    equal([e.type for e in events[:3]], ["response.created", "response.queued", "response.in_progress"])
    equal((events[-1].type, said(events[-1].response)), ("response.completed", "later and later"))
    id = events[0].response.id
    for at in (0, 2, len(events) // 2, len(events) - 2):
        again = list(c.responses.retrieve(id, stream=True, starting_after=events[at].sequence_number))
        equal([e.sequence_number for e in again], [e.sequence_number for e in events[at + 1:]])
    with c.responses.stream(response_id=id, starting_after=2) as stream:
        equal(stream.get_final_response().output_text, "later and later")


if __name__ == "__main__":
    sys.exit(run())
