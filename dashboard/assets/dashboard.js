/* Keys, the width and colour scheme of the page, and the hand-over to the Perfetto UI. */
(function () {
  "use strict";
  const KEYS = ["f", "[", "]", "Escape"];
  /* What a key makes of the middle and the width of what is in view: at once here, the server then fills in. */
  const MOVES = {
    w: (middle, width) => [middle, width / 2],
    s: (middle, width) => [middle, width * 2],
    a: (middle, width) => [middle - width / 4, width],
    d: (middle, width) => [middle + width / 4, width],
  };
  const PERFETTO = "https://ui.perfetto.dev";
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  let count = 0;

  const set = (id, data) => window.dash_clientside.set_props(id, { data: data });
  const ready = (id) => document.getElementById(id);

  function tellScheme() {
    set("scheme", scheme.matches ? "dark" : "light");
    paint();
  }

  function tellWidth() {
    const frame = ready("timeline-frame");
    if (frame) set("width", Math.round(frame.clientWidth / 100) * 100);
  }

  /* The theme of the URL, else the system's. */
  function paint() {
    const named = new URLSearchParams(window.location.search).get("theme");
    const dark = named ? named === "dark" : scheme.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }

  /* Dash gives a slider's thumb no name: it takes that of its label. */
  function nameSliders() {
    document.querySelectorAll(".knobs .labelled").forEach((each) => {
      const thumb = each.querySelector("[role=slider]");
      const label = each.querySelector("label");
      if (thumb && label && !thumb.hasAttribute("aria-label")) thumb.setAttribute("aria-label", label.textContent);
    });
  }

  function toggleHelp(open) {
    const help = ready("help");
    if (!help) return;
    if (open && !help.open) help.showModal();
    if (!open && help.open) help.close();
  }

  /* The drawn timelines, once there are some. */
  function plot() {
    const timeline = document.querySelector("#timeline .js-plotly-plot");
    return timeline && timeline.on && timeline.layout && timeline.layout.xaxis ? timeline : null;
  }

  /* Tell every range that a drag, a wheel or a key leaves: dash would let another change of the figure take its place. */
  function listen() {
    const timeline = plot();
    if (!timeline) {
      window.setTimeout(listen, 30);
      return;
    }
    timeline.on("plotly_relayout", (change) => {
      if (Object.keys(change).some((name) => name.startsWith("xaxis.range"))) set("range", [...timeline.layout.xaxis.range]);
    });
  }

  /* The charts further down wait for the timelines: a browser draws one after the other. */
  function tellPainted(tries) {
    if (document.querySelector("#timeline .hm, #timeline .barlayer .point") || !tries) return set("painted", true);
    window.setTimeout(tellPainted, 50, tries - 1);
  }

  function move(by) {
    const timeline = plot();
    if (!timeline || !window.Plotly) return;
    const [low, high] = timeline.layout.xaxis.range;
    const [middle, width] = by((low + high) / 2, high - low);
    window.Plotly.relayout(timeline, { "xaxis.range": [middle - width / 2, middle + width / 2] });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable], .ag-root, [role=combobox], [role=slider]");
    if (typing && event.key !== "Escape") return;
    if (event.key === "?") return toggleHelp(true);
    if (event.key === "/") {
      event.preventDefault();
      const search = ready("search");
      if (search) search.focus();
      return;
    }
    if (event.key === "Escape") {
      toggleHelp(false);
      if (typing) return event.target.blur();
    }
    if (event.key in MOVES) return move(MOVES[event.key]);
    if (KEYS.includes(event.key)) {
      count += 1;
      set("keys", { key: event.key, count: count });
    }
  });

  document.addEventListener("click", (event) => {
    if (event.target.id === "help-button") toggleHelp(true);
    if (event.target.id === "help-close") toggleHelp(false);
    if (event.target.id === "perfetto") handOver(event.target);
  });

  /* https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui: PING until PONG, then the bytes. */
  async function handOver(button) {
    const opened = window.open(PERFETTO);
    if (!opened) {
      button.textContent = "the browser blocked the window";
      return;
    }
    const response = await fetch("download/trace.pftrace");
    const buffer = await response.arrayBuffer();
    const ping = window.setInterval(() => opened.postMessage("PING", PERFETTO), 50);
    const answer = (event) => {
      if (event.origin !== PERFETTO || event.data !== "PONG") return;
      window.clearInterval(ping);
      window.removeEventListener("message", answer);
      opened.postMessage({ perfetto: { buffer: buffer, title: document.title } }, PERFETTO);
    };
    window.addEventListener("message", answer);
    window.setTimeout(() => window.clearInterval(ping), 60000);
  }

  function start() {
    if (!ready("timeline-frame") || !window.dash_clientside || !window.dash_clientside.set_props) {
      window.setTimeout(start, 30);
      return;
    }
    tellScheme();
    tellWidth();
    nameSliders();
    listen();
    tellPainted(100);
    new MutationObserver(nameSliders).observe(document.body, { childList: true, subtree: true });
    scheme.addEventListener("change", tellScheme);
    let timer = null;
    window.addEventListener("resize", () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(tellWidth, 200);
    });
    const push = window.history.pushState;
    window.history.pushState = function () {
      push.apply(this, arguments);
      paint();
    };
    window.addEventListener("popstate", paint);
  }

  paint();
  start();
})();
