// What the cases share: clients of the gateway, and the loop that runs cases and says how each went.

import { inspect, isDeepStrictEqual } from 'node:util';
import OpenAI from 'openai';

const timeout = 20_000; // milliseconds, of any request

export const key = process.env.GATEWAY_KEY;

// client returns a client of the gateway. Nothing is tried again: what the gateway answers first is what counts. Its
// authority is trusted because $NODE_EXTRA_CA_CERTS names it.
export function client(changes) {
  return new OpenAI({ baseURL: process.env.GATEWAY_URL + '/v1', apiKey: key, maxRetries: 0, timeout, ...changes });
}

export const user = (text) => [{ role: 'user', content: text }];

const cases = [];

// add registers a case. Its function gets a client.
export function add(name, run) {
  cases.push({ name, run });
}

// runAll runs every case and prints one line for each. It returns whether all went well.
export async function runAll() {
  let good = true;
  for (const { name, run } of cases) {
    try {
      await within(3 * timeout, run(client()));
      console.log(`ok ${name}`);
    } catch (e) {
      good = false;
      console.log(`not ok ${name}: ${reason(e)}`);
    }
  }
  return good;
}

async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('it hangs')), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// reason is one line that says what went wrong, and where.
function reason(e) {
  const own = (e.stack ?? '').split('\n').filter((line) => !/node_modules|gateway\.mjs/.test(line));
  const place = /\/(\w+\.mjs:\d+):\d+\)?$/m.exec(own.join('\n'));
  return `${place ? place[1] + ' ' : ''}${e.name} ${e.message}`.replace(/\s+/g, ' ');
}

export function equal(got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`got ${inspect(got)}, want ${inspect(want)}`);
}

export function check(condition, what) {
  if (!condition) throw new Error(typeof what === 'string' ? what : inspect(what));
}

// raises returns the error of that kind which the function must raise.
export async function raises(kind, run) {
  try {
    await run();
  } catch (e) {
    if (e instanceof kind) return e;
    throw e;
  }
  throw new Error(`raised no ${kind.name}`);
}

// collect returns all chunks of a stream.
export async function collect(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
