"""The official Python SDK's Realtime API, over the gateway's WebSocket."""

import sys

import websockets

from gateway import case, client, equal, raises, run, trust

# The SDK connects by itself, and not with the HTTP client that it was given.
SECURE = {"ssl": trust()}


def connect(c, model="rt/talk", **more):
    return c.realtime.connect(model=model, websocket_connection_options=SECURE, **more)


def until(connection, kind):
    """The events up to the first of a kind."""
    seen = []
    for event in connection:
        seen.append(event)
        if event.type == kind:
            return seen
    raise AssertionError(f"the session ended before {kind}")


@case("a session with two responses")
def _(c):
    with connect(c) as connection:
        equal(connection.recv().type, "session.created")
        for _ in range(2):
            connection.response.create()
            seen = until(connection, "response.done")
            equal([e.type for e in seen],
                  ["response.created", "response.output_text.delta", "response.output_audio.delta", "response.done"])
            usage = seen[-1].response.usage
            equal((usage.input_tokens, usage.output_tokens), (127, 148))
            equal(usage.input_token_details.cached_tokens, 64)


@case("audio is transcribed")
def _(c):
    with connect(c) as connection:
        connection.input_audio_buffer.append(audio="A" * 400_000)
        connection.input_audio_buffer.commit()
        done = until(connection, "conversation.item.input_audio_transcription.completed")[-1]
        equal(done.transcript, "Hey, can you hear me?")


@case("large events")
def _(c):
    with connect(c, "rt/large") as connection:
        connection.response.create()
        seen = until(connection, "response.done")
        equal(max(len(getattr(e, "delta", "") or "") for e in seen), 3 << 20)


@case("asynchronous")
async def _(c):
    async with connect(c) as connection:
        await connection.response.create()
        async for event in connection:
            if event.type == "response.done":
                break
        equal(event.response.status, "completed")


@case("an error of the session")
def _(c):
    with connect(c) as connection:
        connection.conversation.item.delete(item_id="item_1")
        equal(until(connection, "error")[-1].error.code, "invalid_event")


def refusal(c, model="rt/talk"):
    def enter():
        with connect(c, model):
            pass

    return raises(websockets.exceptions.InvalidStatus, enter).response


@case("a wrong key")
def _(_):
    with client(api_key="mg-wrong") as c:
        response = refusal(c)
        equal(response.status_code, 401)
        assert b'"code":"invalid_api_key"' in response.body, response.body


@case("an unknown model")
def _(c):
    equal(refusal(c, "nobody/talk").status_code, 404)


if __name__ == "__main__":
    sys.exit(run())
