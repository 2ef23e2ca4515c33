"""Cases of what takes long: files, batches, fine-tuning jobs, models, and the webhooks that tell of their ends."""

import asyncio
import io
import json
import os
import time
import urllib.request

import openai

from answers import ECHO
from gateway import case, client, equal, raises, user

CHAT = "/v1/chat/completions"
PATIENCE = 40  # seconds


def lines(*texts, model=ECHO):
    """The input of a batch that says each text to a model. The custom_id is the text."""
    return "".join(json.dumps({"custom_id": text, "method": "POST", "url": CHAT,
                               "body": {"model": model, "messages": user(text)}}) + "\n" for text in texts).encode()


def examples(n):
    """A file to train with. All answers begin and end alike, which is what the built-in provider learns."""
    return "".join(json.dumps({"messages": [*user(f"question {i}"), {"role": "assistant", "content": f"Arr, {i * i} it be, matey!"}]}) + "\n"
                   for i in range(n)).encode()


def upload(c, content, purpose="batch", name="lines.jsonl"):
    return c.files.create(file=(name, content), purpose=purpose)


def begin(c, *texts, **changes):
    return c.batches.create(input_file_id=upload(c, lines(*texts, **changes)).id, endpoint=CHAT, completion_window="24h")


def over(job):
    return job.status in ("completed", "failed", "cancelled", "expired", "succeeded")


def await_end(retrieve, id):
    deadline = time.monotonic() + PATIENCE
    while not over(job := retrieve(id)):
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


def results(c, file):
    """The lines of an output or error file by custom_id, of which none is there twice."""
    parsed = [json.loads(line) for line in c.files.content(file).text.splitlines()] if file else []
    found = {line["custom_id"]: line for line in parsed}
    equal(len(found), len(parsed))
    return found


def ids(page):
    found = [o.id for o in page]
    equal(len(found), len(set(found)))
    return found


@case("files")
def files(c):
    made = [upload(c, b"some bytes %d" % i, "user_data", f"notes {i}.txt") for i in range(5)]
    equal((made[0].object, made[0].bytes, made[0].filename, made[0].purpose), ("file", 12, "notes 0.txt", "user_data"))
    listed = c.files.list(limit=2, purpose="user_data")
    equal((len(listed.data), listed.has_more), (2, True))
    equal(ids(listed)[:5], [f.id for f in reversed(made)])
    equal(ids(c.files.list(limit=2, purpose="user_data", order="asc"))[-5:], [f.id for f in made])
    equal(c.files.list(after=made[1].id, limit=1, purpose="user_data").data[0].id, made[0].id)
    equal(c.files.retrieve(made[0].id), made[0])
    equal(c.files.content(made[0].id).read(), b"some bytes 0")
    for f in made:
        gone = c.files.delete(f.id)
        equal((gone.id, gone.object, gone.deleted), (f.id, "file", True))
        raises(openai.NotFoundError, lambda: c.files.retrieve(f.id))
    assert not {f.id for f in made} & set(ids(c.files.list())), "a deleted file is listed"


@case("a file expires")
def expiring(c):
    never, batch = upload(c, b"x", "user_data", "x"), upload(c, lines("hi"))
    equal((never.expires_at, batch.expires_at), (None, batch.created_at + 30 * 86400))
    soon = c.files.create(file=("x.txt", b"x"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600})
    equal(soon.expires_at, soon.created_at + 3600)


@case("an upload in parts")
def parts(c):
    content = bytes(range(256)) * 1000
    file = c.uploads.upload_file_chunked(
        file=content, filename="parts.bin", bytes=len(content), mime_type="application/octet-stream", purpose="user_data", part_size=100_000)
    equal((file.status, file.file.bytes, file.file.filename), ("completed", len(content), "parts.bin"))
    equal(c.files.content(file.file.id).read(), content)
    begun = c.uploads.create(bytes=3, filename="x", mime_type="text/plain", purpose="user_data")
    c.uploads.parts.create(begun.id, data=b"abc")
    equal(c.uploads.cancel(begun.id).status, "cancelled")


def check_batch(done, texts):
    equal((done.status, done.endpoint, done.completion_window), ("completed", CHAT, "24h"))
    equal((done.request_counts.total, done.request_counts.completed, done.request_counts.failed), (len(texts), len(texts), 0))
    equal((done.errors, done.error_file_id, done.failed_at), (None, None, None))
    assert done.created_at <= done.in_progress_at <= done.finalizing_at <= done.completed_at, done
    equal(done.expires_at, done.created_at + 86400)
    equal(done.metadata, {"asked_by": "a test"})
    equal(done.usage.total_tokens, done.usage.input_tokens + done.usage.output_tokens)


@case("a batch")
def batch(c):
    texts = [f"text number {i}, wörld" for i in range(40)]
    begun = c.batches.create(input_file_id=upload(c, lines(*texts)).id, endpoint=CHAT, completion_window="24h", metadata={"asked_by": "a test"})
    equal(begun.status, "validating")
    done = await_end(c.batches.retrieve, begun.id)
    check_batch(done, texts)
    out = results(c, done.output_file_id)
    equal(set(out), set(texts))
    for text, line in out.items():
        equal((line["error"], line["response"]["status_code"]), (None, 200))
        equal(line["response"]["body"]["choices"][0]["message"]["content"], text)
    equal(sum(line["response"]["body"]["usage"]["prompt_tokens"] for line in out.values()), done.usage.input_tokens)
    equal(c.files.retrieve(done.output_file_id).purpose, "batch_output")
    e = raises(openai.ConflictError, lambda: c.batches.cancel(begun.id))
    assert "completed" in e.message, e.message


@case("a batch, async")
async def batch_async(c):
    texts = ["one", "two"]
    file = await c.files.create(file=("lines.jsonl", io.BytesIO(lines(*texts))), purpose="batch")
    job = await c.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"asked_by": "a test"})
    while not over(job):
        await asyncio.sleep(0.05)
        job = await c.batches.retrieve(job.id)
    check_batch(job, texts)
    content = await c.files.content(job.output_file_id)
    equal({json.loads(line)["custom_id"] for line in content.text.splitlines()}, set(texts))
    assert job.id in [b.id async for b in c.batches.list(limit=1)], "the batch is not listed"
    assert [f.id async for f in c.files.list(purpose="batch_output")], "no output is listed"


@case("a batch that is wrong says where")
def wrong_batch(c):
    content = lines("first", "second", "first") + b"no JSON\n"
    job = c.batches.create(input_file_id=upload(c, content).id, endpoint=CHAT, completion_window="24h")
    done = await_end(c.batches.retrieve, job.id)
    equal((done.status, done.output_file_id), ("failed", None))
    found = {(e.code, e.line) for e in done.errors.data}
    assert {("duplicate_custom_id", 3), ("invalid_json_line", 4)} <= found, found


@case("a batch is cancelled")
def cancelled_batch(c):
    texts = [f"slow {i}" for i in range(300)]
    begun = begin(c, *texts, model="claude/slow")
    while c.batches.retrieve(begun.id).status == "validating":
        time.sleep(0.05)
    job = c.batches.cancel(begun.id)
    assert job.status in ("cancelling", "cancelled"), job
    done = await_end(c.batches.retrieve, begun.id)
    equal(done.status, "cancelled")
    out, errors = results(c, done.output_file_id), results(c, done.error_file_id)
    equal(set(out) | set(errors), set(texts))
    equal(len(out) + len(errors), len(texts))
    equal({line["error"]["code"] for line in errors.values()}, {"batch_cancelled"})
    assert done.cancelling_at <= done.cancelled_at, done


@case("list of batches in pages")
def batches_paged(c):
    made = [begin(c, "hi").id for _ in range(5)]
    equal(ids(c.batches.list(limit=2))[:5], made[::-1])
    page = c.batches.list(limit=3, after=made[3])
    equal([b.id for b in page.data], made[2::-1])
    last = c.batches.list(limit=100)
    equal((last.has_more, last.data[0].id), (False, made[4]))
    for limit in (0, 101):
        equal(raises(openai.BadRequestError, lambda: c.batches.list(limit=limit)).param, "limit")


@case("a fine-tuning job")
def tuning(c):
    file = upload(c, examples(12), "fine-tune")
    job = c.fine_tuning.jobs.create(model=ECHO, training_file=file.id, suffix="sdk", seed=7,
                                    method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}})
    equal((job.object, job.model, job.training_file, job.seed), ("fine_tuning.job", ECHO, file.id, 7))
    assert job.status in ("validating_files", "queued"), job.status
    done = await_end(c.fine_tuning.jobs.retrieve, job.id)
    equal((done.status, done.error), ("succeeded", None))
    assert done.finished_at >= done.created_at and done.trained_tokens > 0, done
    assert done.id in ids(c.fine_tuning.jobs.list(limit=1)), "the job is not listed"

    events = list(c.fine_tuning.jobs.list_events(job.id, limit=2))
    assert len(events) > 2 and len({e.id for e in events}) == len(events), events
    assert [e.created_at for e in events] == sorted((e.created_at for e in events), reverse=True), "not newest first"
    equal({e.object for e in events}, {"fine_tuning.job.event"})
    assert any(e.type == "metrics" and "train_loss" in e.data for e in events), "no metrics"
    checkpoints = list(c.fine_tuning.jobs.checkpoints.list(job.id, limit=1))
    assert checkpoints, "no checkpoint"
    equal({p.fine_tuning_job_id for p in checkpoints}, {job.id})
    assert checkpoints[0].metrics.step == checkpoints[0].step_number, checkpoints[0]
    for id in done.result_files:
        assert "step" in c.files.content(id).text

    model = done.fine_tuned_model
    assert "sdk" in model, model
    assert model in [m.id for m in c.models.list()], "the model is not listed"
    equal(c.models.retrieve(model).id, model)
    said = c.chat.completions.create(model=model, messages=user("how many ships")).choices[0].message.content
    assert said.startswith("Arr, ") and said.endswith(" it be, matey!") and "how many ships" in said, said
    gone = c.models.delete(model)
    equal((gone.id, gone.deleted), (model, True))
    for ask in (lambda: c.models.retrieve(model), lambda: c.models.delete(model),
                lambda: c.chat.completions.create(model=model, messages=user("hi"))):
        equal(raises(openai.NotFoundError, ask).code, "model_not_found")
    e = raises(openai.APIStatusError, lambda: c.fine_tuning.jobs.cancel(job.id))
    assert e.status_code in (400, 409) and "completed" in e.message, e


@case("a fine-tuning job that cannot be")
def wrong_tuning(c):
    file = upload(c, examples(12), "fine-tune").id
    for changes, param in (
        ({"suffix": "x" * 65}, "suffix"), ({"seed": -1}, "seed"), ({"model": "nobody/nothing"}, "model"),
        ({"training_file": "file-unknown"}, "training_file"), ({"training_file": upload(c, lines("x")).id}, "training_file"),
        ({"method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 51}}}}, "method.supervised.hyperparameters.n_epochs"),
    ):
        e = raises(openai.APIStatusError, lambda: c.fine_tuning.jobs.create(**{"model": ECHO, "training_file": file, **changes}))
        assert e.status_code in (400, 404), e
        equal(e.param, param)


def delivered(id):
    """The delivery that told of an object's end: its body and its headers."""
    with urllib.request.urlopen(f"{os.environ['WEBHOOKS_URL']}/delivered/{id}", timeout=PATIENCE) as answer:
        found = json.load(answer)
    return found["body"], found["headers"]


@case("webhooks")
def webhooks(c):
    secret = os.environ["WEBHOOKS_SECRET"]
    batch = begin(c, "hi")
    job = c.fine_tuning.jobs.create(model=ECHO, training_file=upload(c, examples(12), "fine-tune").id)
    for id, kind in ((batch.id, "batch.completed"), (job.id, "fine_tuning.job.succeeded")):
        body, headers = delivered(id)
        event = c.webhooks.unwrap(body, headers, secret=secret)
        equal((event.object, event.type, event.data.id), ("event", kind, id))
        raises(openai.InvalidWebhookSignatureError, lambda: c.webhooks.unwrap(body + " ", headers, secret=secret))
        raises(openai.InvalidWebhookSignatureError, lambda: c.webhooks.unwrap(body, headers, secret="whsec_" + "A" * 32))


@case("unknown ids")
def unknown_ids(c):
    for ask in (
        lambda: c.files.retrieve("file-unknown"), lambda: c.files.content("file-unknown"), lambda: c.files.delete("file-unknown"),
        lambda: c.batches.retrieve("batch_unknown"), lambda: c.batches.cancel("batch_unknown"),
        lambda: c.fine_tuning.jobs.retrieve("ftjob-unknown"), lambda: c.fine_tuning.jobs.cancel("ftjob-unknown"),
        lambda: c.fine_tuning.jobs.list_events("ftjob-unknown"), lambda: c.fine_tuning.jobs.checkpoints.list("ftjob-unknown"),
        lambda: c.models.retrieve("nobody/nothing"), lambda: c.models.delete("nobody/nothing"), lambda: c.uploads.cancel("upload_unknown"),
    ):
        e = raises(openai.NotFoundError, ask)
        equal(e.type, "invalid_request_error")
        assert e.message and e.request_id, e


@case("a file for another purpose")
def wrong_purpose(c):
    file = upload(c, examples(12), "fine-tune").id
    e = raises(openai.BadRequestError, lambda: c.batches.create(input_file_id=file, endpoint=CHAT, completion_window="24h"))
    equal(e.param, "input_file_id")
    e = raises(openai.BadRequestError, lambda: upload(c, b"x", "batch", "picture.png"))
    assert ".jsonl" in e.message, e.message


@case("an idempotency key")
def idempotency(c):
    key = {"Idempotency-Key": f"python-{time.time_ns()}"}
    file = upload(c, lines("hi")).id
    body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    first = c.batches.create(**body, extra_headers=key)
    equal(c.batches.create(**body, extra_headers=key), first)
    asked = []
    with client(max_retries=2) as retrying:
        retrying._client.event_hooks["response"] = [lambda r: asked.append(r.headers.get("x-should-retry"))]
        raises(openai.ConflictError, lambda: retrying.batches.create(**body, metadata={"other": "body"}, extra_headers=key))
    equal(asked, ["false"])
    key = {"Idempotency-Key": f"python-file-{time.time_ns()}"}
    made = c.files.create(file=("x.txt", b"x"), purpose="user_data", extra_headers=key)
    equal(c.files.create(file=("x.txt", b"x"), purpose="user_data", extra_headers=key).id, made.id)
    raises(openai.ConflictError, lambda: c.files.create(file=("x.txt", b"y"), purpose="user_data", extra_headers=key))
