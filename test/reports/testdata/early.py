"""Asks what early_test.go says, over HTTP/2, and says for each case whether the answer arrived every time.

Ten clients ask at the same time, each of them one request after the other: httpcore 1.0 stalls where several requests send bodies on one
connection, whatever the server does.
"""

import asyncio
import os
import ssl
import sys

import httpx

URL, TIMES = os.environ["GATEWAY_URL"], int(os.environ["TIMES"])
CLIENTS = 10
with open(os.environ["BODY"], "rb") as f:
    BODY = f.read()


async def ask(trust, line):
    _, method, path, authorization, content_type, encoding, want = line
    headers = {"authorization": authorization, "content-type": content_type, "content-encoding": encoding}
    wrong = []
    async with httpx.AsyncClient(http2=True, verify=trust, timeout=10) as client:
        for _ in range(TIMES // CLIENTS):
            try:
                answer = await client.request(method, URL + path, headers={k: v for k, v in headers.items() if v}, content=BODY)
            except httpx.HTTPError as e:
                wrong.append(repr(e))
                continue
            if answer.http_version != "HTTP/2":
                wrong.append("it is " + answer.http_version)
            elif str(answer.status_code) not in want.split(",") or "error" not in answer.json():
                wrong.append(f"{answer.status_code}: {answer.text[:200]}")
    return wrong


async def main():
    failed = False
    trust = ssl.create_default_context(cafile=os.environ["GATEWAY_CA"])
    for line in (line.split("\t") for line in os.environ["CASES"].splitlines()):
        wrong = sum(await asyncio.gather(*(ask(trust, line) for _ in range(CLIENTS))), [])
        failed |= bool(wrong)
        print(f"not ok {line[0]}: {len(wrong)} of {TIMES}, such as {wrong[0]}" if wrong else f"ok {line[0]}", flush=True)
    return failed


sys.exit(asyncio.run(main()))
