// What lists do in the browser: they are sorted, show the columns that somebody wants, fit their place, and open a row where
// it is clicked. A list is a table of the class cards in a .scroll, whose label is its name.
//
//   data-partial   on an element of the card, or a link in its .pager: the list goes on elsewhere, so it is not sorted here
//   data-exact     on .scroll: its times are not relative
//   data-priority  on a column's head: the highest is the first that goes where there is no room
//   data-sort      on a cell: what it is sorted by, if that is not what it shows
"use strict";

// nameOf returns the name of a list, as addresses and the browser's storage have it.
const nameOf = (table) => (table.closest(".scroll").getAttribute("aria-label") ?? "").toLowerCase().replace(/[^a-z0-9]+/g, "-");

// Parameters of the address say how a list is shown, so that a link shows the same.
function setParameter(name, value) {
  const url = new URL(location.href);
  if (value === null) url.searchParams.delete(name); else url.searchParams.set(name, value);
  history.replaceState(history.state, "", url);
  keepParameters(document);
}
const parameter = (name) => new URLSearchParams(location.search).get(name);

// keepParameters has the forms of filters keep how lists are shown.
function keepParameters(within) {
  for (const form of within.querySelectorAll("main form.filters")) {
    for (const field of form.querySelectorAll("input[data-kept]")) field.remove();
    for (const [name, value] of new URLSearchParams(location.search)) {
      if (!/^(sort|columns)\./.test(name)) continue;
      const field = Object.assign(document.createElement("input"), { type: "hidden", name, value });
      field.dataset.kept = "";
      form.append(field);
    }
  }
}

// A Column is one of a list, with the place of its cells.
function columnsOf(table) {
  return [...table.tHead.rows[0].cells].map((head, at) => ({ head, at, name: head.textContent.trim(), actions: Boolean(head.querySelector(".unseen, input")) }));
}

// cellAt returns the cell of a row that is in a column alone.
function cellAt(row, at) {
  let n = 0;
  for (const cell of row.cells) {
    if (n === at) return cell.colSpan === 1 ? cell : null;
    n += cell.colSpan;
  }
  return null;
}

// Sorting

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const scales = { ms: 1e-3, s: 1, m: 60, h: 3600, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

// valueOf returns what a cell is sorted by: a number, a text, or nothing.
function valueOf(cell, numeric) {
  const text = cell?.dataset.sort ?? cell?.querySelector("time[datetime]")?.dateTime ?? cell?.textContent.trim() ?? "";
  if (cell?.querySelector("time[datetime]") && !cell.dataset.sort) return Date.parse(text);
  if (!numeric) return text || null;
  const parts = [...text.replaceAll(",", "").matchAll(/(-?\d+(?:\.\d+)?)\s*(ms|[smhkMGT](?![a-z]))?/g)];
  if (!parts.length) return null;
  // Of a duration such as 1m3s all parts count, of other texts the first.
  const all = /^(\d+[hms])+$/.test(text) ? parts : parts.slice(0, 1);
  return all.reduce((sum, [, n, unit]) => sum + n * (scales[unit] ?? 1), 0);
}

// sortBy orders the rows of a list. Those without a value come last. A row that belongs to the one above stays with it.
function sortBy(table, column, down) {
  const numeric = column.head.classList.contains("n"), groups = [];
  let last = false; // a row with a strong name is a sum: it and those below it stay last
  for (const row of table.tBodies[0].rows) {
    last ||= Boolean(row.querySelector("th strong"));
    if (row.classList.contains("below-row") && groups.length) groups.at(-1).rows.push(row);
    else groups.push({ rows: [row], last, value: valueOf(cellAt(row, column.at), numeric) });
  }
  const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
  groups.sort((a, b) => a.last - b.last || (a.value === null) - (b.value === null) || (a.value === null || a.last ? 0 : order(a.value, b.value) * (down ? -1 : 1)));
  table.tBodies[0].append(...groups.flatMap((g) => g.rows));
  for (const { head } of columnsOf(table)) head.removeAttribute("aria-sort");
  column.head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

// sortable offers the order of a list that is whole: one that goes on elsewhere would be sorted wrongly.
function sortable(table) {
  const body = table.tBodies[0], key = "sort." + nameOf(table);
  if (!body || body.rows.length < 2 || table.closest(".card")?.querySelector("[data-partial], .pager a")) return;
  const columns = columnsOf(table).filter((c) => c.name && !c.actions);
  for (const column of columns) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...column.head.childNodes);
    column.head.append(button);
    button.onclick = () => {
      const now = column.head.getAttribute("aria-sort");
      const down = now ? now === "ascending" : column.head.classList.contains("n") || Boolean(cellAt(body.rows[0], column.at)?.querySelector("time"));
      sortBy(table, column, down);
      setParameter(key, (down ? "-" : "") + column.name);
    };
  }
  const wanted = parameter(key), column = columns.find((c) => c.name === wanted?.replace(/^-/, ""));
  if (column) sortBy(table, column, wanted.startsWith("-"));
}

// Columns

// A choice says of columns by name whether they are shown. Of others the room decides.
const parseChoice = (text) => new Map((text ?? "").split(",").filter(Boolean).map((c) => c.startsWith("-") ? [c.slice(1), false] : [c, true]));
const choiceText = (choice) => [...choice].map(([name, shown]) => (shown ? "" : "-") + name).join(",");

function setShown(table, column, shown) {
  column.head.hidden = !shown;
  for (const row of [...table.tBodies].flatMap((b) => [...b.rows]).concat([...table.tFoot?.rows ?? []])) {
    const cell = cellAt(row, column.at);
    if (cell) cell.hidden = !shown;
  }
}

// fit drops the least important columns until a list has room.
function fit(table) {
  const scroll = table.closest(".scroll"), choice = table.choice, columns = columnsOf(table);
  const narrow = matchMedia("(max-width: 48rem)").matches; // a row is a card there, which has room for all
  scroll.classList.remove("fits");
  for (const c of columns) setShown(table, c, choice.get(c.name) ?? true);
  const droppable = columns.filter((c) => c.head.dataset.priority && !choice.has(c.name))
    .sort((a, b) => b.head.dataset.priority - a.head.dataset.priority || b.at - a.at);
  while (!narrow && scroll.scrollWidth > scroll.clientWidth + 1 && droppable.length) setShown(table, droppable.shift(), false);
  for (const c of columns) c.head.classList.toggle("edge", c === columns.findLast(({ head }) => !head.hidden));
  const fits = !narrow && scroll.scrollWidth <= scroll.clientWidth + 1 && !scroll.classList.contains("tall");
  scroll.classList.toggle("fits", fits);
  if (fits) scroll.removeAttribute("tabindex"); else scroll.tabIndex = 0; // what does not scroll needs no stop of the Tab key
}

// box returns a box to check with its label.
function box(text, checked, change) {
  const label = document.createElement("label"), field = Object.assign(document.createElement("input"), { type: "checkbox", checked });
  label.className = "check";
  label.append(field, text);
  field.onchange = () => change(field.checked);
  return label;
}

// choosable offers the columns of a list, and fits it to its place.
function choosable(table) {
  const scroll = table.closest(".scroll"), name = nameOf(table), key = "columns." + name;
  table.choice = parseChoice(parameter(key) ?? localStorage.getItem(key));
  const columns = columnsOf(table).filter((c) => c.name && !c.actions).slice(1); // the first names the row
  if (columns.length > 2 && !scroll.querySelector(".columns-button")) {
    const panel = document.createElement("fieldset"), button = document.createElement("button");
    Object.assign(panel, { id: "columns-" + name, className: "chooser", popover: "auto" });
    Object.assign(button, { type: "button", className: "quiet columns-button", textContent: "⋮", title: "Columns", popoverTargetElement: panel });
    button.setAttribute("aria-label", `Columns of ${scroll.getAttribute("aria-label")}`);
    const choose = (column, shown) => {
      table.choice.set(column.name, shown);
      fit(table);
      setParameter(key, choiceText(table.choice));
      localStorage.setItem(key, choiceText(table.choice));
    };
    panel.addEventListener("beforetoggle", (e) => {
      if (e.newState !== "open") return;
      const at = button.getBoundingClientRect(), legend = document.createElement("legend");
      panel.style.top = at.bottom + "px";
      panel.style.right = document.documentElement.clientWidth - at.right + "px";
      legend.textContent = "Columns";
      panel.replaceChildren(legend, ...columns.map((c) => box(c.name, !c.head.hidden, (shown) => choose(c, shown))));
    });
    scroll.prepend(button, panel);
  }
  let width = 0;
  new ResizeObserver(() => {
    if (scroll.clientWidth === width) return;
    width = scroll.clientWidth;
    fit(table);
  }).observe(scroll);
  fit(table);
}

// Rows

// rowLink returns the first link of a row.
const rowLink = (row) => row.querySelector("th a[href], td a[href]");

// openRow opens what a row is about where it is clicked, but not where something else was meant.
function openRow(e) {
  const row = e.target.closest?.("tr.leads"), link = row && rowLink(row);
  if (!link || e.defaultPrevented || e.target.closest("a, button, input, select, textarea, label, summary, details, form, .pick, .diff")) return;
  if (getSelection().toString() || e.button > 1) return;
  if (e.button === 1 || e.ctrlKey || e.metaKey || e.shiftKey) open(link.href, "_blank", "noopener");
  else link.click();
}

// Chosen rows

// choosers shows how many rows are chosen, and the buttons that change them.
function choosers(within) {
  for (const form of within.querySelectorAll("form[data-chosen]")) {
    const boxes = [...document.querySelectorAll(`input[type=checkbox][form="${form.id}"]`)];
    const all = document.querySelector(`input[data-all="${form.id}"]`), count = form.querySelector("[data-count]");
    const show = () => {
      const n = boxes.filter((b) => b.checked).length;
      form.hidden = n === 0;
      if (count) count.textContent = `${n} chosen`;
      if (all) { all.checked = n === boxes.length; all.indeterminate = n > 0 && n < boxes.length; }
    };
    for (const box of boxes) box.onchange = show;
    if (all) {
      all.hidden = boxes.length === 0;
      all.onchange = () => { for (const box of boxes) box.checked = all.checked; show(); };
    }
    show();
  }
}

function tables(within) {
  for (const table of within.querySelectorAll("main .scroll > table.cards")) {
    if (table.choice) continue; // it was prepared
    sortable(table);
    choosable(table);
    for (const row of table.tBodies[0]?.rows ?? []) row.classList.toggle("leads", Boolean(rowLink(row)) && !row.classList.contains("below-row"));
  }
  choosers(within);
  keepParameters(within);
}
