// Draws the charts of the overview over those that the server drew, and keeps them up to date.
"use strict";
(() => {
  const place = document.getElementById("charts");
  if (!place) return;
  const REST = 10_000; // milliseconds: workers report no more often
  const HEIGHT = 150;
  const LINES = {
    rates: [["done", "accent", false], ["failed", "failed", true]],
    waits: [["wait", "accent", false, "mean"], ["wait95", "scheduled", true, "95 %"]],
    runs: [["run", "accent", false, "mean"], ["run95", "scheduled", true, "95 %"]],
  };
  const charts = new Map();
  let data = null;
  let asked = 0;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const rate = (value) => (value === null || value === undefined ? "–" : value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));
  const seconds = (value) => {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    if (value < 1) return `${Math.round(value * 1000)}ms`;
    if (value < 120) return `${value >= 10 ? Math.round(value) : value.toFixed(1)}s`;
    return value < 7200 ? `${Math.round(value / 60)}m` : `${Math.round(value / 3600)}h`;
  };

  const clock = (at) => new Date(at * 1000).toTimeString().slice(0, 5);

  function draw(figure, name) {
    const words = name === "rates" ? rate : seconds;
    const box = figure.querySelector(".chart-place");
    const axis = { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: Math.max(200, box.clientWidth),
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      cursor: { y: false, points: { size: 6 }, sync: { key: "windlass" } },
      legend: { live: true, markers: { width: 2 } },
      scales: { y: { range: (chart, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 60, size: 26, values: (chart, splits) => splits.map(clock) }, { ...axis, size: 46, values: (chart, splits) => splits.map(name === "rates" ? (value) => String(Number(value.toPrecision(3))) : words) }],
      series: [
        { label: "time", value: (chart, value) => (value === null || value === undefined ? "–" : clock(value)) },
        ...LINES[name].map(([, tone, isDashed, label], at) => ({
          label: label || LINES[name][at][0],
          stroke: color(tone),
          width: 1.5,
          dash: isDashed ? [5, 3] : undefined,
          spanGaps: false,
          points: { show: false },
          value: (chart, value) => words(value),
        })),
      ],
    };
    box.replaceChildren();
    return new window.uPlot(options, values(name), box);
  }

  const values = (name) => [data.at, ...LINES[name].map(([key]) => data[key])];

  function show(isNew) {
    for (const figure of place.querySelectorAll("[data-chart]")) {
      const name = figure.dataset.chart;
      const known = charts.get(name);
      if (known && !isNew) {
        known.setData(values(name));
        continue;
      }
      if (known) known.destroy();
      charts.set(name, draw(figure, name));
    }
  }

  async function load() {
    if (document.hidden || Date.now() - asked < REST) return;
    asked = Date.now();
    try {
      const answer = await fetch(`/history?minutes=${encodeURIComponent(place.dataset.minutes)}`);
      if (!answer.ok) return;
      data = await answer.json();
      if (data.at.length) show(false);
    } catch {
      asked = 0; // the pulse tells that the server is away
    }
  }

  load();
  document.addEventListener("windlass:figures", load);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && show(true));
  new ResizeObserver(() => {
    for (const [name, chart] of charts) {
      const box = place.querySelector(`[data-chart="${name}"] .chart-place`);
      if (box.clientWidth && Math.abs(box.clientWidth - chart.width) > 1) chart.setSize({ width: box.clientWidth, height: HEIGHT });
    }
  }).observe(place);
})();
