// The pictures of the documentation. pictures_test.go fills the gateway that they show.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { base, close, first, open, signIn, until } from "./browser.mjs";

const folder = process.env.PICTURES, password = "correct horse battery";
mkdirSync(folder, { recursive: true });

const page = await open({ colorScheme: "light", viewport: { width: 1280, height: 800 }, timezoneId: "UTC", locale: "en-GB" });
await first(page, password);
await page.getByRole("button", { name: "Do not show these steps any more" }).click();

// One request of now goes to a provider that is down, and then to another.
const chat = await until("the model is in force", async () => {
  const response = await fetch(process.env.GATEWAY_URL + "/v1/chat/completions", {
    method: "POST", headers: { Authorization: "Bearer " + process.env.GATEWAY_KEY, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "assistant", user: "ada", messages: [{ role: "user", content: "How do I return a parcel?" }] }),
  });
  return response.ok && response;
});

async function shoot(name, path, of = page) {
  await of.goto(base + path);
  await of.waitForLoadState("networkidle");
  await of.screenshot({ path: join(folder, name + ".png") });
}

await shoot("overview", "/?range=24h");
await shoot("usage", "/usage?by=model&range=24h");
const id = chat.headers.get("x-request-id");
await until("the request is in the log", async () => {
  await page.goto(base + "/requests?request_id=" + encodeURIComponent(id));
  return page.locator("#rows tbody a").first().isVisible();
});
const request = new URL(await page.locator("#rows tbody a").first().getAttribute("href"), base);
await shoot("requests", "/requests?range=24h");
await shoot("request", request.pathname);

await page.goto(base + "/playground");
await page.getByLabel("Model", { exact: true }).fill("echo/echo");
await page.getByLabel("Second model").fill("assistant");
await page.getByLabel("Your message").fill("How do I return a parcel?");
await page.keyboard.press("Enter");
await page.getByLabel("Conversation with assistant").getByText(/output tokens/).waitFor();
await page.getByLabel("Conversation with echo/echo").getByText(/output tokens/).waitFor();
await page.screenshot({ path: join(folder, "playground.png") });

const dark = await open({ colorScheme: "dark", viewport: { width: 1280, height: 800 }, timezoneId: "UTC", locale: "en-GB" });
await signIn(dark, "ada", password);
await shoot("overview-dark", "/?range=24h", dark);
await close();
