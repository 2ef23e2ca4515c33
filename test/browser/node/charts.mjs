// Charts: what is drawn, and what is said of it where it is pointed at.
import { base, equal, until } from "./browser.mjs";

// painted reports whether a chart has a pixel of a colour.
const painted = (page, name) => page.evaluate((name) => {
  const probe = document.createElement("i"), canvas = document.querySelector(".uplot canvas");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
  probe.remove();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) return true;
  return false;
}, name);

// Errors are red in the bars of requests by model. The values of a bar are shown while it is pointed at.
export async function charts(page, chat) {
  await chat(process.env.GATEWAY_KEY, "mine/gpt-4o-mini"); // nobody listens there
  await until("the error is in the chart", async () => {
    await page.goto(base + "/usage?by=model&measure=requests&range=15m&model=mine/gpt-4o-mini");
    return (await page.getByRole("img", { name: /errors/ }).count()) > 0;
  }, 60_000);
  await page.locator(".u-legend").waitFor();
  equal(await painted(page, "--bad-fill"), true, "something red");
  equal(await page.locator(".tip").isVisible(), false, "values before anything is pointed at");
  equal((await page.locator(".u-legend").innerText()).trim(), "mine/gpt-4o-mini", "the legend, which has no values");
  const over = page.locator(".u-over"), { width } = await over.boundingBox();
  await over.hover({ position: { x: width - 4, y: 40 } }); // once it has stopped moving
  await page.locator(".tip").getByText(/under way/).waitFor();
  await page.getByRole("heading", { level: 1 }).hover();
  await page.locator(".tip").waitFor({ state: "hidden" });
}
