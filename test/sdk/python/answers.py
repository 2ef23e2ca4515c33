"""Cases of complete answers, by the built-in provider: it repeats the last message of the user."""

import json
import re
from typing import List

import openai
from pydantic import BaseModel

from gateway import case, equal, raises, user

ECHO = "echo/echo"
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = [{"role": "user", "content": [
    {"type": "text", "text": "what is this"},
    {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
]}]


class get_weather(BaseModel):
    city: str
    days: int


class get_time(BaseModel):
    zone: str


class Trip(BaseModel):
    city: str
    days: int
    stops: List[str]


TOOLS = [openai.pydantic_function_tool(get_weather), openai.pydantic_function_tool(get_time)]


def check_unary(c):
    equal(c.object, "chat.completion")
    equal(c.model, ECHO)
    assert c.id.startswith("chatcmpl-"), c.id
    assert c.created > 1_700_000_000, c.created
    equal(len(c.choices), 1)
    equal(c.choices[0].index, 0)
    equal(c.choices[0].message.role, "assistant")
    equal(c.choices[0].message.content, "hello there, wörld")
    equal(c.choices[0].finish_reason, "stop")
    assert c.usage.prompt_tokens > 0 and c.usage.completion_tokens > 0, c.usage
    equal(c.usage.total_tokens, c.usage.prompt_tokens + c.usage.completion_tokens)


@case("unary")
def unary(c):
    check_unary(c.chat.completions.create(model=ECHO, messages=user("hello there, wörld")))


@case("unary, async")
async def unary_async(c):
    check_unary(await c.chat.completions.create(model=ECHO, messages=user("hello there, wörld")))


@case("request id")
def request_id(c):
    ids = {c.chat.completions.create(model=ECHO, messages=user("hi"))._request_id for _ in range(2)}
    ids.add(c.models.list()._request_id)
    equal(len(ids), 3)
    assert all(i and re.fullmatch(r"[\w.-]{8,128}", i) for i in ids), ids


@case("system and developer messages")
def instructions(c):
    done = c.chat.completions.create(model=ECHO, messages=[
        {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}, *user("hi")])
    equal(done.choices[0].message.content, "hi")


@case("image")
def image(c):
    equal(c.chat.completions.create(model=ECHO, messages=IMAGE).choices[0].message.content, "what is this")


@case("a tool is called")
def tool(c):
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        done = c.chat.completions.create(model=ECHO, messages=user("hi"), tools=TOOLS, tool_choice=choice)
        equal(done.choices[0].finish_reason, "tool_calls")
        equal(done.choices[0].message.content, None)
        [call] = done.choices[0].message.tool_calls
        equal((call.type, call.function.name), ("function", "get_weather"))
        equal(sorted(json.loads(call.function.arguments)), ["city", "days"])
        assert call.id


def check_parallel(done):
    equal(done.choices[0].finish_reason, "tool_calls")
    calls = done.choices[0].message.tool_calls
    equal([call.function.name for call in calls], ["get_weather", "get_time"])
    equal(len({call.id for call in calls}), 2)
    return calls


@case("parallel tool calls")
def parallel(c):
    weather, time = check_parallel(c.chat.completions.parse(
        model=ECHO, messages=user("call get_weather and get_time"), tools=TOOLS, parallel_tool_calls=True))
    assert isinstance(weather.function.parsed_arguments, get_weather), weather
    assert isinstance(time.function.parsed_arguments, get_time), time


@case("tool results in a conversation of several turns")
def turns(c):
    messages = user("call get_weather and get_time")
    first = c.chat.completions.create(model=ECHO, messages=messages, tools=TOOLS).choices[0].message
    messages.append(first)  # as the SDK returned it
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in first.tool_calls]
    second = c.chat.completions.create(model=ECHO, messages=messages, tools=TOOLS)
    equal(second.choices[0].finish_reason, "stop")
    messages += [second.choices[0].message, *user("thanks")]
    equal(c.chat.completions.create(model=ECHO, messages=messages, tools=TOOLS).choices[0].message.content, "thanks")


@case("structured output")
def structured(c):
    message = c.chat.completions.parse(model=ECHO, messages=user("plan"), response_format=Trip).choices[0].message
    equal(message.refusal, None)
    assert isinstance(message.parsed, Trip) and message.parsed.stops, message
    equal(json.loads(message.content), message.parsed.model_dump())


@case("structured output, async")
async def structured_async(c):
    done = await c.chat.completions.parse(model=ECHO, messages=user("plan"), response_format=Trip)
    assert isinstance(done.choices[0].message.parsed, Trip), done


@case("list of models")
def models(c):
    found = {m.id: m for m in c.models.list()}
    assert {ECHO, "claude/text"} <= set(found), sorted(found)
    equal(found[ECHO].object, "model")
    assert found[ECHO].owned_by
    equal(list(found), sorted(found))


@case("a model whose id has a slash")
def model(c):
    equal(c.models.retrieve(ECHO).id, ECHO)
    equal(c.models.retrieve("claude/text").id, "claude/text")
    e = raises(openai.NotFoundError, lambda: c.models.retrieve("nobody/nothing"))
    equal((e.status_code, e.code), (404, "model_not_found"))
