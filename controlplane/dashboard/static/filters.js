// What forms of filters do in the browser: what is active stands above the list and is removed with a click, fields know the names
// that there are, a choice is applied at once, and an address is kept under a name.
//
//   data-complete  on a field: the kind of object that it takes; with data-by=name by what people call it
//   data-shown     on a field: what its value is called
//   data-view      on a field: it chooses how something is shown, and filters nothing
"use strict";

const filterForms = () => document.querySelectorAll("main form.filters[action], main form.filters[role=search]");

// fieldsOf returns the fields of a form that filter.
const fieldsOf = (form) => [...form.elements].filter((f) => f.name && f.type !== "hidden" && f.matches("input, select") && !f.closest(".range, [data-view]"));

// textOf returns what a field filters by, or nothing.
function textOf(field) {
  if (field.type === "checkbox") return field.checked ? "yes" : "";
  if (field.tagName === "SELECT") return field.selectedIndex > 0 ? field.selectedOptions[0].textContent : "";
  return field.value.trim() && (field.dataset.shown ?? field.value.trim());
}

const labelOf = (field) => (field.labels?.[0]?.firstChild?.textContent ?? field.name).trim() || field.name;

// without returns the address of the list without a filter, from its beginning.
function without(name) {
  const url = new URL(location.href);
  url.searchParams.delete(name);
  url.searchParams.delete("after");
  return url.pathname + url.search;
}

// chips shows the filters that are active above what they filter.
function chips(form) {
  let list = form.nextElementSibling?.matches(".chips") ? form.nextElementSibling : null;
  const active = fieldsOf(form).map((f) => [f, textOf(f)]).filter(([f, text]) => text && new URLSearchParams(location.search).get(f.name));
  if (!active.length) { list?.remove(); return; }
  if (!list) {
    list = document.createElement("ul");
    list.className = "chips";
    list.setAttribute("aria-label", "Active filters");
    form.after(list);
  }
  list.replaceChildren(...active.map(([field, text]) => {
    const item = document.createElement("li"), link = document.createElement("a"), value = document.createElement("strong");
    link.href = without(field.name);
    link.title = "Remove this filter";
    value.textContent = text;
    link.append(labelOf(field) + ": ", value, " ×");
    item.append(link);
    return item;
  }));
}

// completes offers the names that a field takes, as far as the person may see them.
function completes(field) {
  const list = document.createElement("datalist");
  list.id = "names-" + field.name;
  field.after(list);
  field.setAttribute("list", list.id);
  field.autocomplete = "off";
  let asked = null, timer;
  const ask = async () => {
    const text = field.value.split(",").at(-1).trim();
    if (text === asked) return;
    asked = text;
    const response = await fetch(`/find/names?kind=${encodeURIComponent(field.dataset.complete)}&q=${encodeURIComponent(text)}`).catch(() => null);
    if (!response?.ok || response.redirected || asked !== text) return;
    list.replaceChildren(...(await response.json()).map(({ value, label }) => Object.assign(document.createElement("option"), { value: field.dataset.by === "name" ? label : value, textContent: label })));
  };
  field.addEventListener("focus", ask);
  field.addEventListener("input", (e) => {
    clearTimeout(timer);
    if (e.inputType === "insertReplacementText" || !e.inputType) field.form.requestSubmit(); // one was chosen
    else timer = setTimeout(ask, 150);
  });
}

// applies has a choice take effect at once where somebody points at it. With the keyboard one passes by others.
function applies(field) {
  let pointed = false;
  field.addEventListener("pointerdown", () => { pointed = true; });
  field.addEventListener("keydown", () => { pointed = false; });
  field.addEventListener("change", () => { if (pointed && field.value !== "custom") field.form.requestSubmit(); });
}

// Views: addresses of a page under the names that somebody gave them. This browser keeps them.

const viewsOf = () => JSON.parse(localStorage.getItem("views." + location.pathname) ?? "[]");
const keepViews = (all) => localStorage.setItem("views." + location.pathname, JSON.stringify(all));

function quietButton(text, label, click) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: text, onclick: click });
  if (label) button.setAttribute("aria-label", label);
  return button;
}

function views(form) {
  const panel = document.createElement("div"), button = quietButton("Views"), list = document.createElement("ul");
  Object.assign(panel, { id: "views", popover: "auto", className: "chooser views" });
  button.popoverTargetElement = panel;
  const label = document.createElement("label"), name = Object.assign(document.createElement("input"), { maxLength: 60, placeholder: "a name" });
  label.append("Keep this view as ", name);
  const show = () => {
    list.replaceChildren(...viewsOf().map((view) => {
      const item = document.createElement("li"), link = Object.assign(document.createElement("a"), { href: location.pathname + view.query, textContent: view.name });
      item.append(link, quietButton("×", "Remove the view " + view.name, () => { keepViews(viewsOf().filter((v) => v.name !== view.name)); show(); }));
      return item;
    }));
    list.hidden = !list.children.length;
  };
  const keep = () => {
    if (!name.value.trim()) return;
    const url = new URL(location.href);
    url.searchParams.delete("after");
    keepViews([...viewsOf().filter((v) => v.name !== name.value.trim()), { name: name.value.trim(), query: url.search }].slice(-30));
    name.value = "";
    show();
  };
  name.onkeydown = (e) => { if (e.key === "Enter") { e.preventDefault(); keep(); } };
  panel.append(list, label, Object.assign(document.createElement("button"), { type: "button", textContent: "Keep", onclick: keep }));
  panel.addEventListener("beforetoggle", () => {
    const at = button.getBoundingClientRect();
    panel.style.top = at.bottom + "px";
    panel.style.left = Math.min(at.left, document.documentElement.clientWidth - 300) + "px";
    show();
  });
  form.append(button);
  form.after(panel);
}

function filters() {
  for (const form of filterForms()) {
    if (!form.dataset.ready) {
      form.dataset.ready = "true";
      for (const field of form.elements) {
        if (field.dataset.complete) completes(field);
        if (field.matches("select, input[type=checkbox]")) applies(field);
      }
      if (fieldsOf(form).length > 1 && !document.getElementById("views")) views(form);
    }
    chips(form);
  }
}
