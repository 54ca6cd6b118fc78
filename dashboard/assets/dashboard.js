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
  let count = 0; // keys pressed and ranges told
  let pressed = []; // the last of them, in order
  let moving = 0; // moves of ours that plotly has not done
  let wanted = null; // the range told last, until the address has it: figures of views before it may still come

  let fitted = null; // the figure whose step a key fits, until that of the answer: the next key moves on from there

  const set = (id, data) => window.dash_clientside.set_props(id, { data: data });
  const ready = (id) => document.getElementById(id);

  function tellScheme() {
    set("scheme", scheme.matches ? "dark" : "light");
    paint();
  }

  /* Of the timelines; on the page of many ranks of all. */
  const frameWidth = () =>
    Math.round((document.querySelector(".timeline-frame") || document.body).clientWidth / 100) * 100;

  /* The page comes for the view of the address, this scheme and this width: its figure is drawn once. */
  function askForThisView() {
    const ask = window.fetch;
    window.fetch = (address, ...rest) => {
      if (!String(address).endsWith("_dash-layout")) return ask(address, ...rest);
      const query = new URLSearchParams(window.location.search);
      query.set("scheme", scheme.matches ? "dark" : "light");
      query.set("width", frameWidth());
      return ask(`${address}?${query}`, ...rest);
    };
  }

  /* Dash's page takes the place of what the server sent first; its picture stays until the timelines are painted. */
  function takeOver() {
    const first = ready("first");
    if (!first) return;
    if (ready("still")) ready("still").append(first.querySelector(".still"));
    first.remove();
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
      if (!moving && Object.keys(change).some((name) => name.startsWith("xaxis.range"))) tell(timeline.layout.xaxis.range);
    });
    timeline.on("plotly_afterplot", () => {
      if (wanted && !moving && !isNear(timeline.layout.xaxis.range, wanted)) show(timeline);
    });
  }

  function tell(range) {
    fitted = null;
    wanted = [...range];
    happened(wanted);
  }

  function happened(what) {
    count += 1;
    pressed = [...pressed.slice(-49), what];
    set("keys", { pressed: pressed, count: count });
  }

  /* Plotly does one after the other, and says when it has. */
  async function show(timeline) {
    moving += 1;
    try {
      await window.Plotly.relayout(timeline, { "xaxis.range": [...wanted] });
    } finally {
      moving -= 1;
    }
  }

  /* The same range, but for what nine digits in the address leave of it. */
  function isNear(range, other) {
    const least = 1e-3 * (other[1] - other[0]) + 1e-8 * Math.max(...other.map(Math.abs));
    return range.every((edge, place) => Math.abs(edge - other[place]) <= least);
  }

  /* The address has what is wanted, or another view has taken its place. */
  function settle() {
    const x = new URLSearchParams(window.location.search).get("x");
    const isOlder = wanted && x && !isNear(x.split(",").map(Number), wanted);
    if (!isOlder) wanted = null;
  }

  const selected = () => new URLSearchParams(window.location.search).get("op");

  /* What a row or a link has selected can be seen. Dash's links go to the top of the page: back from there. */
  function bringIntoView(scrolled) {
    window.scrollTo(0, scrolled);
    const frame = ready("timeline-frame");
    const { top, bottom } = frame.getBoundingClientRect();
    if (bottom < 100 || top > window.innerHeight - 100) frame.scrollIntoView();
  }

  /* The charts further down wait for the timelines, and the tables for them: a browser does one after the other. */
  function tellPainted(tries) {
    const painted = document.querySelector("#timeline .hm, #timeline .barlayer .point");
    if (ready("timeline") && !painted && tries) {
      window.setTimeout(tellPainted, 50, tries - 1);
      return;
    }
    if (ready("still")) ready("still").replaceChildren();
    set("painted", true);
    const script = document.createElement("script");
    script.src = ready("later").dataset.src;
    script.addEventListener("load", () => set("can-grid", true));
    document.body.append(script);
  }

  function move(by) {
    const timeline = plot();
    if (!timeline || !window.Plotly) return;
    const isFitted = fitted && fitted === timeline.layout.uirevision;
    const [low, high] = wanted || (isFitted ? timeline.layout.meta.whole : timeline.layout.xaxis.range);
    const [middle, width] = by((low + high) / 2, high - low);
    tell([middle - width / 2, middle + width / 2]);
    show(timeline);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !ready("timeline")) return;
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
      if (event.key !== "Escape") {
        wanted = null;
        fitted = plot() && plot().layout.uirevision;
      }
      happened(event.key);
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
    takeOver();
    nameSliders();
    if (ready("timeline")) listen();
    tellPainted(100);
    new MutationObserver(nameSliders).observe(document.body, { childList: true, subtree: true });
    scheme.addEventListener("change", tellScheme);
    let timer = null;
    window.addEventListener("resize", () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => set("width", frameWidth()), 200);
    });
    const push = window.history.pushState;
    window.history.pushState = function () {
      const [before, scrolled] = [selected(), window.scrollY];
      push.apply(this, arguments);
      settle();
      paint();
      if (selected() && selected() !== before) window.setTimeout(bringIntoView, 0, scrolled);
    };
    window.addEventListener("popstate", () => {
      wanted = null;
      paint();
    });
  }

  paint();
  askForThisView();
  const go = (address) => {
    if (address) window.location.assign(address);
    return null;
  };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { launchscope: { same: (value) => value, go: go } });
  const waiting = new MutationObserver(() => {
    if (!ready("timeline-frame") && !document.querySelector("#page.many")) return;
    waiting.disconnect();
    start();
  });
  waiting.observe(document, { childList: true, subtree: true });
})();
