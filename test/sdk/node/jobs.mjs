// Cases of what takes long: files, batches, fine-tuning jobs, models, and the webhooks that tell of their ends.

import { setTimeout as pause } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { model as echo } from './answers.mjs';
import { add, check, client, equal, raises, user } from './gateway.mjs';

const chat = '/v1/chat/completions';
const patience = 40_000; // milliseconds

// lines is the input of a batch that says each text to a model. The custom_id is the text.
const lines = (texts, model = echo) =>
  texts.map((text) => JSON.stringify({ custom_id: text, method: 'POST', url: chat, body: { model, messages: user(text) } }) + '\n').join('');

// examples is a file to train with. All answers begin and end alike, which is what the built-in provider learns.
const examples = (n) =>
  Array.from({ length: n }, (_, i) =>
    JSON.stringify({ messages: [...user(`question ${i}`), { role: 'assistant', content: `Arr, ${i * i} it be, matey!` }] }) + '\n').join('');

const upload = async (c, content, purpose = 'batch', name = 'lines.jsonl') =>
  c.files.create({ file: await toFile(Buffer.from(content), name), purpose });

const begin = async (c, texts, model) =>
  c.batches.create({ input_file_id: (await upload(c, lines(texts, model))).id, endpoint: chat, completion_window: '24h' });

const over = (job) => ['completed', 'failed', 'cancelled', 'expired', 'succeeded'].includes(job.status);

async function awaitEnd(retrieve) {
  for (const deadline = Date.now() + patience; ; await pause(50)) {
    const job = await retrieve();
    if (over(job)) return job;
    check(Date.now() < deadline, job);
  }
}

// results returns the lines of an output or error file by custom_id, of which none is there twice.
async function results(c, file) {
  const text = file ? await (await c.files.content(file)).text() : '';
  const parsed = text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const found = new Map(parsed.map((line) => [line.custom_id, line]));
  equal(found.size, parsed.length);
  return found;
}

// ids returns those of all pages of a list.
async function ids(page) {
  const found = [];
  for await (const o of page) found.push(o.id);
  equal(new Set(found).size, found.length);
  return found;
}

const sorted = (names) => [...names].sort();

add('files', async (c) => {
  const made = [];
  for (let i = 0; i < 5; i++) made.push(await upload(c, `some bytes ${i}`, 'user_data', `notes ${i}.txt`));
  equal([made[0].object, made[0].bytes, made[0].filename, made[0].purpose], ['file', 12, 'notes 0.txt', 'user_data']);
  const listed = await c.files.list({ limit: 2, purpose: 'user_data' });
  equal([listed.data.length, listed.has_more], [2, true]);
  equal((await ids(listed)).slice(0, 5), made.map((f) => f.id).reverse());
  equal(await c.files.retrieve(made[0].id), made[0]);
  equal(await (await c.files.content(made[0].id)).text(), 'some bytes 0');
  for (const f of made) {
    equal(await c.files.delete(f.id), { id: f.id, object: 'file', deleted: true });
    await raises(OpenAI.NotFoundError, () => c.files.retrieve(f.id));
  }
});

add('an upload in parts', async (c) => {
  const upload = await c.uploads.create({ bytes: 9, filename: 'parts.txt', mime_type: 'text/plain', purpose: 'user_data' });
  const first = await c.uploads.parts.create(upload.id, { data: await toFile(Buffer.from('first '), 'part') });
  const second = await c.uploads.parts.create(upload.id, { data: await toFile(Buffer.from('two'), 'part') });
  const done = await c.uploads.complete(upload.id, { part_ids: [first.id, second.id] });
  equal([done.status, done.file.bytes, done.file.filename], ['completed', 9, 'parts.txt']);
  equal(await (await c.files.content(done.file.id)).text(), 'first two');
});

add('a batch', async (c) => {
  const texts = Array.from({ length: 40 }, (_, i) => `text number ${i}, wörld`);
  const begun = await begin(c, texts);
  equal(begun.status, 'validating');
  const done = await awaitEnd(() => c.batches.retrieve(begun.id));
  equal([done.status, done.error_file_id, done.request_counts], ['completed', null, { total: 40, completed: 40, failed: 0 }]);
  const out = await results(c, done.output_file_id);
  equal(sorted(out.keys()), sorted(texts));
  for (const [text, line] of out) {
    equal([line.error, line.response.status_code, line.response.body.choices[0].message.content], [null, 200, text]);
  }
  const e = await raises(OpenAI.ConflictError, () => c.batches.cancel(begun.id));
  check(e.message.includes('completed'), e.message);
});

add('a batch that is wrong says where', async (c) => {
  const file = await upload(c, lines(['first', 'second', 'first']) + 'no JSON\n');
  const begun = await c.batches.create({ input_file_id: file.id, endpoint: chat, completion_window: '24h' });
  const done = await awaitEnd(() => c.batches.retrieve(begun.id));
  equal(done.status, 'failed');
  const found = done.errors.data.map((e) => `${e.code} ${e.line}`);
  check(found.includes('duplicate_custom_id 3') && found.includes('invalid_json_line 4'), found);
});

add('a batch is cancelled', async (c) => {
  const texts = Array.from({ length: 300 }, (_, i) => `slow ${i}`);
  const begun = await begin(c, texts, 'claude/slow');
  while ((await c.batches.retrieve(begun.id)).status === 'validating') await pause(50);
  const job = await c.batches.cancel(begun.id);
  check(['cancelling', 'cancelled'].includes(job.status), job);
  const done = await awaitEnd(() => c.batches.retrieve(begun.id));
  equal(done.status, 'cancelled');
  const [out, errors] = [await results(c, done.output_file_id), await results(c, done.error_file_id)];
  equal(sorted([...out.keys(), ...errors.keys()]), sorted(texts));
  equal([...new Set([...errors.values()].map((line) => line.error.code))], ['batch_cancelled']);
});

add('list of batches in pages', async (c) => {
  const made = [];
  for (let i = 0; i < 5; i++) made.push((await begin(c, ['hi'])).id);
  equal((await ids(await c.batches.list({ limit: 2 }))).slice(0, 5), made.toReversed());
  const last = await c.batches.list({ limit: 100 });
  equal([last.has_more, last.data[0].id], [false, made[4]]);
  for (const limit of [0, 101]) {
    equal((await raises(OpenAI.BadRequestError, () => c.batches.list({ limit }))).param, 'limit');
  }
});

add('a fine-tuning job', async (c) => {
  const file = await upload(c, examples(12), 'fine-tune');
  const job = await c.fineTuning.jobs.create({ model: echo, training_file: file.id, suffix: 'node' });
  const done = await awaitEnd(() => c.fineTuning.jobs.retrieve(job.id));
  equal([done.status, done.error], ['succeeded', null]);
  const events = await ids(await c.fineTuning.jobs.listEvents(job.id, { limit: 2 }));
  check(events.length > 2, events);
  const checkpoints = await ids(await c.fineTuning.jobs.checkpoints.list(job.id, { limit: 1 }));
  check(checkpoints.length > 0, 'no checkpoint');
  const model = done.fine_tuned_model;
  check((await ids(await c.models.list())).includes(model), 'the model is not listed');
  const said = await c.chat.completions.create({ model, messages: user('how many ships') });
  check(/^Arr, .*how many ships.* it be, matey!$/.test(said.choices[0].message.content), said.choices[0].message);
  equal(await c.models.delete(model), { id: model, object: 'model', deleted: true });
  for (const ask of [() => c.models.retrieve(model), () => c.chat.completions.create({ model, messages: user('hi') })]) {
    equal((await raises(OpenAI.NotFoundError, ask)).code, 'model_not_found');
  }
});

// delivered returns the delivery that told of an object's end.
const delivered = async (id) =>
  (await fetch(`${process.env.WEBHOOKS_URL}/delivered/${id}`, { signal: AbortSignal.timeout(patience) })).json();

add('webhooks', async (c) => {
  const secret = process.env.WEBHOOKS_SECRET;
  const batch = await begin(c, ['hi']);
  const job = await c.fineTuning.jobs.create({ model: echo, training_file: (await upload(c, examples(12), 'fine-tune')).id });
  for (const [id, type] of [[batch.id, 'batch.completed'], [job.id, 'fine_tuning.job.succeeded']]) {
    const { body, headers } = await delivered(id);
    const event = await c.webhooks.unwrap(body, headers, secret);
    equal([event.object, event.type, event.data.id], ['event', type, id]);
    await raises(OpenAI.InvalidWebhookSignatureError, () => c.webhooks.unwrap(body + ' ', headers, secret));
  }
});

add('unknown ids', async (c) => {
  for (const ask of [
    () => c.files.retrieve('file-unknown'), () => c.files.content('file-unknown'), () => c.files.delete('file-unknown'),
    () => c.batches.retrieve('batch_unknown'), () => c.batches.cancel('batch_unknown'), () => c.fineTuning.jobs.retrieve('ftjob-unknown'),
    () => c.fineTuning.jobs.listEvents('ftjob-unknown'), () => c.models.delete('nobody/nothing'),
  ]) {
    const e = await raises(OpenAI.NotFoundError, ask);
    equal(e.type, 'invalid_request_error');
    check(e.message && e.requestID, e);
  }
});

add('a file for another purpose', async (c) => {
  const file = await upload(c, examples(12), 'fine-tune');
  const e = await raises(OpenAI.BadRequestError, () => c.batches.create({ input_file_id: file.id, endpoint: chat, completion_window: '24h' }));
  equal(e.param, 'input_file_id');
});

add('an idempotency key', async (c) => {
  const headers = { 'Idempotency-Key': `node-${process.hrtime.bigint()}` };
  const body = { input_file_id: (await upload(c, lines(['hi']))).id, endpoint: chat, completion_window: '24h' };
  const first = await c.batches.create(body, { headers });
  equal((await c.batches.create(body, { headers })).id, first.id);
  let asked = 0;
  const counted = (...of) => (asked++, fetch(...of));
  const e = await raises(OpenAI.ConflictError, () =>
    client({ maxRetries: 2, fetch: counted }).batches.create({ ...body, metadata: { other: 'body' } }, { headers }));
  equal([asked, e.headers.get('x-should-retry')], [1, 'false']);
});
