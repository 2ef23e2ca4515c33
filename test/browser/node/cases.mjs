// What people do with the dashboard, from the link of the first start to a key that is revoked.
import { base, close, equal, first, inspect, open, quiet, signIn, signOut, test, until } from "./browser.mjs";
import { charts } from "./charts.mjs";
import { elsewhere } from "./elsewhere.mjs";
import { filtered } from "./filters.mjs";
import { accountMenu, groups, phone } from "./frame.mjs";
import { columns, head, rows, several, sorted } from "./lists.mjs";
import { setUp } from "./setup.mjs";

const gateway = process.env.GATEWAY_URL, password = "correct horse battery";

// chat calls the gateway as a client does.
async function chat(key, model = "echo/echo") {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST", headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  return { status: response.status, body: await response.json() };
}

const page = await open();
let key, keyPage, requestPath, refusedPath, requestPage, batchPage;

await test("the link of the first start makes an owner", async () => {
  await first(page, password);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const again = await open();
  equal((await again.goto(process.env.DASHBOARD_LINK)).status(), 410, "the link a second time");
  await again.context().close();
});

await test("sign out and in", async () => {
  await signOut(page);
  await page.waitForURL(/sign-in/);
  await page.goto(base + "/keys");
  await page.waitForURL(/sign-in\?next=%2Fkeys/);
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("The name or the password is wrong.").waitFor();
  await page.getByLabel("Password").fill(password);
  await page.keyboard.press("Enter");
  await page.waitForURL(base + "/keys");
});

await test("a gateway is set up by the first steps", () => setUp(page, chat));

await test("an account for somebody else", async () => {
  await page.getByRole("link", { name: "Access", exact: true }).click();
  await page.getByRole("link", { name: "People" }).click();
  await page.getByRole("link", { name: "New account" }).click();
  await page.getByLabel("Name The name").fill("vera");
  await page.getByLabel("Password At least").fill(password);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Created.").waitFor();
  await page.getByRole("row", { name: /vera.*viewer/ }).waitFor();
});

await test("a key is made and shown once", async () => {
  await page.goto(base + "/keys");
  await page.getByRole("link", { name: "New key" }).click();
  await page.getByLabel("Name A name").fill("browser");
  await page.getByLabel("Organization The organization").fill("acme");
  await page.locator("[name=limit_unit]").first().selectOption("HOUR");
  await page.getByLabel("Limit", { exact: true }).first().fill("3");
  await page.getByRole("button", { name: "Add a limit" }).click();
  await page.getByLabel("What is counted").nth(1).selectOption("tokens");
  await page.getByLabel("Limit", { exact: true }).nth(1).fill("100000");
  await page.getByLabel("Per month").fill("10");
  await page.getByRole("button", { name: "Create the key" }).click();
  key = await page.locator("#the-key").textContent();
  if (!key.startsWith("sk-mg-")) throw new Error("this is no key: " + key.slice(0, 6));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  equal(await page.evaluate(() => navigator.clipboard.readText()), key, "the clipboard");
  await page.getByRole("link", { name: "Show the key" }).click();
  keyPage = page.url();
  if ((await page.content()).includes(key)) throw new Error("the key is shown again");
});

await test("the gateway takes the key, and its use is seen", async () => {
  await until("the key is in force", async () => (await chat(key)).status === 200);
  await page.goto(keyPage);
  await until("what is used is shown", async () => {
    const shown = await page.locator("#consumption").textContent();
    return /[1-3] of 3/.test(shown);
  }, 60_000);
  await page.goto(base + "/requests");
  await until("the request is in the log", async () => {
    await page.reload();
    return (await page.getByRole("row", { name: /echo\/echo.*200 finished/ }).count()) > 0;
  }, 60_000);
  requestPage = await page.locator("#rows tbody a").first().getAttribute("href");
  await page.goto(base + "/usage?by=model");
  await page.getByRole("rowheader", { name: "echo/echo", exact: true }).waitFor();
  await page.locator(".uplot canvas").first().waitFor();
});

await test("one time range holds for all pages, and a drag over a chart zooms", async () => {
  await page.goto(base + "/usage?range=1h&by=key");
  await page.getByRole("rowheader", { name: /^browser key_/ }).waitFor();
  const chart = page.getByRole("img", { name: /^Usage\. .*browser: / });
  await page.getByText("Show as a table").click();
  await page.getByRole("region", { name: "Usage, as a table" }).getByRole("columnheader", { name: "browser" }).waitFor();
  await page.getByLabel("Compare with the previous period").check();
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("rowheader", { name: "Previous period", exact: true }).waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.waitForURL(/\/\?compare=true&range=1h$/);
  await page.goBack();
  const box = await chart.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 1, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/range=custom&.*from=.*to=/);
  await page.getByRole("rowheader", { name: /^browser key_/ }).waitFor();
  const [from, to] = await Promise.all(["From (UTC)", "To (UTC)"].map((label) => page.getByLabel(label).inputValue()));
  const minutes = (new Date(to) - new Date(from)) / 60_000;
  if (minutes < 25 || minutes > 32) throw new Error(`half an hour was dragged over, and ${minutes} minutes are shown`);
});

await test("the limit of the key is hit", async () => {
  const refused = await until("a request is refused", async () => {
    const answer = await chat(key);
    return answer.status === 429 && answer;
  });
  equal(refused.body.error.code, "rate_limit_exceeded", "the code");
  await page.goto(keyPage);
  await until("all of it is used", async () => /3 of 3/.test(await page.locator("#consumption").textContent()), 60_000);
});

await test("a request has a page, is searched and counted", async () => {
  await page.goto(base + "/requests?range=1h");
  await page.getByRole("link", { name: /^Errors/ }).waitFor();
  await page.getByRole("img", { name: /^Requests by outcome\./ }).waitFor();
  await page.getByLabel("Key", { exact: true }).fill("browser");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL(/key_name=browser/);
  await page.getByRole("row", { name: /echo\/echo.*200 finished/ }).first().getByRole("link").first().click();
  await page.getByRole("heading", { name: "Attempts" }).waitFor();
  requestPath = new URL(page.url()).pathname;
  await page.getByRole("row", { name: /limit tokens per/ }).waitFor();
  const id = await page.locator("#request-id").textContent();
  await page.getByRole("button", { name: "Copy the request id" }).click();
  await page.getByText("Copied").waitFor();
  equal(await page.evaluate(() => navigator.clipboard.readText()), id, "the clipboard");
  await page.goto(base + "/requests?request_id=" + id);
  equal(await page.locator("#rows tbody tr").count(), 1, "requests with the id");
  await until("the refused request is in the log", async () => {
    await page.goto(base + "/requests?outcome=rejected&range=1h");
    return (await page.locator("#rows tbody tr").count()) > 0;
  }, 60_000);
  await page.locator("#rows tbody tr a").first().click();
  await page.getByText("Refused by").waitFor();
  refusedPath = new URL(page.url()).pathname;
  await page.goto(base + "/requests?min_cost_usd=1000");
  await page.getByText("No matching requests").waitFor();
});

await test("live rows come by themselves, and a click on the chart chooses a time", async () => {
  await page.goto(base + "/requests?range=1h");
  await page.getByRole("link", { name: "Live" }).click();
  await page.waitForURL(/live=true/);
  const before = await page.locator("#rows tbody tr").count();
  await chat(process.env.GATEWAY_KEY);
  await until("another row", async () => (await page.locator("#rows tbody tr").count()) > before, 60_000);
  await page.getByRole("link", { name: "Stop" }).click();
  await page.waitForURL((url) => !url.search.includes("live"));
  const plot = page.locator(".u-over").first();
  const box = await plot.boundingBox();
  await plot.click({ position: { x: box.width - 30, y: box.height / 2 } });
  await page.waitForURL(/range=custom/);
});

await test("search finds the key while one types", async () => {
  await page.goto(base + "/keys");
  await page.keyboard.press("/");
  await page.keyboard.type("brows");
  await page.waitForURL(/q=brows/);
  await page.locator("#results").getByRole("link", { name: "browser" }).waitFor();
  await page.keyboard.type("zzz");
  await page.getByText("No matching keys").waitFor();
});

await test("a provider is added and its credential tested", async () => {
  await page.goto(base + "/new/provider?vendor=openai");
  await page.getByLabel("Name The prefix").fill("mine");
  await page.getByLabel(/^Endpoint/).fill("http://127.0.0.1:9");
  await page.getByLabel(/^Credential/).fill("sk-of-nobody");
  await page.getByRole("button", { name: "Test" }).click();
  await page.getByRole("button", { name: "Add it anyway" }).click();
  await page.getByRole("heading", { name: "Provider mine" }).waitFor();
  await page.getByRole("button", { name: "Test the credential" }).click();
  await page.locator("#test .problem").waitFor();
  if ((await page.content()).includes("sk-of-nobody")) throw new Error("the credential is shown");
});

await test("a form says beside the field what is wrong, and its message leads back", async () => {
  await page.goto(base + "/form/Guardrail");
  await page.getByRole("link", { name: "Fill in an example" }).click();
  await page.getByLabel(/^Window/).fill("7");
  await page.getByRole("button", { name: "Create" }).click();
  const window = page.locator("[name=window]");
  equal(await window.getAttribute("aria-invalid"), "true", "the field");
  const found = await inspect(page, "form-refused");
  if (found.length) throw new Error(found.join("; "));
  await window.fill("64");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText("Created.").waitFor();
  await page.getByLabel(/^Window/).fill("128");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("status").getByText("By ada.").waitFor();
  await page.getByRole("link", { name: "Undo…" }).click();
  await page.getByRole("heading", { name: /^Roll back Guardrail personal-data/ }).waitFor();
  await page.getByText("window: 128").first().waitFor();
});

await test("the overview tells what needs attention, and leads to it", async () => {
  await page.goto(keyPage);
  await page.getByLabel("Expires").fill(new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 16));
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  await until("the key is told", async () => {
    await page.goto(base + "/");
    return page.getByText("The key browser expires on").isVisible();
  });
  await page.getByRole("link", { name: /^Open Key/ }).first().click();
  await page.waitForURL(keyPage);
});

await test("a model is made, and says where a request goes", async () => {
  await page.goto(base + "/new/model");
  await page.getByLabel("Name The value").fill("team/fast");
  await page.locator("[name=target_provider]").selectOption("echo");
  await page.getByLabel("The provider's model name").fill("echo");
  await page.getByRole("button", { name: "Add a target" }).click();
  await page.locator("[name=target_provider]").nth(1).selectOption("mine");
  await page.getByLabel("Priority").nth(1).fill("1");
  await page.getByLabel("The provider's model name").nth(1).fill("gpt-4o-mini");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Routing of a request" }).waitFor();
  equal(await page.locator("section tbody tr").count(), 2, "targets");
  await until("the model is in force", async () => (await chat(process.env.GATEWAY_KEY, "team/fast")).status === 200);
});

await test("the editor shows the difference before it saves", async () => {
  await page.goto(base + "/objects/Model/team/fast");
  const text = page.getByLabel("YAML");
  await text.fill((await text.inputValue()) + "owned_by: nobody\nnot_a_field: 1\n");
  await page.locator("#check .problem").waitFor();
  await text.fill((await text.inputValue()).replace("not_a_field: 1\n", ""));
  await page.locator("#check .diff .add", { hasText: "owned_by: nobody" }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
});

await test("a batch is watched", async () => {
  const lines = Array.from({ length: 400 }, (_, i) => JSON.stringify({
    custom_id: "r" + i, method: "POST", url: "/v1/chat/completions", body: { model: "echo/echo", messages: [{ role: "user", content: "n" + i }] },
  })).join("\n");
  const headers = { Authorization: "Bearer " + process.env.GATEWAY_KEY };
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([lines]), "lines.jsonl");
  const file = await (await fetch(gateway + "/v1/files", { method: "POST", headers, body: form })).json();
  await page.goto(base + "/batches");
  await page.getByText("No batches yet").waitFor();
  const made = await fetch(gateway + "/v1/batches", {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" }),
  });
  equal(made.status, 200, "the batch's status");
  await page.reload();
  const row = page.getByRole("row", { name: /batch_/ });
  await row.waitFor();
  // Nobody loads the page again: it follows by itself.
  await row.getByText("completed").waitFor({ timeout: 120_000 });
  await row.getByText("400 of 400").waitFor();
  batchPage = await row.getByRole("link", { name: /^batch_/ }).getAttribute("href");
});

await test("the playground streams through the gateway", async () => {
  await page.goto(base + "/playground");
  await page.getByLabel("Model", { exact: true }).fill("echo/echo");
  await page.getByLabel("Second model").fill("team/fast");
  await page.getByLabel("Your message").fill("How do you do?");
  await page.keyboard.press("Enter"); // with the session's own key
  const side = page.getByLabel("Conversation with echo/echo");
  await side.locator(".said.assistant", { hasText: "How do you do?" }).waitFor();
  await side.getByText(/input tokens, \d+ output tokens/).waitFor();
  await side.getByRole("link").waitFor(); // the cost
  await page.getByLabel("Conversation with team/fast").waitFor();
  for (const api of ["Anthropic's Messages", "Responses", "Google's Gemini API"]) {
    await page.getByRole("button", { name: "Start over" }).click();
    await page.getByRole("combobox", { name: "API" }).selectOption(api);
    await page.getByLabel("Your message").fill("In other words?");
    await page.keyboard.press("Enter");
    await side.locator(".said.assistant", { hasText: "In other words?" }).waitFor();
    await side.getByText(/[1-9]\d* input tokens, [1-9]\d* output tokens/).waitFor();
  }
  await page.getByLabel("Your own key").fill("sk-mg-wrong");
  await page.getByLabel("Your message").fill("Again");
  await page.keyboard.press("Enter");
  await side.locator(".said.wrong").waitFor();
});

await test("Ctrl+K finds an object", async () => {
  await page.goto(base + "/");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("team/f");
  await page.locator("#finder").getByRole("link", { name: /team\/fast/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "team/fast" }).waitFor();
});

await test("a viewer is offered nothing to change", async () => {
  const viewer = await open();
  await signIn(viewer, "vera", password);
  await viewer.goto(base + "/keys");
  await viewer.locator("#results").getByRole("link", { name: "browser" }).first().click();
  equal(await viewer.locator("main form[method=post]").count(), 0, "forms that change something");
  equal((await viewer.goto(base + "/new/key")).status(), 403, "the status of the form");
  equal((await viewer.goto(base + "/accounts")).status(), 403, "the status of the accounts");
  await viewer.context().close();
});

await test("the keyboard alone leads everywhere", async () => {
  await page.goto(base + "/");
  await page.keyboard.press("Tab");
  equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content", "the first stop");
  await page.keyboard.press("Enter");
  equal(await page.evaluate(() => document.activeElement.id), "main", "after the skip link");
  const outline = await page.evaluate(() => { const a = document.querySelector("nav a"); a.focus({ focusVisible: true }); return getComputedStyle(a).outlineStyle; });
  equal(outline, "solid", "the focus");
});

const keyPath = () => new URL(keyPage).pathname;
const pages = () => ({
  overview: "/?range=1h&compare=true", usage: "/usage?by=model&range=1h", cost: "/usage?by=key&measure=cost&range=30d", cache: "/usage/cache", requests: "/requests", "requests-live": "/requests?live=true&range=15m", "requests-none": "/requests?status=418", request: requestPath, "request-refused": refusedPath, playground: "/playground", keys: "/keys", "keys-none": "/keys?q=zzz", key: keyPath(),
  "key-new": "/new/key", "key-revoke": keyPath() + "/revoke", "key-rotate": keyPath() + "/rotate", organizations: "/organizations", organization: "/organizations/acme", "organization-new": "/new/organization",
  "project-new": "/new/project", "rate-limits": "/rate-limits", "rate-limit-new": "/new/rate-limit", policies: "/policies", "policy-new": "/new/policy", providers: "/providers", provider: "/providers/mine", "provider-new": "/new/provider?vendor=vertex", "provider-vendor": "/new/provider", "form-new": "/form/AlertReceiver", form: "/form/Guardrail/personal-data", catalogue: "/catalogue", "catalogue-none": "/catalogue?q=zzz",
  models: "/models?where=team/fast", model: "/models/team/fast", "model-new": "/new/model", batches: "/batches", batch: batchPage, bodies: requestPage + "/bodies", find: "/find?q=team", alerts: "/alerts", incidents: "/incidents", projects: "/projects", "fine-tuning": "/fine-tuning", "data-plane": "/data-plane", audit: "/audit", objects: "/objects",
  "objects-gateway": "/objects/Gateway", object: "/objects/Model/team/fast", "object-new": "/new/object/Route", delete: "/delete/Model/team/fast", accounts: "/accounts", account: "/accounts/vera", "account-new": "/new/account",
  tokens: "/tokens", "token-new": "/new/token", profile: "/account", missing: "/nothing",
});

for (const [look, options] of Object.entries({
  light: { colorScheme: "light", viewport: { width: 1280, height: 800 } }, dark: { colorScheme: "dark", viewport: { width: 1920, height: 1080 } }, phone: { colorScheme: "dark", viewport: { width: 360, height: 780 }, hasTouch: true },
})) {
  await test(`every page can be used by everybody, ${look}`, async () => {
    const visitor = await open(options);
    const found = [];
    await visitor.goto(base + "/sign-in");
    found.push(...await inspect(visitor, "sign-in-" + look));
    await signIn(visitor, "ada", password);
    for (const [name, path] of Object.entries(pages())) {
      await visitor.goto(base + path);
      found.push(...await inspect(visitor, name + "-" + look));
    }
    await visitor.context().close();
    if (found.length) throw new Error(found.join("; "));
  });
}

await test("errors are red in a chart, and its values are shown where it is pointed at", () => charts(page, chat));
await test("filters are chips, know names, and are kept as views", () => filtered(page));
await test("a list is sorted", () => sorted(page));
await test("the columns of a list are chosen, and fit its place", () => columns(page, password));
await test("a row opens what it is about", () => rows(page));
await test("the head of a list stays in sight, and its times are relative", () => head(page));
await test("the navigation lists the pages of one group", () => groups(page));
await test("the menu of the account works by keyboard", () => accountMenu(page));
await test("the switch of colours, and the menu of a phone", () => phone(password));

await test("without JavaScript a time range is chosen, and a chart is a table", async () => {
  const visitor = await open({ javaScriptEnabled: false });
  await signIn(visitor, "ada", password);
  await visitor.goto(base + "/usage?by=model");
  await visitor.locator("[name=range]").selectOption("15m");
  await visitor.locator("[name=measure]").selectOption("requests");
  await visitor.getByRole("button", { name: "Show", exact: true }).click();
  await visitor.waitForURL(/range=15m/);
  await visitor.getByText("Show as a table").click();
  await visitor.getByRole("columnheader", { name: "echo/echo" }).waitFor();
  await visitor.context().close();
});

await test("without JavaScript a request is found, and its page read", async () => {
  const visitor = await open({ javaScriptEnabled: false });
  await signIn(visitor, "ada", password);
  await visitor.goto(base + "/requests?range=24h");
  await visitor.getByLabel("Model", { exact: true }).fill("echo/echo");
  await visitor.getByRole("button", { name: "Show", exact: true }).click();
  await visitor.locator("#rows tbody tr a").first().click();
  await visitor.getByRole("heading", { name: "Cost" }).waitFor();
  await visitor.context().close();
});

await test("without JavaScript a key is made and found", async () => {
  const visitor = await open({ javaScriptEnabled: false });
  await signIn(visitor, "ada", password);
  await visitor.goto(base + "/new/key");
  await visitor.getByLabel("Name A name").fill("plain");
  await visitor.getByRole("button", { name: "Create the key" }).click();
  await visitor.locator("#the-key").waitFor();
  await visitor.goto(base + "/keys");
  await visitor.getByLabel("Search").fill("plain");
  await visitor.keyboard.press("Enter");
  await visitor.getByRole("link", { name: "plain" }).waitFor();
  await visitor.context().close();
});

await test("report 12: a key of an organization that is not there has it made where the box says so", async () => {
  await page.goto(base + "/new/key");
  await page.getByLabel("Name A name").fill("of nobody");
  await page.getByLabel("Organization The organization").fill("newcomers");
  await page.getByRole("button", { name: "Create the key" }).click();
  await page.getByText("there is no Organization newcomers").waitFor();
  await page.getByLabel("Create the organization").check();
  await page.getByRole("button", { name: "Create the key" }).click();
  await page.locator("#the-key").waitFor();
  await page.goto(base + "/organizations/newcomers");
  await page.getByRole("heading", { name: "newcomers" }).waitFor();
});

await test("several keys are disabled at once", () => several(page));

await test("sign in with an account elsewhere, sign a command line in, and sign out there", elsewhere);

await test("the key is revoked", async () => {
  await page.goto(keyPage);
  await page.getByRole("link", { name: "Revoke…" }).click();
  await page.getByRole("button", { name: "Revoke the key" }).click();
  await page.getByText("The key is revoked.").waitFor();
  await until("the gateway refuses it", async () => (await chat(key)).status === 401);
  await page.goto(base + "/audit");
  await page.getByRole("row", { name: /ada owner delete Key/ }).first().waitFor();
});

quiet();
await close();
