// Keeps a page up to date, and lets it be used by keyboard. Every page can be read without it.
"use strict";
(() => {
  const body = document.body;
  const byId = (id) => document.getElementById(id);
  const number = new Intl.NumberFormat("en-US");

  // ── live: events say that something changed; the page is fetched again, and what differs put in ──

  const REST = 1500; // milliseconds between two fetches of a page
  let fetched = 0;
  let waiting = null;

  // What readers have opened or ticked stays as it is when a page is put in.
  window.Idiomorph.defaults.ignoreActiveValue = true;
  Object.assign(window.Idiomorph.defaults.callbacks, {
    beforeAttributeUpdated: (name, node) =>
      !((name === "open" && node.tagName === "DETAILS") || name === "checked" || (name === "hidden" && node.id === "tick-all")),
    beforeNodeMorphed: (node) => !(node.dataset && "keep" in node.dataset),
  });

  function refresh() {
    const live = byId("live");
    if (!live || document.hidden || waiting !== null) return;
    const rest = Math.max(0, fetched + REST - Date.now());
    waiting = setTimeout(() => {
      waiting = null;
      fetched = Date.now();
      window.htmx.trigger(live, "refresh");
    }, rest);
  }

  function show(figures) {
    for (const [name, count] of Object.entries(figures)) {
      for (const place of document.querySelectorAll(`[data-figure="${CSS.escape(name)}"]`)) {
        const text = (count.estimate ? "~" : "") + number.format(count.count);
        if (place.textContent !== text) place.textContent = text;
      }
    }
  }

  function pulse(isLive) {
    const place = byId("pulse");
    if (!place) return;
    place.hidden = false;
    place.classList.toggle("lost", !isLive);
    const text = isLive ? "live" : "lost";
    const words = place.querySelector(".pulse-text");
    if (words.textContent !== text) words.textContent = text;
    byId("trouble").hidden = isLive;
  }

  function listen() {
    const source = new EventSource("/events");
    let isOver = false;
    let lost = null;
    const isLive = () => {
      clearTimeout(lost);
      lost = null;
      pulse(true);
    };
    source.addEventListener("open", isLive);
    source.addEventListener("figures", (event) => {
      isLive();
      const figures = JSON.parse(event.data);
      show(figures);
      document.dispatchEvent(new CustomEvent("windlass:figures", { detail: figures }));
      refresh();
    });
    source.addEventListener("trouble", () => pulse(false));
    source.addEventListener("ended", () => {
      isOver = true;
      pulse(false);
    });
    source.addEventListener("error", () => {
      // It connects again by itself, unless it was refused; short gaps are not worth a word.
      if (lost === null) lost = setTimeout(() => pulse(false), isOver ? 0 : 4000);
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    });
    window.addEventListener("pagehide", () => source.close(), { once: true });
  }

  if ("live" in body.dataset) {
    listen();
    window.addEventListener("pageshow", (event) => event.persisted && listen());
    document.addEventListener("visibilitychange", refresh);
  }

  // What was done is told once, and not again when the page is loaded again.
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    here.searchParams.delete("n");
    history.replaceState(null, "", here);
  }

  // ── ticking ──

  const ticks = () => [...document.querySelectorAll('td.tick input[type="checkbox"]')];
  function tickAll() {
    const all = byId("tick-all");
    if (all) all.hidden = false;
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "tick-all") ticks().forEach((tick) => (tick.checked = event.target.checked));
    else if (event.target.closest && event.target.closest("td.tick") && byId("tick-all"))
      byId("tick-all").checked = ticks().every((tick) => tick.checked);
  });
  tickAll();
  document.addEventListener("htmx:afterSettle", tickAll);

  // ── keys ──

  const PLACES = { o: "/", j: "/jobs", f: "/failures", c: "/chains", t: "/tasks", s: "/schedules", w: "/workers" };
  let isGoing = false;

  function step(by) {
    const rows = [...document.querySelectorAll("a.row-link")];
    const at = rows.findIndex((row) => row.closest("tr").contains(document.activeElement));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
    if (next) next.focus();
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const isTyping = target.matches && target.matches("input:not([type=checkbox]):not([type=radio]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || byId("keys").open) return;
    if (isGoing && PLACES[event.key]) {
      location.assign(PLACES[event.key]);
      return;
    }
    isGoing = event.key === "g";
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?") byId("keys").showModal();
    else if (event.key === "x") {
      const row = document.activeElement && document.activeElement.closest("tr");
      const tick = row && row.querySelector("td.tick input");
      if (tick) tick.click();
    } else if (event.key === "/") {
      const field = document.querySelector("main input:not([type=hidden]):not([type=checkbox]):not([type=radio])");
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
})();
