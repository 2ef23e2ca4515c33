// The playground: a conversation with one or two models that is streamed through the gateway. Nothing of it is kept.
"use strict";

// events yields what the data lines of a stream hold.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

// apiOf returns the API that the form has chosen.
const apiOf = (form) => APIS[form.api.value];

// requestOf returns the request that the form and a conversation make.
function requestOf(form, model, messages) {
  const number = (field) => field.value ? Number(field.value) : undefined;
  return apiOf(form).request({ model, messages, system: form.system.value || undefined, most: number(form.max_tokens),
    temperature: number(form.temperature), effort: form.reasoning_effort.value || undefined });
}

// A Side is the conversation with one model.
class Side {
  constructor(model) {
    this.model = model;
    this.messages = [];
    this.root = document.createElement("section");
    this.root.className = "side";
    this.root.setAttribute("aria-label", "Conversation with " + model);
    const name = document.createElement("h2");
    name.textContent = model;
    this.log = document.createElement("div");
    this.log.className = "conversation";
    this.log.setAttribute("role", "log");
    this.measured = document.createElement("p");
    this.measured.className = "faint small";
    this.measured.setAttribute("role", "status");
    this.root.append(name, this.log, this.measured);
  }

  say(role, text) {
    const p = document.createElement("div");
    p.className = "said " + role;
    p.textContent = text;
    this.log.append(p);
    p.scrollIntoView({ block: "nearest" });
    return p;
  }

  // ask sends a message, and shows the answer as it comes.
  async ask(form, text, signal) {
    this.messages.push({ role: "user", content: text });
    this.say("user", text);
    const answer = this.say("assistant", "");
    this.measured.textContent = "";
    try {
      await this.stream(form, answer, signal);
    } catch (err) {
      if (err.name !== "AbortError") this.say("wrong", err.message);
      if (!answer.textContent) { answer.remove(); this.messages.pop(); return; }
    }
    this.messages.push({ role: "assistant", content: answer.textContent });
  }

  async stream(form, answer, signal) {
    const began = performance.now(), api = apiOf(form);
    const body = { ...requestOf(form, this.model, this.messages), ...api.streamed };
    const headers = { "Content-Type": "application/json", "X-Form-Token": form.dataset.token };
    if (form.key.value) headers["X-Gateway-Key"] = form.key.value;
    const response = await fetch(`/playground/ask/${form.api.value}?model=${encodeURIComponent(this.model)}`, { method: "POST", body: JSON.stringify(body), signal, headers });
    if (response.redirected) throw new Error("You are signed out. Load the page again.");
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? "The gateway returned status " + response.status + ".");
    let first = 0;
    const seen = {};
    for await (const data of events(response.body)) {
      if (data === "[DONE]") break;
      const text = api.read(JSON.parse(data), seen);
      if (text) { first ||= performance.now() - began; answer.textContent += text; answer.scrollIntoView({ block: "nearest" }); }
    }
    const parts = [`first token after ${Math.round(first)} ms`, `${Math.round(performance.now() - began)} ms total`];
    if (seen.usage) parts.push(`${seen.usage.input} input tokens, ${seen.usage.output} output tokens`);
    const provider = response.headers.get("X-Modelgate-Provider"), attempts = Number(response.headers.get("X-Modelgate-Attempts") || 1);
    if (provider) parts.push(provider + (attempts > 1 ? `, ${attempts} attempts` : ""));
    this.measured.textContent = parts.join(" · ");
    this.cost(response.headers.get("X-Request-Id"), signal);
  }

  // cost adds what a request has cost. The ledger has it some seconds after the end.
  async cost(id, signal) {
    const shown = this.measured.textContent;
    for (let n = 0; id && n < 6; n++) {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const response = await fetch("/playground/cost/" + encodeURIComponent(id), { signal }).catch(() => null);
      const cost = response?.ok && !response.redirected && await response.json();
      if (this.measured.textContent !== shown) return; // another request
      if (cost && cost.known) {
        const link = document.createElement("a");
        link.href = "/requests?request_id=" + encodeURIComponent(id);
        link.textContent = cost.priced ? cost.usd : "no price";
        this.measured.append(" · ", link);
        return;
      }
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("playground");
  if (!form) return;
  const sides = document.getElementById("sides"), empty = document.getElementById("empty"), stop = document.getElementById("stop");
  const send = form.querySelector("button.primary"), copied = document.getElementById("copied");
  let open = [], running = null;

  // arrange keeps the conversations with the models that are chosen, and begins those of others.
  const arrange = () => {
    const models = [...new Set([form.model.value, form.second.value].filter(Boolean))];
    open = models.map((m) => open.find((s) => s.model === m) ?? new Side(m));
    sides.replaceChildren(...open.map((s) => s.root));
    empty.hidden = true;
  };

  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    if (running) return;
    const text = form.message.value;
    form.message.value = "";
    arrange();
    running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    await Promise.all(open.map((s) => s.ask(form, text, running.signal)));
    running = null;
    send.disabled = false;
    stop.hidden = true;
    form.message.focus();
  });
  form.message.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); form.requestSubmit(); }
  });
  stop.onclick = () => running?.abort();
  document.getElementById("clear").onclick = () => { running?.abort(); open = []; sides.replaceChildren(); empty.hidden = false; };
  for (const button of form.querySelectorAll("button[data-as]")) {
    button.onclick = async () => {
      const messages = [...(open[0]?.messages ?? []).filter((m) => m.role === "user").slice(-1)];
      if (form.message.value) messages.splice(0, 1, { role: "user", content: form.message.value });
      const model = form.model.value || "provider/model", body = requestOf(form, model, messages), { path, python } = apiOf(form);
      const code = button.dataset.as === "curl" ? curl(form.dataset.base, path(model), body) : python(form.dataset.base, body, model);
      copied.textContent = await navigator.clipboard.writeText(code).then(() => "Copied. The key is not in it.", () => "The browser does not allow it.");
    };
  }
});
