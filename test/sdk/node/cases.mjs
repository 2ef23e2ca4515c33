// The official Node SDK as a client of the gateway. See ../sdk_test.go for what starts this and reads its lines.

import './answers.mjs';
import './streams.mjs';
import './failures.mjs';
import './jobs.mjs';
import './translated.mjs';
import './recorded.mjs';
import { runAll } from './gateway.mjs';

// The program is to end by itself: a connection that were left open would hang it.
process.exitCode = (await runAll()) ? 0 : 1;
