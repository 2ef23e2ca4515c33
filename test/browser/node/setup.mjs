// A new gateway is set up by the path: the first steps, the form of a provider with its test, a key, and a request.
import { createServer } from "node:http";
import { base, equal, inspect, until } from "./browser.mjs";

const credential = "sk-of-the-path";

// vendor is a server with OpenAI's API on this machine. It takes one credential.
function vendor() {
  const server = createServer((request, response) => {
    const answer = (status, body) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (request.headers.authorization !== "Bearer " + credential) {
      return answer(401, { error: { message: "No such key here.", type: "invalid_request_error", code: "invalid_api_key" } });
    }
    if (request.url.endsWith("/models")) {
      return answer(200, { object: "list", data: [{ id: "l", object: "model" }, { id: "s", object: "model" }] });
    }
    request.resume().on("end", () => answer(200, {
      id: "c1", object: "chat.completion", created: 1, model: "s",
      choices: [{ index: 0, message: { role: "assistant", content: "By the path" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
    }));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

export async function setUp(page, chat) {
  const server = await vendor(), endpoint = `http://127.0.0.1:${server.address().port}/v1`, found = [];
  const step = (name) => page.getByRole("region", { name: "First steps" }).getByRole("listitem").filter({ hasText: name });
  try {
    await page.goto(base + "/");
    await step("Add a provider").getByText("open", { exact: true }).waitFor();
    found.push(...await inspect(page, "first-steps"));
    await step("Add a provider").getByRole("link").click();
    found.push(...await inspect(page, "provider-vendor"));
    await page.getByRole("link", { name: "openai", exact: true }).click();
    equal(await page.locator("[name=region]").count(), 0, "fields that OpenAI does not read");
    await page.getByLabel("Name The prefix").fill("own");
    await page.getByLabel(/^Endpoint/).fill(endpoint);
    await page.getByLabel(/^Credential/).fill("sk-that-is-wrong");
    await page.getByRole("button", { name: "Test" }).click();
    await page.locator("#tried").getByText("No such key here.").waitFor();
    await page.getByRole("button", { name: "Add it anyway" }).waitFor();
    found.push(...await inspect(page, "provider-refused"));
    await page.getByLabel(/^Credential/).fill(credential);
    await page.getByRole("button", { name: "Test" }).click();
    await page.getByLabel("s", { exact: true }).check();
    found.push(...await inspect(page, "provider-tested"));
    await page.getByRole("button", { name: "Add the provider" }).click();
    await page.getByRole("heading", { name: "Provider own" }).waitFor();
    if ((await page.content()).includes(credential)) throw new Error("the credential is shown");
    equal(await page.locator("[name=models]").inputValue(), "s", "the models that are listed");
    await page.goto(base + "/");
    await step("Test it").getByText("done", { exact: true }).waitFor();
    await page.goto(base + "/new/key");
    await page.getByLabel("Name A name").fill("by the path");
    await page.getByRole("button", { name: "Create the key" }).click();
    const key = await page.locator("#the-key").textContent();
    const answer = await until("the gateway answers", async () => {
      const answer = await chat(key, "own/s");
      return answer.status === 200 && answer;
    });
    equal(answer.body.choices[0].message.content, "By the path", "the answer");
    await until("the request is seen", async () => {
      await page.goto(base + "/");
      return step("Send a request").getByText("done", { exact: true }).isVisible();
    }, 60_000);
    await page.goto(base + "/catalogue?q=gpt-4.1&vendor=openai");
    await page.getByRole("link", { name: /^Use it.*gpt-4\.1 of openai$/ }).click();
    equal(await page.getByLabel("Name The value").inputValue(), "gpt-4.1", "the name that is filled in");
    await page.goto(base + "/");
    await page.getByRole("button", { name: "Do not show these steps any more" }).click();
    await page.getByText("The first steps are not shown any more").waitFor();
    equal(await page.getByRole("region", { name: "First steps" }).count(), 0, "steps that were dismissed");
  } finally {
    server.close();
  }
  if (found.length) throw new Error(found.join("; "));
}
