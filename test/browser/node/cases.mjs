// What people do with the dashboard, from the link of the first start to a key that is revoked.
import { base, close, equal, first, inspect, open, quiet, signIn, signOut, test, until } from "./browser.mjs";
import { charts } from "./charts.mjs";
import { elsewhere } from "./elsewhere.mjs";
import { setUp } from "./setup.mjs";
