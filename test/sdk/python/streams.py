"""Cases of streamed answers."""

import json

from answers import ECHO, TOOLS, Trip, check_parallel, get_weather
from gateway import case, equal, user

TEXT = "one two  three,\nünd more"


def check_chunks(chunks, usage):
    """Checks what every stream of the text must be."""
    equal({c.object for c in chunks}, {"chat.completion.chunk"})
    equal({c.model for c in chunks}, {ECHO})
    equal(len({c.id for c in chunks}), 1)
    if usage:
        last = chunks.pop()
        equal(last.choices, [])
        equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens)
        assert last.usage.completion_tokens > 0, last.usage
    equal([c.usage for c in chunks], [None] * len(chunks))
    choices = [choice for c in chunks for choice in c.choices]
    equal(len(choices), len(chunks))
    equal([c.delta.role for c in choices if c.delta.role], ["assistant"])
    equal("".join(c.delta.content or "" for c in choices), TEXT)
    assert sum(1 for c in choices if c.delta.content) > 1, "it came as a whole"
    equal([c.finish_reason for c in choices if c.finish_reason], ["stop"])
    equal(choices[-1].finish_reason, "stop")


@case("streamed")
def streamed(c):
    for changes in ({}, {"stream_options": {"include_usage": False}}):
        check_chunks(list(c.chat.completions.create(model=ECHO, messages=user(TEXT), stream=True, **changes)), usage=False)


@case("streamed with usage")
def with_usage(c):
    chunks = c.chat.completions.create(model=ECHO, messages=user(TEXT), stream=True, stream_options={"include_usage": True})
    check_chunks(list(chunks), usage=True)


@case("streamed with usage, async")
async def with_usage_async(c):
    stream = await c.chat.completions.create(model=ECHO, messages=user(TEXT), stream=True, stream_options={"include_usage": True})
    check_chunks([chunk async for chunk in stream], usage=True)


@case("streamed tool calls")
def tools(c):
    with c.chat.completions.stream(model=ECHO, messages=user("call get_weather and get_time"), tools=TOOLS) as stream:
        events = [e for e in stream]
        weather, _ = check_parallel(stream.get_final_completion())
    assert isinstance(weather.function.parsed_arguments, get_weather), weather
    done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
    equal([(e.index, e.name) for e in done], [(0, "get_weather"), (1, "get_time")])
    deltas = "".join(e.arguments_delta for e in events if e.type == "tool_calls.function.arguments.delta" and e.index == 0)
    equal(json.loads(deltas), weather.function.parsed_arguments.model_dump())


@case("streamed tool calls, async")
async def tools_async(c):
    async with c.chat.completions.stream(model=ECHO, messages=user("call get_weather and get_time"), tools=TOOLS) as stream:
        check_parallel(await stream.get_final_completion())


@case("streamed structured output")
def structured(c):
    with c.chat.completions.stream(model=ECHO, messages=user("plan"), response_format=Trip) as stream:
        done = stream.get_final_completion()
    assert isinstance(done.choices[0].message.parsed, Trip), done


@case("cancel in mid-stream")
def cancel(c):
    for _ in range(2):
        stream = c.chat.completions.create(model="claude/endless", messages=user("hi"), stream=True)
        assert any(chunk.choices and chunk.choices[0].delta.content for chunk in stream), "no text came"
        stream.close()
        equal(c.chat.completions.create(model=ECHO, messages=user("still there")).choices[0].message.content, "still there")


@case("cancel in mid-stream, async")
async def cancel_async(c):
    stream = await c.chat.completions.create(model="claude/endless", messages=user("hi"), stream=True)
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    await stream.close()
    done = await c.chat.completions.create(model=ECHO, messages=user("still there"))
    equal(done.choices[0].message.content, "still there")
