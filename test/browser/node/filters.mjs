// Filters: chips, completion, choices that take effect at once, and views with a name.
import { base, equal, until } from "./browser.mjs";

export async function filtered(page) {
  await page.goto(base + "/audit");
  equal(await page.locator(".chips").count(), 0, "chips without a filter");
  await page.getByLabel("User").fill("ad");
  await until("names are offered", () => page.locator("datalist option[value=ada]").count());
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL(/actor=ad/);
  await page.getByLabel("User").fill("ada");
  // Playwright chooses without the mouse, with which one would point at the field first.
  await page.getByLabel("Kind").dispatchEvent("pointerdown");
  await page.getByLabel("Kind").selectOption("Key");
  await page.waitForURL(/actor=ada.*kind=Key/);
  const chips = page.getByRole("list", { name: "Active filters" });
  equal((await chips.getByRole("listitem").allTextContents()).join(), "User: ada ×,Kind: Key ×", "the chips");
  await chips.getByRole("link", { name: /^User/ }).click();
  await page.waitForURL((url) => !url.search.includes("actor=ada") && url.search.includes("kind=Key"));
  equal(await page.getByLabel("User").inputValue(), "", "the field whose chip was removed");

  await page.getByRole("button", { name: "Views" }).click();
  await page.getByLabel("Keep this view as").fill("changes of keys");
  await page.keyboard.press("Enter");
  await page.goto(base + "/audit");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("link", { name: "changes of keys" }).click();
  await page.waitForURL(/kind=Key/);
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("button", { name: "Remove the view changes of keys" }).click();
  equal(await page.getByRole("link", { name: "changes of keys" }).count(), 0, "the view that was removed");
}
