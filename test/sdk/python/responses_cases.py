"""The official Python SDK's Responses API as a client of every vendor."""

import json
import sys

import openai

from facts import CONVERSATIONS, RECORDINGS, RESULT, prompt
from gateway import case, equal, raises, run, user


def options(r):
    given = {"model": r["model"], "input": user(prompt(r)), "store": False}
    if "tools" in r:
        given["tools"] = [{"type": "function", "name": t["name"], "parameters": t["parameters"], "strict": True} for t in r["tools"]]
    if "schema" in r:
        given["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": r["schema"], "strict": True}}
    if "effort" in r:
        given["reasoning"] = {"effort": r["effort"], "summary": "auto"}
    return given


def ask(c, r, given):
    if not r["stream"]:
        return c.responses.create(**given)
    with c.responses.stream(**given) as stream:
        return stream.get_final_response()


def calls_of(response):
    return [{"name": i.name, "arguments": json.loads(i.arguments)} for i in response.output if i.type == "function_call"]


def check(r, done):
    equal((done.object, done.model), ("response", r["model"]))
    equal(done.status, "incomplete" if r["finish"] in ("length", "content_filter") else "completed")
    if "object" in r:
        equal(json.loads(done.output_text), r["object"])
    else:
        equal(done.output_text, r.get("text", ""))
    equal("".join(s.text for i in done.output if i.type == "reasoning" for s in i.summary), r.get("reasoning", ""))
    equal(calls_of(done), r.get("calls", []))
    if "annotations" in r:
        equal(sum(len(p.annotations) for i in done.output if i.type == "message" for p in i.content), r["annotations"])
    want = r["usage"]
    equal((done.usage.input_tokens, done.usage.output_tokens), (want["prompt"], want["completion"]))
    equal(done.usage.input_tokens_details.cached_tokens, want["cached"])
    equal(done.usage.output_tokens_details.reasoning_tokens, want["reasoning"])


def answer_case(r):
    @case(r["name"])
    def run(c):
        check(r, ask(c, r, options(r)))


def conversation_case(r):
    @case(r["name"])
    def run(c):
        given = options(r)
        first = ask(c, r, given)
        equal(calls_of(first), r["calls"])
        results = [{"type": "function_call_output", "call_id": i.call_id, "output": RESULT} for i in first.output if i.type == "function_call"]
        given["input"] = given["input"] + first.output + results
        done = ask(c, r, given)
        equal((done.output_text, done.status), (r["text"], "completed"))


def native_case(r):
    @case(r["name"])
    def run(c):
        e = raises(openai.BadRequestError, lambda: c.responses.create(**options(r)))
        assert "POST /responses" in str(e), e  # where nothing is recorded


# Vendors that serve the API themselves get requests as they are.
SERVE = ("deepseek/", "groq/", "openrouter/")

for r in RECORDINGS:
    (native_case if r["model"].startswith(SERVE) else answer_case)(r)
for r in CONVERSATIONS:
    (native_case if r["model"].startswith(SERVE) else conversation_case)(r)


def refused(param, **given):
    @case(f"{param} is refused")
    def run(c):
        e = raises(openai.BadRequestError, lambda: c.responses.create(model="claude/text", **{"input": "Hello", **given}))
        equal(e.param, param)


refused("previous_response_id", previous_response_id="resp_1")
refused("input[0].type", input=[{"type": "hologram"}])
refused("tools[0].type", tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}])


if __name__ == "__main__":
    sys.exit(run())
