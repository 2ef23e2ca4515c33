// The browser: what is watched on every page, and what a case is.
import { readFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const base = process.env.DASHBOARD_URL;
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const pictures = process.env.SCREENSHOTS;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  // Without a user namespace, as in a container, Chromium cannot make its sandbox. It visits nothing but this gateway.
  args: ["--no-sandbox"],
});

// reports are what the consoles and the policy of pages had to say.
const reports = [];

// open returns a page in a browser of its own, without cookies.
export async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ignoreHTTPSErrors: true, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.on("console", (m) => {
    if (["error", "warning"].includes(m.type()) && !m.text().includes("the server responded with a status of")) reports.push(`${page.url()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => reports.push(`${page.url()}: ${e.message}`));
  return page;
}

export const close = () => browser.close();

// quiet fails where a page has said something that it should not.
export function quiet() {
  const said = reports.splice(0);
  if (said.length) throw new Error([...new Set(said)].join("; "));
}

let failed = 0;

// test runs one case. Those that follow run all the same.
export async function test(name, run) {
  const began = Date.now();
  try {
    await run();
    quiet();
    console.log(`ok ${name}`);
  } catch (e) {
    failed++;
    process.exitCode = 1;
    console.log(`not ok ${name}: ${String(e.message ?? e).replaceAll("\n", " ").slice(0, 1500)}`);
  }
  if (Date.now() - began > 60_000) console.error(`${name} took ${Date.now() - began} ms`);
}

export function equal(got, want, what = "") {
  if (got !== want) throw new Error(`${what} got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// until waits for what happens in another process.
export async function until(what, check, limit = 30_000) {
  const deadline = Date.now() + limit;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

// inspect looks for what keeps people from using a page: axe's rules of WCAG A and AA and its best practices, a page that is wider
// than its window, and on a desktop a table of which the last columns are out of sight.
export async function inspect(page, name) {
  if (pictures) {
    mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, name + ".png"), fullPage: true });
  }
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  const found = wide > window ? [`${wide} px wide in a window of ${window}`] : [];
  if (window >= 1280) {
    found.push(...await page.evaluate(() => [...document.querySelectorAll(".scroll")].filter((s) => s.scrollWidth > s.clientWidth + 1)
      .map((s) => `the table ${s.getAttribute("aria-label")} is ${s.scrollWidth} px wide and has ${s.clientWidth}`)));
  }
  // Not by a script element, which the policy of the page would refuse.
  const violations = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) =>
    v.id + " at " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join(", ")))`);
  found.push(...violations);
  return found.map((f) => `${name}: ${f}`);
}

// first makes the account of the owner by the link of the first start.
export async function first(page, password) {
  await page.goto(process.env.DASHBOARD_LINK);
  await page.getByLabel("Name The name").fill("ada");
  await page.getByLabel("Full name").fill("Ada Lovelace");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Create the account" }).click();
  await page.waitForURL(base + "/");
}

// signOut uses the menu of the account.
export async function signOut(page) {
  await page.getByTitle("Your account", { exact: true }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
}

export async function signIn(page, name, password) {
  await page.goto(base + "/sign-in");
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(base + "/");
}
