"""What the cases share: clients of the gateway, and the loop that runs cases and says how each went."""

import asyncio
import inspect
import os
import ssl
import traceback

import openai

URL = os.environ["GATEWAY_URL"] + "/v1"
KEY = os.environ["GATEWAY_KEY"]
TIMEOUT = 20  # seconds, of any request

_cases = []


def options(**changes):
    """The options of a client. Nothing is tried again: what the gateway answers first is what counts."""
    return {"base_url": URL, "api_key": KEY, "max_retries": 0, "timeout": TIMEOUT, **changes}


def trust():
    """The gateway's authority, and no other."""
    return ssl.create_default_context(cafile=os.environ["GATEWAY_CA"])


def client(**changes):
    return openai.OpenAI(http_client=openai.DefaultHttpxClient(verify=trust()), **options(**changes))


def async_client(**changes):
    return openai.AsyncOpenAI(http_client=openai.DefaultAsyncHttpxClient(verify=trust()), **options(**changes))


def user(text):
    return [{"role": "user", "content": text}]


def case(name):
    """Registers a function as the case of that name. It gets a client, an asynchronous one where it is a coroutine."""

    def register(function):
        _cases.append((name, function))
        return function

    return register


async def _run_async(function):
    async with async_client() as c:
        await asyncio.wait_for(function(c), 3 * TIMEOUT)


def _reason(error):
    """One line that says what went wrong, and where."""
    at = traceback.extract_tb(error.__traceback__)
    own = [f for f in at if os.path.dirname(f.filename) == os.path.dirname(os.path.abspath(__file__)) and f.name != "run"]
    place = f"{os.path.basename(own[-1].filename)}:{own[-1].lineno} {own[-1].line}: " if own else ""
    return " ".join(f"{place}{type(error).__name__} {error}".split())


def run():
    """Runs every case and prints one line for each. Returns the exit code."""
    failed = 0
    for name, function in _cases:
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(_run_async(function))
            else:
                with client() as c:
                    function(c)
        except Exception as e:
            failed += 1
            print(f"not ok {name}: {_reason(e)}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    return 1 if failed else 0


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def raises(kind, function):
    """Returns the error of that kind which the function must raise."""
    try:
        function()
    except kind as e:
        return e
    raise AssertionError(f"raised no {kind.__name__}")
