"""LangChain's chat model for OpenAI as a client of the gateway. It shows no reasoning."""

import sys
from functools import reduce
from operator import add

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from facts import CONVERSATIONS, RECORDINGS, RESULT, prompt
from gateway import KEY, TIMEOUT, URL, case, equal, run, trust

HTTP = openai.DefaultHttpxClient(verify=trust())


def chat(r, http):
    """The model with what the case gives it."""
    effort = {"reasoning_effort": r["effort"]} if "effort" in r else {}
    model = ChatOpenAI(model=r["model"], base_url=URL, api_key=KEY, max_retries=0, timeout=TIMEOUT, stream_usage=True,
                       use_responses_api=False, **effort, **http)
    if "schema" in r:
        return model.with_structured_output({"title": "answer", **r["schema"]}, method="json_schema")
    if "tools" in r:
        return model.bind_tools([{"type": "function", "function": {**tool, "description": "What it does."}} for tool in r["tools"]])
    return model


def ask(r, messages):
    model = chat(r, {"http_client": HTTP})
    if not r["stream"]:
        return model.invoke(messages)
    return together(r, list(model.stream(messages)))


async def ask_async(r, messages):
    async with openai.DefaultAsyncHttpxClient(verify=trust()) as http:
        model = chat(r, {"http_client": HTTP, "http_async_client": http})
        if not r["stream"]:
            return await model.ainvoke(messages)
        return together(r, [chunk async for chunk in model.astream(messages)])


def together(r, chunks):
    """A message of its chunks. Of an object that is streamed each chunk is all that is there of it."""
    return chunks[-1] if "schema" in r else reduce(add, chunks)


def calls_of(message):
    assert not message.invalid_tool_calls, message
    return [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]


def check(r, got):
    if "schema" in r:
        return equal(got, r["object"])
    equal(got.content, r.get("text", ""))
    equal(calls_of(got), r.get("calls", []))
    equal(got.response_metadata["finish_reason"], r["finish"])
    equal(got.response_metadata["model_name"], r["model"])
    usage = got.usage_metadata
    equal({"prompt": usage["input_tokens"], "completion": usage["output_tokens"],
           "cached": usage["input_token_details"].get("cache_read", 0),
           "reasoning": usage["output_token_details"].get("reasoning", 0)}, r["usage"])


def answer_case(r):
    @case(r["name"])
    def sync(_):
        check(r, ask(r, [HumanMessage(prompt(r))]))

    @case(r["name"] + ", async")
    async def asynchronous(_):
        check(r, await ask_async(r, [HumanMessage(prompt(r))]))


def conversation_case(r):
    @case(r["name"])
    def converse(_):
        messages = [HumanMessage(prompt(r))]
        first = ask(r, messages)
        equal(calls_of(first), r["calls"])
        messages += [first, *(ToolMessage(RESULT, tool_call_id=call["id"]) for call in first.tool_calls)]
        equal(ask(r, messages).content, r["text"])


for recording in RECORDINGS:
    answer_case(recording)
for conversation in CONVERSATIONS:
    conversation_case(conversation)
sys.exit(run())
