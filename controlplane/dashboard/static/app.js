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

function color(name) {
  // Of light-dark() only an element knows the colour.
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

// units returns how a value of a chart is written.
function units(unit) {
  return (v) => {
    if (v == null) return "–";
    if (unit === "$") return "$" + (v < 1 && v > 0 ? v.toPrecision(2) : v.toFixed(2));
    return unit === "ms" ? (v < 1000 ? Math.round(v) + " ms" : +(v / 1000).toFixed(2) + " s") : short.format(v);
  };
}

// ticked returns how the values of an axis are written: all with one unit and one precision.
function ticked(unit) {
  const one = units(unit);
  return (_, ticks) => {
    const step = Math.abs((ticks[1] ?? 0) - (ticks[0] ?? 0)), digits = Math.max(0, Math.ceil(-Math.log10(step || 1)));
    if (unit === "$") return ticks.map((v) => "$" + v.toFixed(Math.max(2, digits)));
    if (unit === "ms" && ticks.at(-1) >= 1000) return ticks.map((v) => (v / 1000).toFixed(Math.max(0, Math.ceil(3 - Math.log10(step || 1000)))) + " s");
    return ticks.map(one);
  };
}

// wide returns the room that the labels of an axis need.
function wide(_, labels) { return 24 + 7 * Math.max(4, ...(labels ?? []).map((l) => l.length)); }

// clock returns how the times of a chart are written: on its axis, and in its legend. A day is one of UTC.
function clock(chart) {
  const days = chart.width >= 86400, zone = days ? { timeZone: "UTC" } : {};
  const format = (options) => { const f = new Intl.DateTimeFormat("en-GB", { ...options, ...zone }); return (s) => f.format(s * 1000); };
  const day = format({ month: "short", day: "numeric" }), time = format({ hour: "2-digit", minute: "2-digit" });
  const stamp = stamps(zone), full = (s) => days ? stamp(s * 1000).slice(0, 10) + " UTC" : stamp(s * 1000);
  const axis = (_, ticks) => ticks.map((s, i) => {
    const begins = i === 0 ? chart.end - chart.x[0] > 86400 : day(s) !== day(ticks[i - 1]);
    return days || begins ? day(s) : time(s);
  });
  return { axis, full, date: (s) => days ? uPlot.tzDate(new Date(s * 1000), "Etc/UTC") : new Date(s * 1000) };
}

// stack returns what is drawn of series that stand on one another: of each its sum with those that are shown below it.
// The highest are drawn first, and so come first.
function stack(series, shown) {
  const sum = [];
  return series.map((s, k) => s.values.map((v, i) => sum[i] = (sum[i] ?? 0) + (shown[k] ? v ?? 0 : 0))).reverse();
}

// zoom opens the page for the time that was dragged over, or for the bucket that was clicked.
function zoom(plot, chart) {
  const { left, width } = plot.select;
  if (width < 8) return;
  const at = (pixel, round) => round(plot.posToVal(pixel, "x") / chart.width) * chart.width;
  show(at(left, Math.floor), at(left + width, Math.ceil));
}

function pick(plot, chart) {
  const i = plot.cursor.idx;
  if (i != null && plot.select.width < 8) show(chart.x[i], chart.x[i] + chart.width);
}

// show opens the page for a time, in seconds.
function show(from, to) {
  const text = (s) => new Date(s * 1000).toISOString().slice(0, 16);
  const query = new URLSearchParams(location.search);
  query.set("range", "custom");
  query.set("from", text(from));
  query.set("to", text(to));
  query.delete("after");
  location.search = query;
}

// lines returns the series as uPlot takes them, in the order in which they are drawn, with their data. Of stacked bars
// the order is reversed.
function lines(chart, show) {
  const stacked = chart.series.filter((s) => chart.stacked && !s.before), others = chart.series.filter((s) => !stacked.includes(s));
  const bars = uPlot.paths.bars({ size: [0.9, 64], align: chart.width ? 1 : 0 });
  const shown = stacked.map(() => true);
  const look = (s, i) => {
    const bar = (chart.bars || chart.stacked) && !s.before;
    const stroke = color(s.before ? "--text-soft" : s.name === "Errors" ? "--bad" : s.name === "others" ? "--series-6" : `--series-${i % 6 + 1}`);
    return { label: s.name, stroke, width: bar ? 0 : 1.75, dash: s.before ? [5, 4] : undefined, fill: bar ? stroke : undefined, paths: bar ? bars : undefined,
      points: { show: !bar && !s.before && chart.x.length < 40 }, spanGaps: !s.before && !chart.end, value: (_, __, ___, at) => show(at == null ? null : s.values[at]) };
  };
  const series = [...stacked.map(look).reverse(), ...others.map((s, i) => look(s, stacked.length + i))];
  const data = () => [chart.x, ...stack(stacked, shown), ...others.map((s) => s.values)];
  const toggled = (plot, i) => {
    const of = stacked.length - i;
    if (i == null || of < 0) return;
    shown[of] = plot.series[i].show;
    plot.setData(data());
  };
  return { series, data, toggled };
}

// charts draws what figures hold; see chart in chart.go. What is drawn is an image with a text; the table below it has
// the figures.
function charts(within) {
  if (!window.uPlot) return;
  for (const figure of within.querySelectorAll("[data-chart]")) {
    const chart = JSON.parse(figure.dataset.chart), show = units(chart.unit), height = 210;
    const axis = { stroke: color("--text-soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui" };
    const { series, data, toggled } = lines(chart, show), times = chart.time && clock(chart), x = { label: chart.label || "Step" };
    if (times) Object.assign(x, { label: "Time", value: (_, s) => s == null ? "–" : times.full(s) });
    const options = {
      width: figure.clientWidth, height, cursor: { y: false, drag: { x: Boolean(chart.width), y: false, setScale: false } },
      scales: { x: { time: chart.time, range: chart.end ? [chart.x[0], chart.end] : undefined }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      axes: [times ? { ...axis, values: times.axis } : axis, { ...axis, size: wide, values: ticked(chart.unit) }],
      series: [x, ...series], tzDate: times?.date,
      hooks: { setSeries: [toggled], setSelect: chart.width ? [(plot) => zoom(plot, chart)] : [] },
    };
    figure.removeAttribute("data-chart");
    figure.replaceChildren();
    const plot = new uPlot(options, data(), figure);
    if (chart.picks) plot.over.addEventListener("click", () => pick(plot, chart));
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", figure.dataset.summary);
    new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height })).observe(figure);
  }
}

// ranges opens the page at once when somebody points at another range. With the keyboard one passes by others.
function ranges(within) {
  for (const select of within.querySelectorAll("select[data-range]")) {
    let pointed = false;
    select.onpointerdown = () => { pointed = true; };
    select.onkeydown = () => { pointed = false; };
    select.onchange = () => { if (pointed && select.value !== "custom") select.form.requestSubmit(); };
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
  charts(within);
  ranges(within);
  tables(within);
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
