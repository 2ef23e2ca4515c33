// What the pages do besides showing: everything here is a comfort, and the pages work without it but for charts, live parts
// and the playground.
"use strict";

// stamps returns what writes a time as the server does, in the reader's own zone or in another: 2026-11-29 08:55:07 CET.
function stamps(options) {
  const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", ...options });
  const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short", ...options });
  return (at) => `${clock.format(at)} ${zone.formatToParts(at).find((p) => p.type === "timeZoneName").value}`;
}

// Times are shown in the reader's own zone. A cell of a list that has nothing else says how long ago it was.
function localTimes(within) {
  const stamp = stamps();
  for (const t of within.querySelectorAll("time[datetime]:not([title])")) {
    const utc = t.textContent, cell = t.closest("table.cards td, table.cards th"), local = stamp(new Date(t.dateTime));
    t.title = utc;
    t.textContent = local;
    if (!cell || cell.textContent.trim() !== local || cell.closest("[data-exact]")) continue;
    t.title = local;
    t.dataset.ago = "";
  }
  agoAll();
}

// agoAll writes how long ago times are, as it is now.
function agoAll() {
  for (const t of document.querySelectorAll("time[data-ago]")) t.textContent = ago(new Date(t.dateTime), Date.now());
}

// ago says in the largest unit that fits how long ago a time is, or when it will be.
function ago(at, now) {
  const seconds = Math.round(Math.abs(now - at) / 1000);
  const [n, unit] = [[365 * 86400, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([size, unit]) => [Math.floor(seconds / size), unit])
    .find(([n]) => n > 0) ?? [0, "s"];
  if (n === 0) return "now";
  return at > now ? `in ${n} ${unit}` : `${n} ${unit} ago`;
}

// copyButtons shows the buttons that copy what is beside them.
function copyButtons(within) {
  for (const button of within.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.onclick = async () => {
      const from = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(from.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(from);
        button.textContent = "Press Ctrl+C";
      }
    };
  }
}

// moreRows shows the buttons that add an empty row to a list of a form.
function moreRows(within) {
  for (const button of within.querySelectorAll("button[data-more]")) {
    button.hidden = false;
    button.onclick = () => {
      const rows = document.getElementById(button.dataset.more);
      const row = rows.lastElementChild.cloneNode(true);
      for (const field of row.querySelectorAll("input, select, textarea")) field.value = field.tagName === "SELECT" ? field.options[0].value : "";
      rows.append(row);
      row.querySelector("input, select").focus();
    };
  }
}

// A part of a page that is loaded again keeps open what somebody has opened.
let opened = [];
function keepOpen(target) { opened = [...target.querySelectorAll("details[open][id]")].map((d) => d.id); }
function openAgain() { for (const id of opened.splice(0)) document.getElementById(id)?.setAttribute("open", ""); }

// finder opens with Ctrl+K on every page. The arrows move through what is found, and Enter opens it.
function finder() {
  const dialog = document.getElementById("finder");
  if (!dialog) return;
  if (location.pathname === "/find") { dialog.remove(); return; } // the page has the search itself
  const field = dialog.querySelector("input");
  const open = () => { dialog.showModal(); field.select(); };
  document.getElementById("find").addEventListener("click", (e) => { e.preventDefault(); open(); });
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k") { e.preventDefault(); open(); }
  });
  dialog.addEventListener("keydown", (e) => {
    const links = [...dialog.querySelectorAll("#found a")], at = links.indexOf(document.activeElement);
    if (e.key === "ArrowDown") (links[at + 1] ?? links[0])?.focus();
    else if (e.key === "ArrowUp") (links[at - 1] ?? field).focus();
    else if (e.key === "Enter" && at < 0 && links.length) links[0].click();
    else return;
    e.preventDefault();
  });
}

function prepare(within) {
  localTimes(within);
  copyButtons(within);
  moreRows(within);
  if (window.charts) charts(within); // on pages that have any
  tables(within);
  filters();
}

document.addEventListener("DOMContentLoaded", () => {
  finder();
  prepare(document);
  setInterval(agoAll, 10_000);
  document.addEventListener("click", openRow);
  document.addEventListener("auxclick", openRow);
  document.body.addEventListener("htmx:beforeSwap", (e) => keepOpen(e.detail.target));
  document.body.addEventListener("htmx:afterSwap", (e) => { openAgain(); prepare(e.detail.target.parentNode ?? document); });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    const search = document.querySelector("main input[type=search]");
    if (search) { e.preventDefault(); search.focus(); }
  });
});
