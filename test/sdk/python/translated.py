"""Cases of a provider that speaks another dialect: the SDK must not notice."""

import json

from answers import IMAGE, TOOLS, Trip
from gateway import case, equal, user

REPORT = "claude/claude-haiku-4-5"  # tells what it was asked


def report(c, **request):
    done = c.chat.completions.create(model=REPORT, **request)
    equal(done.choices[0].finish_reason, "stop")
    return json.loads(done.choices[0].message.content)


@case("translated unary")
def unary(c):
    done = c.chat.completions.create(model="claude/text", messages=user("hi"), max_completion_tokens=50)
    equal((done.object, done.model), ("chat.completion", "claude/text"))
    equal(done.choices[0].message.content, '\n  "result": 8\n}')
    equal(done.choices[0].finish_reason, "stop")
    equal((done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens), (28, 12, 40))


@case("translated streamed")
def streamed(c):
    chunks = list(c.chat.completions.create(
        model="claude/text", messages=user("hi"), stream=True, stream_options={"include_usage": True}))
    equal({chunk.model for chunk in chunks}, {"claude/text"})
    equal(len({chunk.id for chunk in chunks}), 1)
    usage = chunks.pop().usage
    equal((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (16, 28, 44))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    equal(text, '\ndef pelican():\n    return "A large waterbird with a long bill and a throat pouch for catching fish."\n')
    equal([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason], ["stop"])
    plain = list(c.chat.completions.create(model="claude/text", messages=user("hi"), stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in plain), "usage that was not asked for"


@case("translated parallel tool calls")
def parallel(c):
    done = c.chat.completions.create(model="claude/tools", messages=user("hi"), tools=TOOLS)
    equal(done.choices[0].finish_reason, "tool_calls")
    calls = done.choices[0].message.tool_calls
    equal([call.function.name for call in calls], ["get_timezone", "final_result"])
    equal(json.loads(calls[1].function.arguments), {"city": "Sydney", "country": "Australia", "population": 5312000})
    equal([call.id for call in calls], ["toolu_01RYjj1KsnCvtj9bmK2sZWRv", "toolu_01XyJoBaLsPJKMnuWZTYKatf"])


@case("translated streamed parallel tool calls")
def streamed_parallel(c):
    with c.chat.completions.stream(model="claude/tools", messages=user("hi"), tools=TOOLS) as stream:
        done = stream.get_final_completion()
    equal(done.choices[0].finish_reason, "tool_calls")
    calls = done.choices[0].message.tool_calls
    equal([call.function.name for call in calls], ["pelican_name_generator"] * 2)
    equal([call.id for call in calls], ["toolu_01LtHJmixrs9NcWQkK8hu8hj", "toolu_01N8a4jWyf116qKTMqKKmjyt"])
    equal([json.loads(call.function.arguments) for call in calls], [{}, {}])


@case("translated system and developer messages")
def instructions(c):
    got = report(c, messages=[{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}, *user("hi")])
    equal((got["system"], got["turns"]), (["Be brief.", "Be kind."], ["user"]))


@case("translated image")
def image(c):
    equal(report(c, messages=IMAGE)["images"], ["image/png"])


@case("translated tool results in a conversation of several turns")
def turns(c):
    first = c.chat.completions.create(model="claude/tools", messages=user("hi"), tools=TOOLS).choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": f"result {i}"} for i, call in enumerate(first.tool_calls)]
    got = report(c, messages=[*user("hi"), first, *results, *user("and now?")], tools=TOOLS)
    equal((got["turns"], got["results"]), (["user", "assistant", "user"], ["result 0", "result 1"]))
    equal(got["tools"], ["get_weather", "get_time"])


@case("translated structured output")
def structured(c):
    done = c.chat.completions.parse(model=REPORT, messages=user("plan"), response_format=Trip)
    equal(done.choices[0].message.parsed, Trip(city="Paris", days=3, stops=["Louvre"]))
