// What vendors once answered, and what any client must make of it: $RECORDINGS has the answers and the facts.

import { readFileSync } from 'node:fs';
import { equal } from './gateway.mjs';

const read = (name) => JSON.parse(readFileSync(`${process.env.RECORDINGS}/${name}`));

export const recordings = read('recordings.json');
export const conversations = read('conversations.json');
export const result = '15 degrees, cloudy';

// prompt tells the vendor what to answer.
export const prompt = (r) => `replay ${r.recording}` + (r.then ? ` then ${r.then}` : '');

// checkFacts checks an answer whose text, reasoning, calls ([{ name, arguments }]), finish reason and usage a client read. What
// is left out is not checked: not every client shows everything.
export function checkFacts(r, got) {
  if (r.object) equal(got.object ?? JSON.parse(got.text), r.object);
  else equal(got.text ?? '', r.text ?? '');
  equal(got.calls ?? [], r.calls ?? []);
  equal(got.finish, r.finish);
  if ('reasoning' in got) equal(got.reasoning ?? '', r.reasoning ?? '');
  equal(got.usage, r.usage);
}
