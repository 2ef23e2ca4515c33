"""Cases of what vendors once answered, as the SDK's own accumulators read it."""

import json
from typing import List

from pydantic import create_model

from facts import CONVERSATIONS, RECORDINGS, RESULT, prompt
from gateway import case, equal, user


def tools(r):
    return [{"type": "function", "function": {**tool, "strict": True}} for tool in r.get("tools", [])]


def python_type(name, schema):
    """The type of what a schema describes."""
    if schema["type"] == "object":
        return create_model(name, **{k: (python_type(k, v), ...) for k, v in schema["properties"].items()})
    if schema["type"] == "array":
        return List[python_type(name, schema["items"])]
    return {"string": str, "integer": int, "number": float}[schema["type"]]


def options(r):
    given = {"model": r["model"], "messages": user(prompt(r))}
    if "tools" in r:
        given["tools"] = tools(r)
    if "schema" in r:
        given["response_format"] = python_type("answer", r["schema"])
    if "effort" in r:
        given["reasoning_effort"] = r["effort"]
    return given


def check_usage(usage, want):
    equal((usage.prompt_tokens, usage.completion_tokens), (want["prompt"], want["completion"]))
    equal(usage.total_tokens, want["prompt"] + want["completion"])
    equal((usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0, want["cached"])
    equal((usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens) or 0, want["reasoning"])


def check(r, done):
    """Checks a complete answer against the facts."""
    equal(done.model, r["model"])
    [choice] = done.choices
    message = choice.message
    equal((message.role, message.refusal, choice.finish_reason), ("assistant", None, r["finish"]))
    if "object" in r:
        equal(message.parsed.model_dump(), r["object"])
    else:
        equal(message.content or "", r.get("text", ""))
    equal(getattr(message, "reasoning_content", None) or "", r.get("reasoning", ""))
    equal([{"name": c.function.name, "arguments": json.loads(c.function.arguments)} for c in message.tool_calls or []], r.get("calls", []))
    equal([c.function.parsed_arguments for c in message.tool_calls or []], [c["arguments"] for c in r.get("calls", [])])
    equal(len({c.id for c in message.tool_calls or []}), len(r.get("calls", [])))
    if "annotations" in r:
        equal(len(message.annotations), r["annotations"])
    check_usage(done.usage, r["usage"])


def streamed(c, **given):
    with c.chat.completions.stream(stream_options={"include_usage": True}, **given) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def check_chunks(chunks):
    """Checks what every stream must be, of whichever vendor: the SDK's accumulator forgives much."""
    equal(len({(c.id, c.model, c.created, c.object) for c in chunks}), 1)
    *rest, last = chunks
    equal(last.choices, [])
    equal([(len(c.choices), c.usage) for c in rest], [(1, None)] * len(rest))
    choices = [c.choices[0] for c in rest]
    equal([i for i, choice in enumerate(choices) if choice.delta.role], [0])
    equal([i for i, choice in enumerate(choices) if choice.finish_reason], [len(choices) - 1])
    calls = [call for choice in choices for call in choice.delta.tool_calls or []]
    begun = [call for call in calls if call.id]
    equal([call.index for call in begun], list(range(len(begun))))
    equal([call.index for call in calls], sorted(call.index for call in calls))
    assert all(call.type == "function" and call.function.name for call in begun), begun


def answer_case(r):
    @case(r["name"])
    def run(c):
        given = options(r)
        if not r["stream"]:
            return check(r, c.chat.completions.parse(**given))
        check(r, streamed(c, **given))
        if "schema" not in r:
            check_chunks(list(c.chat.completions.create(stream=True, stream_options={"include_usage": True}, **given)))


def results(message):
    return [{"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in message.tool_calls]


def bare(message):
    """What the strictest client keeps of a message: text, and of the calls id, name and arguments."""
    calls = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
             for c in message.tool_calls]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


def conversation_case(r):
    @case(r["name"])
    def run(c):
        def plain(**given):
            return c.chat.completions.create(**given)

        def helper(**given):
            return streamed(c, **given)

        for ask in [helper] if r["stream"] else [plain, c.chat.completions.parse]:
            for keep in (lambda message: message, bare):
                given = options(r)
                message = ask(**given).choices[0].message
                equal([{"name": call.function.name, "arguments": json.loads(call.function.arguments)}
                       for call in message.tool_calls], r["calls"])
                given["messages"] = given["messages"] + [keep(message)] + results(message)
                done = ask(**given).choices[0]
                equal((done.message.content, done.finish_reason), (r["text"], "stop"))


for r in RECORDINGS:
    answer_case(r)
for r in CONVERSATIONS:
    conversation_case(r)
