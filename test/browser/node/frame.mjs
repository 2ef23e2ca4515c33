// The frame of all pages: the navigation, the menu of the account, and their use by keyboard and on a phone.
import { base, equal, inspect, open, signIn } from "./browser.mjs";

// focused returns the text of what has the focus.
const focused = (page) => page.evaluate(() => document.activeElement.textContent.trim());

// The menu of the account works by keyboard.
export async function accountMenu(page) {
  await page.goto(base + "/keys");
  const menu = page.locator("#person"), button = page.getByTitle("Your account", { exact: true });
  await button.focus();
  equal(await menu.isVisible(), false, "the menu before it is opened");
  await page.keyboard.press("Enter");
  await menu.waitFor();
  await page.keyboard.press("Tab");
  equal(await focused(page), "Your account", "the first stop in the menu");
  const found = await inspect(page, "account-menu");
  await page.keyboard.press("Escape");
  await menu.waitFor({ state: "hidden" });
  equal(found.join("; "), "", "what keeps people from using the menu");
}

// The navigation lists the pages of the group that one is in, also on the pages of single objects.
export async function groups(page) {
  const nav = page.getByRole("navigation", { name: "Main" });
  const lines = async () => (await nav.getByRole("link").allTextContents()).join(" ");
  await page.goto(base + "/");
  equal(await lines(), "Overview Incidents Alerts Requests Usage Models Access Rules Jobs Settings", "the lines");
  await nav.getByRole("link", { name: "Models" }).click();
  await page.waitForURL(base + "/models");
  equal(await nav.locator("[aria-current=page]").textContent(), "Models", "the page");
  await page.goto(base + "/new/object/Guardrail");
  equal(await nav.locator("[aria-current=page]").textContent(), "Guardrails", "the page of a new object");
  equal(await nav.locator("[aria-current=true]").textContent(), "Rules", "the group of a new object");
}

// On a phone everything of the frame is behind two buttons, also without JavaScript.
export async function phone(password) {
  const found = [];
  for (const javaScriptEnabled of [true, false]) {
    const visitor = await open({ colorScheme: "light", viewport: { width: 360, height: 780 }, javaScriptEnabled });
    await signIn(visitor, "ada", password);
    const ground = () => visitor.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
    const light = await ground();
    await visitor.getByTitle("Your account", { exact: true }).click();
    await visitor.getByRole("button", { name: "Dark" }).click();
    await visitor.waitForFunction((before) => document.body && getComputedStyle(document.body).backgroundColor !== before, light);
    await visitor.goto(base + "/keys");
    if (await ground() === light) throw new Error("the choice is forgotten");
    equal(await visitor.locator("nav").isVisible(), false, "the menu before it is opened");
    const { height } = await visitor.locator(".bar").boundingBox();
    if (height > 60) throw new Error(`the bar of a phone is ${height} px high`);
    await visitor.getByRole("button", { name: "Menu" }).click();
    if (javaScriptEnabled) found.push(...await inspect(visitor, "menu-phone"));
    await visitor.getByRole("link", { name: "Models", exact: true }).click();
    await visitor.waitForURL(base + "/models");
    await visitor.getByRole("button", { name: "Menu" }).click();
    await visitor.getByRole("link", { name: "Providers", exact: true }).click();
    await visitor.getByRole("heading", { name: "Providers" }).waitFor();
    await visitor.context().close();
  }
  equal(found.join("; "), "", "what keeps people from using the menu");
}
