"""Cases of requests that fail: each is the SDK's own error, with what a program decides by."""

import openai

from answers import ECHO
from gateway import KEY, async_client, case, client, equal, raises, user


def check_wrong_key(e):
    equal((e.status_code, e.code, e.type), (401, "invalid_api_key", "invalid_request_error"))
    assert e.request_id, "no request id"


@case("a wrong key")
def wrong_key(_):
    for key in ("sk-mg-" + "0" * 32, KEY[:-1], "something else"):
        with client(api_key=key) as c:
            check_wrong_key(raises(openai.AuthenticationError, lambda: c.chat.completions.create(model=ECHO, messages=user("hi"))))
            check_wrong_key(raises(openai.AuthenticationError, lambda: c.models.list()))


@case("a wrong key, async")
async def wrong_key_async(_):
    async with async_client(api_key="something else") as c:
        try:
            await c.chat.completions.create(model=ECHO, messages=user("hi"), stream=True)
        except openai.AuthenticationError as e:
            return check_wrong_key(e)
    raise AssertionError("raised no AuthenticationError")


@case("an unknown model")
def unknown_model(c):
    for model in ("gpt-9", "nobody/gpt-9"):
        for stream in (False, True):
            e = raises(openai.NotFoundError, lambda: c.chat.completions.create(model=model, messages=user("hi"), stream=stream))
            equal((e.status_code, e.code, e.type), (404, "model_not_found", "invalid_request_error"))
            assert model in e.message, e.message
            assert e.request_id, "no request id"


@case("a parameter that is wrong")
def wrong_parameter(c):
    for changes, param in (
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"messages": []}, "messages"),
    ):
        e = raises(openai.BadRequestError, lambda: c.chat.completions.create(**{"model": ECHO, "messages": user("hi"), **changes}))
        equal((e.status_code, e.param, e.type), (400, param, "invalid_request_error"))
        assert e.code and e.message and e.request_id, e


@case("a rate limit of the provider")
def rate_limit(c):
    e = raises(openai.RateLimitError, lambda: c.chat.completions.create(model="claude/busy", messages=user("hi")))
    equal((e.status_code, e.code), (429, "rate_limit_exceeded"))
    equal(e.response.headers["retry-after"], "7")


def consume(c, model):
    for _ in c.chat.completions.create(model=model, messages=user("hi"), stream=True):
        pass


@case("an error within a stream is raised")
def error_in_stream(c):
    e = raises(openai.APIError, lambda: consume(c, "claude/failing"))
    equal((e.code, e.type), ("overloaded", "server_error"))


@case("a stream that was cut is no complete answer")
def cut_stream(c):
    e = raises(openai.APIError, lambda: consume(c, "claude/truncated"))
    equal(e.code, "upstream_truncated")


@case("a connection that breaks in mid-stream is raised")
def broken_connection(c):
    stream = c.chat.completions.create(model="claude/fragile", messages=user("hi"), stream=True)
    assert any(chunk.choices[0].delta.content for chunk in stream), "no text came"
    c.chat.completions.create(model="claude/break", messages=user("break it"))
    raises(openai.APIConnectionError, lambda: list(stream))
