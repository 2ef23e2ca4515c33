"""Google's SDK as a client of the gateway: of Google's models, and of every other vendor's."""

import base64
import json
import sys
from os import environ

from google import genai
from google.genai import errors, types

from facts import CONVERSATIONS, RECORDINGS, RESULT, prompt
from gateway import KEY, TIMEOUT, case, equal, raises, run

STOPS = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}


def client(key=KEY):
    return genai.Client(api_key=key, http_options=types.HttpOptions(
        base_url=environ["GATEWAY_URL"], timeout=int(TIMEOUT * 1000), client_args={"verify": environ["GATEWAY_CA"]}))


CLIENT = client()  # one that nobody holds is closed


def options(r):
    given = {"max_output_tokens": 20000, "automatic_function_calling": {"disable": True}, "thinking_config": {"include_thoughts": True}}
    if "tools" in r:
        given["tools"] = [{"function_declarations": [
            {"name": t["name"], "parameters_json_schema": t["parameters"]} for t in r["tools"]]}]
    if "schema" in r:
        given["response_mime_type"], given["response_json_schema"] = "application/json", r["schema"]
    if "effort" in r:
        given["thinking_config"]["thinking_budget"] = 2048
    return given


def user(*parts):
    return types.Content(role="user", parts=list(parts))


def ask(c, r, contents):
    """Returns the parts of an answer, its last chunk, and why it ended."""
    given = {"model": r["model"], "contents": contents, "config": options(r)}
    if r["stream"]:
        chunks = list(c.models.generate_content_stream(**given))
    else:
        chunks = [c.models.generate_content(**given)]
    parts = [p for chunk in chunks if chunk.candidates for p in (chunk.candidates[0].content and chunk.candidates[0].content.parts) or []]
    reasons = [chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates and chunk.candidates[0].finish_reason]
    return parts, chunks[-1], reasons[-1]


def text_of(parts):
    return "".join(p.text for p in parts if p.text and not p.thought)


def calls_of(parts):
    return [{"name": p.function_call.name, "arguments": p.function_call.args or {}} for p in parts if p.function_call]


def check(r, parts, last, reason):
    if "object" in r and calls_of(parts):  # Claude's answer to the gateway's way of asking for an object
        return equal([c["arguments"] for c in calls_of(parts)], [r["object"]])
    equal(reason, STOPS[r["finish"]])
    if "object" in r:
        equal(json.loads(text_of(parts)), r["object"])
    else:
        equal(text_of(parts), r.get("text", ""))
    equal("".join(p.text for p in parts if p.thought and p.text), r.get("reasoning", ""))
    equal(calls_of(parts), r.get("calls", []))
    u, want = last.usage_metadata, r["usage"]
    equal((u.prompt_token_count, (u.candidates_token_count or 0) + (u.thoughts_token_count or 0), u.cached_content_token_count or 0),
          (want["prompt"], want["completion"], want["cached"]))


def answer_case(r):
    @case(r["name"])
    def run(_):
        check(r, *ask(CLIENT, r, [user(types.Part(text=prompt(r)))]))


def conversation_case(r):
    @case(r["name"])
    def run(_):
        c, contents = CLIENT, [user(types.Part(text=prompt(r)))]
        parts, _, _ = ask(c, r, contents)
        equal(calls_of(parts), r["calls"])
        results = [types.Part(function_response=types.FunctionResponse(id=p.function_call.id, name=p.function_call.name, response={"result": RESULT}))
                   for p in parts if p.function_call]
        contents += [types.Content(role="model", parts=parts), user(*results)]
        parts, _, reason = ask(c, r, contents)
        equal((text_of(parts), reason), (r["text"], "STOP"))


for r in RECORDINGS:
    answer_case(r)
for r in CONVERSATIONS:
    conversation_case(r)

HELLO = {"model": "echo/echo", "contents": "Hello"}
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@case("a wrong key")
def wrong_key(_):
    wrong = client("sk-wrong")
    e = raises(errors.ClientError, lambda: wrong.models.generate_content(**HELLO))
    equal((e.code, e.status), (401, "UNAUTHENTICATED"))


@case("an unknown model")
def unknown_model(_):
    e = raises(errors.ClientError, lambda: CLIENT.models.generate_content(**{**HELLO, "model": "nobody/x"}))
    equal((e.code, e.status), (404, "NOT_FOUND"))


@case("a tool that the vendor does not have")
def unknown_tool(_):
    e = raises(errors.ClientError, lambda: CLIENT.models.generate_content(**HELLO, config={"tools": [{"code_execution": {}}]}))
    assert e.code == 400 and "codeExecution" in e.message, e


@case("an image")
def image(_):
    done = CLIENT.models.generate_content(model="claude/text", contents=["What is it?", types.Part.from_bytes(data=PIXEL, mime_type="image/png")])
    assert done.text, done


@case("models")
def models(_):
    assert "models/echo/echo" in [m.name for m in CLIENT.models.list()]
    equal(CLIENT.models.get(model="echo/echo").name, "models/echo/echo")


@case("tokens are counted")
def count_tokens(_):
    assert 4 < CLIENT.models.count_tokens(model="echo/echo", contents="How many tokens is this?").total_tokens < 20


@case("embeddings")
def embeddings(_):
    done = CLIENT.models.embed_content(model="echo/echo", contents=["a", "b"])
    equal(len(done.embeddings), 2)
    assert done.embeddings[0].values, done


@case("a chat")
def chat(_):
    c = CLIENT.chats.create(model="echo/echo")
    equal(c.send_message("Hello").text, "Hello")
    equal("".join(chunk.text for chunk in c.send_message_stream("Again")), "Again")


if __name__ == "__main__":
    sys.exit(run())
