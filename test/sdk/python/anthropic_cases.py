"""Anthropic's SDK as a client of the gateway: of Claude, and of every other vendor."""

import json
import sys
from os import environ

import anthropic

from facts import CONVERSATIONS, RECORDINGS, RESULT, prompt
from gateway import KEY, TIMEOUT, case, equal, raises, run, trust, user

HTTP = anthropic.DefaultHttpxClient(verify=trust())
ON_BEDROCK = "bedrock-claude/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


def client(**changes):
    return anthropic.Anthropic(**{"base_url": environ["GATEWAY_URL"], "api_key": KEY, "max_retries": 0, "timeout": TIMEOUT,
                                  "http_client": HTTP, **changes})


def options(r):
    given = {"model": r["model"], "messages": user(prompt(r)), "max_tokens": 4096}
    if "tools" in r:
        given["tools"] = [{"name": t["name"], "input_schema": t["parameters"]} for t in r["tools"]]
    if "schema" in r:
        given["output_config"] = {"format": {"type": "json_schema", "schema": r["schema"]}}
    if "effort" in r:
        given["max_tokens"] = 20000
        given["thinking"] = {"type": "enabled", "budget_tokens": 2048}
    if r["model"].startswith("bedrock/"):  # the recordings are Converse's, which alone takes this
        given["extra_body"] = {"cache_control": {"type": "ephemeral"}}
    return given


def ask(c, r, given):
    if not r["stream"]:
        return c.messages.create(**given)
    with c.messages.stream(**given) as stream:
        return stream.get_final_message()


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


def calls_of(message):
    return [{"name": b.name, "arguments": b.input} for b in message.content if b.type == "tool_use"]


def check(r, done):
    equal((done.type, done.role, done.model), ("message", "assistant", r["model"]))
    if "object" in r and done.stop_reason == "tool_use":  # Claude's own answer to the gateway's way of asking for an object
        return equal([c["arguments"] for c in calls_of(done)], [r["object"]])
    equal(done.stop_reason.replace("stop_sequence", "end_turn"), STOPS[r["finish"]])
    if "object" in r:
        equal(json.loads(text_of(done)), r["object"])
    else:
        equal(text_of(done), r.get("text", ""))
    equal("".join(b.thinking for b in done.content if b.type == "thinking"), r.get("reasoning", ""))
    equal(calls_of(done), r.get("calls", []))
    equal(len({b.id for b in done.content if b.type == "tool_use"}), len(r.get("calls", [])))
    u, want = done.usage, r["usage"]
    cached = u.cache_read_input_tokens or 0
    equal((u.input_tokens + cached + (u.cache_creation_input_tokens or 0), u.output_tokens, cached),
          (want["prompt"], want["completion"], want["cached"]))


def answer_case(r):
    @case(r["name"])
    def run(_):
        check(r, ask(client(), r, options(r)))


def conversation_case(r):
    @case(r["name"])
    def run(_):
        c, given = client(), options(r)
        message = ask(c, r, given)
        equal(calls_of(message), r["calls"])
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": RESULT} for b in message.content if b.type == "tool_use"]
        given["messages"] = given["messages"] + [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        done = ask(c, r, given)
        equal((text_of(done), done.stop_reason), (r["text"], "end_turn"))


def on_bedrock(r):
    return {**r, "name": r["name"].replace("anthropic", "bedrock, as at anthropic"), "model": ON_BEDROCK}


def claudes(recordings):
    return [on_bedrock(r) for r in recordings if r["model"].startswith("anthropic/")]


for r in RECORDINGS + claudes(RECORDINGS):
    answer_case(r)
for r in CONVERSATIONS + claudes(CONVERSATIONS):
    conversation_case(r)

HELLO = {"model": "echo/echo", "max_tokens": 100, "messages": user("Hello")}


@case("a bearer token")
def bearer(_):
    equal(text_of(client(api_key=None, auth_token=KEY).messages.create(**HELLO)), "Hello")


@case("request id")
def request_id(_):
    assert client().messages.create(**HELLO)._request_id


@case("a wrong key")
def wrong_key(_):
    e = raises(anthropic.AuthenticationError, lambda: client(api_key="sk-wrong").messages.create(**HELLO))
    equal(e.body["error"]["type"], "authentication_error")
    assert e.request_id, e


@case("an unknown model")
def unknown_model(_):
    raises(anthropic.NotFoundError, lambda: client().messages.create(**{**HELLO, "model": "nobody/x"}))


@case("a block of an unknown type")
def unknown_block(_):
    given = {**HELLO, "messages": [{"role": "user", "content": [{"type": "hologram"}]}]}
    e = raises(anthropic.BadRequestError, lambda: client().messages.create(**given))
    assert "messages.0.content.0" in str(e) and "hologram" in str(e), e


@case("models")
def models(_):
    assert "echo/echo" in [m.id for m in client().models.list()]
    equal(client().models.retrieve("echo/echo").type, "model")


@case("tokens are counted")
def count_tokens(_):
    got = client().messages.with_raw_response.count_tokens(model="echo/echo", messages=user("How many tokens is this?"))
    equal(got.headers["x-modelgate-counted"], "estimate")
    assert 4 < got.parse().input_tokens < 20, got.parse()


@case("a streamed answer is helped along")
def helper(_):
    with client().messages.stream(**HELLO) as stream:
        equal("".join(stream.text_stream), "Hello")


if __name__ == "__main__":
    sys.exit(run())
