// Lists: their order, their columns, their width, and the click on a row.
import { base, equal, open, signIn } from "./browser.mjs";

const names = (page) => page.locator("tbody th a").allTextContents();
const shown = async (page) => (await page.locator("thead th:visible").allTextContents()).map((t) => t.trim());

// A whole list is sorted, and a link to it shows the same. One that goes on elsewhere is not.
export async function sorted(page) {
  await page.goto(base + "/accounts");
  const head = page.getByRole("columnheader", { name: "Name", exact: true });
  await head.getByRole("button").click();
  equal(await head.getAttribute("aria-sort"), "ascending", "the order");
  equal((await names(page)).join(), "ada,vera", "by name");
  await head.getByRole("button").focus();
  await page.keyboard.press("Enter");
  equal((await names(page)).join(), "vera,ada", "by name, downwards");
  await page.reload();
  equal((await names(page)).join(), "vera,ada", "after the page was loaded again");
  await page.getByRole("button", { name: "Created" }).click();
  equal((await names(page)).join(), "vera,ada", "the newest first");
  await page.goto(base + "/requests?range=24h");
  await page.getByRole("link", { name: "Next page" }).waitFor();
  equal(await page.locator("button.sort").count(), 0, "orders of one page of a list");
}

// Columns are chosen, and the least important ones go where there is no room.
export async function columns(page, password) {
  await page.goto(base + "/accounts");
  await page.getByRole("button", { name: "Columns of People" }).click();
  await page.getByLabel("Full name").uncheck();
  equal((await shown(page)).includes("Full name"), false, "the column");
  await page.keyboard.press("Escape");
  await page.goto(base + "/accounts");
  equal((await shown(page)).includes("Full name"), false, "the column, on another visit");
  await page.getByRole("button", { name: "Columns of People" }).click();
  await page.getByLabel("Full name").check();
  const link = page.url();

  const visitor = await open({ viewport: { width: 800, height: 600 } });
  await signIn(visitor, "ada", password);
  await visitor.goto(base + "/accounts");
  const [wide, room] = await visitor.locator(".scroll").evaluate((s) => [s.scrollWidth, s.clientWidth]);
  if (wide > room + 1) throw new Error(`the list is ${wide} px wide and has ${room}`);
  equal((await shown(visitor)).includes("Created"), false, "the least important column");
  equal((await shown(visitor)).includes("Role"), true, "an important column");
  await visitor.goto(link);
  equal((await shown(visitor)).includes("Full name"), true, "the column that the link names");
  await visitor.context().close();
}

// A click on a row opens what it is about, unless something else was meant.
export async function rows(page) {
  await page.goto(base + "/accounts");
  const cell = page.getByRole("row", { name: /^vera/ }).getByRole("cell", { name: "viewer" });
  const [tab] = await Promise.all([page.context().waitForEvent("page"), cell.click({ modifiers: ["ControlOrMeta"] })]);
  await tab.waitForURL(base + "/accounts/vera");
  await tab.close();
  const [middle] = await Promise.all([page.context().waitForEvent("page"), cell.click({ button: "middle" })]);
  await middle.waitForURL(base + "/accounts/vera");
  await middle.close();
  await cell.dblclick(); // selects the word; the first click of it opens the page
  await page.waitForURL(base + "/accounts/vera");
  await page.goBack();
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("tbody td:nth-child(3)")));
  await page.locator("tbody td:nth-child(3)").first().dispatchEvent("click");
  equal(page.url(), base + "/accounts", "the page while a text is selected");
}

// The head of a long list stays in sight, and times say how long ago they were.
export async function head(page) {
  await page.goto(base + "/requests?range=24h");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  const { y } = await page.locator("#rows thead th").first().boundingBox();
  equal(Math.round(y), 48, "the head of the list, under the bar");
  await page.goto(base + "/accounts");
  const time = page.locator("tbody time").first();
  if (!/^(now|\d+ (s|min|h) ago)$/.test(await time.textContent())) throw new Error("not a relative time: " + await time.textContent());
  if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+$/.test(await time.getAttribute("title"))) throw new Error("no time with a zone: " + await time.getAttribute("title"));
}

// Keys that are chosen in the list are disabled together, and enabled again.
export async function several(page) {
  await page.goto(base + "/keys");
  const form = page.locator("#several");
  equal(await form.isVisible(), false, "the buttons before a key is chosen");
  await page.getByLabel("Choose plain").check();
  await page.getByLabel("Choose of nobody").check();
  await form.getByText("2 chosen").waitFor();
  await form.getByRole("button", { name: "Disable" }).click();
  await page.getByText("The keys are disabled.").waitFor();
  for (const name of ["plain", "of nobody"]) await page.getByRole("row", { name: new RegExp(`${name}.*disabled`) }).waitFor();
  await page.getByLabel("Choose all keys").check();
  await page.getByLabel("Choose browser").uncheck();
  await form.getByRole("button", { name: "Enable" }).click();
  await page.getByText("The keys are enabled.").waitFor();
  equal(await page.getByText("disabled", { exact: true }).count(), 1, "the choice of the filter alone");
}
