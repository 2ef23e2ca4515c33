// Charts of the figures that pages have. What is drawn is an image with a text; the table below it has the figures.
"use strict";

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
function stack(series, shown) {
  const sum = [];
  return series.map((s, k) => s.values.map((v, i) => sum[i] = (sum[i] ?? 0) + (shown[k] ? v ?? 0 : 0)));
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

// A band is something that is drawn: a series, or the errors that are a part of one. of() has its values for the series that are shown.
// Of stacked bars the highest are drawn first, and each hides the lower part of the one before.
function bands(chart) {
  const stacked = chart.series.filter((s) => chart.stacked && !s.before), others = chart.series.filter((s) => !stacked.includes(s));
  const bars = uPlot.paths.bars({ size: [0.9, 64], align: chart.width ? 1 : 0 });
  const shown = stacked.map(() => true);
  const look = (s, i) => {
    const bar = (chart.bars || chart.stacked) && !s.before;
    const stroke = color(s.before ? "--text-soft" : s.name.toLowerCase() === "errors" ? "--bad-fill" : s.name === "others" ? "--series-6" : `--series-${i % 6 + 1}`);
    return { label: s.name, stroke, width: bar ? 0 : 1.75, dash: s.before ? [5, 4] : undefined, fill: bar ? stroke : undefined, paths: bar ? bars : undefined,
      points: { show: !bar && !s.before && chart.x.length < 40 }, spanGaps: !s.before && !chart.end };
  };
  const all = [];
  for (let k = stacked.length - 1; k >= 0; k--) {
    const s = stacked[k];
    all.push({ stacked: k, options: look(s, k), of: (sums) => sums[k] });
    if (s.errors) all.push({ part: k, options: look({ ...s, name: "errors" }, k), of: (sums) => s.errors.map((n, i) => shown[k] && n ? (sums[k - 1]?.[i] ?? 0) + n : null) });
  }
  others.forEach((s, i) => all.push({ options: look(s, stacked.length + i), of: () => s.values }));
  const data = () => { const sums = stack(stacked, shown); return [chart.x, ...all.map((b) => b.of(sums))]; };
  const toggled = (plot, i) => {
    const of = i == null ? undefined : all[i - 1]?.stacked;
    if (of === undefined) return;
    shown[of] = plot.series[i].show;
    plot.setData(data());
  };
  return { all, data, toggled };
}

// hatch marks the bucket that is still under way: its value grows.
function hatch(plot, chart) {
  const last = chart.x.at(-1), { ctx, bbox } = plot, px = devicePixelRatio;
  const from = plot.valToPos(last, "x", true), to = plot.valToPos(chart.end, "x", true);
  const top = chart.stacked ? plot.valToPos(plot.data[1].at(-1) ?? 0, "y", true) : bbox.top;
  const bottom = plot.valToPos(0, "y", true);
  if (bottom - top < 1) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(from, top, to - from, bottom - top);
  ctx.clip();
  ctx.strokeStyle = color(chart.stacked ? "--surface" : "--line");
  ctx.lineWidth = 2 * px;
  ctx.beginPath();
  for (let x = from - (bottom - top); x < to; x += 6 * px) {
    ctx.moveTo(x, bottom);
    ctx.lineTo(x + (bottom - top), top);
  }
  ctx.stroke();
  ctx.restore();
}

// tip shows the values of what is pointed at, and nothing otherwise.
function tip(plot, chart, title) {
  const box = document.createElement("div"), value = units(chart.unit);
  box.className = "tip";
  box.hidden = true;
  plot.over.append(box);
  const line = (text, of, bad) => {
    const row = document.createElement("div"), name = document.createElement("span"), n = document.createElement("span");
    name.textContent = text;
    n.textContent = of;
    n.className = bad ? "bad" : "";
    row.append(name, n);
    return row;
  };
  return () => {
    const i = plot.cursor.idx;
    box.hidden = i == null || plot.cursor.left < 0;
    if (box.hidden) return;
    const head = document.createElement("strong");
    head.textContent = title(chart.x[i]) + (chart.open && i === chart.x.length - 1 ? ", under way" : "");
    box.replaceChildren(head, ...[...chart.series].reverse().flatMap((s) => [line(s.name, value(s.values[i])), ...s.errors?.[i] ? [line("errors", value(s.errors[i]), true)] : []]));
    const right = plot.cursor.left > plot.over.clientWidth / 2;
    box.style.left = right ? "" : plot.cursor.left + 12 + "px";
    box.style.right = right ? plot.over.clientWidth - plot.cursor.left + 12 + "px" : "";
  };
}

// charts draws what figures hold; see chart in chart.go.
function charts(within) {
  if (!window.uPlot) return;
  for (const figure of within.querySelectorAll("[data-chart]")) {
    const chart = JSON.parse(figure.dataset.chart), height = 210;
    const axis = { stroke: color("--text-soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui" };
    const { all, data, toggled } = bands(chart), times = chart.time && clock(chart);
    let moved = () => {};
    const options = {
      width: figure.clientWidth, height, cursor: { y: false, drag: { x: Boolean(chart.width), y: false, setScale: false } }, legend: { live: false },
      scales: { x: { time: chart.time, range: chart.end ? [chart.x[0], chart.end] : undefined }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
      axes: [times ? { ...axis, values: times.axis } : axis, { ...axis, size: wide, values: ticked(chart.unit) }],
      series: [{ label: "" }, ...all.map((b) => b.options)], tzDate: times?.date,
      hooks: { setSeries: [toggled], setCursor: [() => moved()], setSelect: chart.width ? [(plot) => zoom(plot, chart)] : [], draw: chart.open ? [(plot) => hatch(plot, chart)] : [] },
    };
    figure.removeAttribute("data-chart");
    figure.replaceChildren();
    const plot = new uPlot(options, data(), figure);
    const legend = [...plot.root.querySelectorAll(".u-legend .u-series")].slice(-all.length);
    all.forEach((b, i) => { legend[i].hidden = b.part !== undefined; }); // what is red needs no line of its own
    moved = tip(plot, chart, times ? times.full : (x) => `${chart.label || "Step"} ${x}`);
    if (chart.picks) plot.over.addEventListener("click", () => pick(plot, chart));
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", figure.dataset.summary);
    new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height })).observe(figure);
  }
}
