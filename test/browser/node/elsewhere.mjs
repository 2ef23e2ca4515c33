// Signing in with an account elsewhere, and signing a command line in.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { base, equal, inspect, open, signOut } from "./browser.mjs";

const home = mkdtempSync(join(tmpdir(), "modelgate-home-"));

// command runs the gateway's command line at home, without a browser that it could open.
function command(...args) {
  const child = spawn(process.env.MODELGATE_BINARY, [...args, "--server", base, "--ca", process.env.NODE_EXTRA_CA_CERTS], {
    env: { HOME: home, DISPLAY: ":nowhere", PATH: home },
  });
  let printed = "";
  const waiting = [];
  const add = (text) => {
    printed += text;
    for (const w of waiting) w();
  };
  child.stdout.on("data", add);
  child.stderr.on("data", add);
  const done = new Promise((resolve) => child.on("close", (code) => {
    add("");
    resolve({ code, printed });
  }));
  // says resolves with what a pattern finds in what the command prints.
  const says = (pattern) => new Promise((resolve) => {
    const look = () => pattern.test(printed) && resolve(pattern.exec(printed));
    waiting.push(look);
    look();
  });
  return { done, says };
}

async function atCorp(page) {
  await page.getByRole("link", { name: "Sign in with Corp" }).click();
  await page.locator("[name=username]").fill("grace");
  await page.locator("[name=password]").fill("their-password");
  await page.locator("[type=submit]").click();
}

export async function elsewhere() {
  const page = await open();
  await page.goto(base + "/sign-in?next=/keys");
  const found = await inspect(page, "sign-in-with");
  await atCorp(page);
  await page.waitForURL(base + "/keys");
  await page.getByText("grace@example.com").or(page.getByText("Full Name")).first().waitFor();

  const login = command("login");
  await page.goto((await login.says(/(https:\/\/\S+terminal\?\S+)/))[1]);
  found.push(...await inspect(page, "terminal"));
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("You are signed in. Go back to the command line.").waitFor(); // the command line's own page
  equal((await login.done).code, 0, "login");
  equal((await command("key", "list").done).code, 0, "with the sign-in");
  const refused = await command("account", "list").done;
  equal(refused.code !== 0 && refused.printed.includes("admins:read"), true, "a viewer");
  equal((await command("logout").done).code, 0, "logout");
  equal((await command("key", "list").done).code !== 0, true, "without");

  const device = command("login", "--device");
  const code = (await device.says(/([B-Z]{4}-[B-Z]{4})/))[1];
  await page.goto(base + "/sign-in/terminal/device");
  found.push(...await inspect(page, "terminal-code"));
  await page.getByLabel("Code").fill(code);
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("The command line is signed in as grace@example.com.").waitFor();
  equal((await device.done).code, 0, "login --device");

  await signOut(page);
  await page.waitForURL(/\/end_session\?/); // at Corp, which asks nothing more
  await page.context().close();
  equal(found.join("; "), "", "what keeps people from using the pages");
}
