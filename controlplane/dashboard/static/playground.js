// The playground: a conversation that is streamed through the gateway. Nothing of it is kept.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("playground");
  if (!form) return;
  const log = document.getElementById("conversation"), stop = document.getElementById("stop"), measured = document.getElementById("measured");
  const empty = log.firstElementChild, send = form.querySelector("button.primary");
  let messages = [], running = null;

  const say = (role, text) => {
    empty.remove();
    const p = document.createElement("div");
    p.className = "said " + role;
    p.textContent = text;
    log.append(p);
    p.scrollIntoView({ block: "nearest" });
    return p;
  };

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

  async function ask(answer, began) {
    const body = { model: form.model.value, stream: true, stream_options: { include_usage: true }, messages: [...messages] };
    if (form.system.value) body.messages.unshift({ role: "system", content: form.system.value });
    if (form.max_tokens.value) body.max_completion_tokens = Number(form.max_tokens.value);
    const response = await fetch("/playground/chat", {
      method: "POST", body: JSON.stringify(body), signal: running.signal,
      headers: { "Content-Type": "application/json", "X-Form-Token": form.dataset.token, "X-Gateway-Key": form.key.value },
    });
    if (response.redirected) throw new Error("You are signed out. Load the page again.");
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? "The gateway returned status " + response.status + ".");
    let first = 0, usage;
    for await (const data of events(response.body)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      const text = chunk.choices?.[0]?.delta?.content;
      if (text) { first ||= performance.now() - began; answer.textContent += text; answer.scrollIntoView({ block: "nearest" }); }
      usage = chunk.usage ?? usage;
    }
    messages.push({ role: "assistant", content: answer.textContent });
    const parts = [`first token after ${Math.round(first)} ms`, `${Math.round(performance.now() - began)} ms total`];
    if (usage) parts.push(`${usage.prompt_tokens} input tokens, ${usage.completion_tokens} output tokens`);
    measured.textContent = parts.join(" · ");
  }

  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    if (running) return;
    const text = form.message.value;
    messages.push({ role: "user", content: text });
    say("user", text);
    const answer = say("assistant", "");
    form.message.value = "";
    measured.textContent = "";
    running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    try {
      await ask(answer, performance.now());
    } catch (err) {
      if (err.name !== "AbortError") say("wrong", err.message);
      if (!answer.textContent) { answer.remove(); messages.pop(); } else messages.push({ role: "assistant", content: answer.textContent });
    }
    running = null;
    send.disabled = false;
    stop.hidden = true;
    form.message.focus();
  });
  form.message.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); form.requestSubmit(); }
  });
  stop.onclick = () => running?.abort();
  document.getElementById("clear").onclick = () => { running?.abort(); messages = []; log.replaceChildren(empty); measured.textContent = ""; };
});
