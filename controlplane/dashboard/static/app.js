// What the pages do besides showing: everything here is a comfort, and the pages work without it but for charts, live parts
// and the playground.
"use strict";

// Times are shown in the reader's own zone.
function localTimes(within) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const t of within.querySelectorAll("time[datetime]:not([title])")) {
    t.title = t.textContent;
    t.textContent = format.format(new Date(t.dateTime));
  }
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
      for (const field of row.querySelectorAll("input, select")) field.value = field.tagName === "SELECT" ? field.options[0].value : "";
      rows.append(row);
      row.querySelector("input, select").focus();
    };
  }
}

function menu() {
  const button = document.querySelector("button.menu"), nav = document.getElementById("nav");
  if (!button || !nav) return;
  const narrow = matchMedia("(max-width: 48rem)");
  const set = (open) => {
    button.setAttribute("aria-expanded", String(open));
    nav.classList.toggle("closed", !open);
  };
  const fit = () => { button.hidden = !narrow.matches; set(!narrow.matches); };
  button.onclick = () => set(nav.classList.contains("closed"));
  narrow.addEventListener("change", fit);
  fit();
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

// charts draws what figures hold: {x: [...], series: [{name, values}], unit, time: bool, bars: bool}.
function charts(within) {
  if (!window.uPlot) return;
  for (const figure of within.querySelectorAll("[data-chart]")) {
    const chart = JSON.parse(figure.dataset.chart);
    const show = (v) => {
      if (v == null) return "–";
      if (chart.unit === "$") return "$" + (v < 1 && v > 0 ? v.toPrecision(2) : v.toFixed(2));
      return chart.unit === "ms" ? (v < 1000 ? Math.round(v) + " ms" : +(v / 1000).toFixed(2) + " s") : short.format(v);
    };
    const axis = { stroke: color("--text-soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui" };
    const bars = chart.bars && uPlot.paths.bars({ size: [0.7, 48], radius: 0.1 });
    const options = {
      width: figure.clientWidth, height: 210, cursor: { y: false }, scales: { x: { time: chart.time }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map(show) }],
      series: [{ label: chart.time ? "Time" : chart.label || "Step" }, ...chart.series.map((s, i) => {
        const stroke = color(s.name === "Errors" ? "--bad" : `--series-${i % 6 + 1}`);
        return { label: s.name, stroke, width: bars ? 0 : 1.75, fill: bars ? stroke : undefined, paths: bars || undefined, points: { show: !bars && chart.x.length < 40 }, spanGaps: true, value: (_, v) => show(v) };
      })],
    };
    const draw = () => {
      figure.replaceChildren();
      options.width = figure.clientWidth;
      const plot = new uPlot(options, [chart.x, ...chart.series.map((s) => s.values)], figure);
      new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height: 210 })).observe(figure);
    };
    figure.removeAttribute("data-chart");
    draw();
  }
}

function prepare(within) {
  localTimes(within);
  copyButtons(within);
  moreRows(within);
  charts(within);
}

document.addEventListener("DOMContentLoaded", () => {
  menu();
  prepare(document);
  document.body.addEventListener("htmx:afterSwap", (e) => prepare(e.detail.target.parentNode ?? document));
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    const search = document.querySelector("input[type=search]");
    if (search) { e.preventDefault(); search.focus(); }
  });
});
