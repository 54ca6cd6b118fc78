/* The timelines and charts of a report in one file: which figure is shown, and in which colours. */
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const CONFIG = { displaylogo: false, responsive: true, showTips: false };
  const TIMELINE_CONFIG = {
    ...CONFIG,
    scrollZoom: true,
    doubleClick: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d"],
  };
  const MOST_PIECES = 3;
  const unpacked = new Map();
  const view = { align: "time", step: 0, x: null };
  let turn = 0;
  let drawn = [];

  /* How much larger figures are on a wide page, and a figure with its pixels in that scale: as enlarged.py. */
  const scale = () => Math.min(Math.max(1, window.innerWidth / 1870), 1.8);
  const PIXELS = ["size", "standoff", "xshift", "height"];
  const PIXELS_IN = { line: ["width"], margin: ["l", "r", "t", "b"], pad: ["t"] };
  function enlarged(part, name) {
    if (Array.isArray(part)) return typeof part[0] === "object" && !Array.isArray(part[0]) ? part.map((each) => enlarged(each, name)) : part;
    if (!part || typeof part !== "object") return part;
    const isPixels = (key) => PIXELS.includes(key) || (PIXELS_IN[name] || []).includes(key);
    const larger = ([key, value]) => [key, typeof value === "number" && isPixels(key) ? value * scale() : enlarged(value, key)];
    return Object.fromEntries(Object.entries(part).map(larger));
  }

  const isDark = () => document.documentElement.dataset.theme === "dark";
  const steps = () => data.timelines[view.align];

  /* Packed figures are base64 of deflated JSON. */
  function unpack(packed) {
    if (!unpacked.has(packed)) {
      const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(packed, new Response(stream).json());
    }
    return unpacked.get(packed);
  }

  /* The fewest pieces of a level, which are sorted, that draw all of what is in view; null where they leave a hole. */
  function cover(level, [low, high]) {
    const found = [];
    for (let at = low; at < high; at = found.at(-1).x[1]) {
      const next = level.findLast((piece) => piece.x[0] <= at && at < piece.x[1]);
      if (!next) return null;
      found.push(next);
    }
    return found;
  }

  /* Of the finest level that needs few; else the overview. */
  function shownPieces() {
    const levels = steps()[view.step];
    const covers = view.x ? levels.map((level) => cover(level, view.x)) : [];
    return covers.findLast((pieces) => pieces && pieces.length <= MOST_PIECES) || levels[0];
  }

  const isDrawn = (pieces) => pieces.length === drawn.length && pieces.every((piece, place) => piece === drawn[place]);

  async function drawTimeline() {
    const mine = ++turn;
    const overviewPiece = steps()[view.step][0][0];
    const pieces = shownPieces();
    const [overview, ...shown] = await Promise.all([overviewPiece, ...pieces].map((piece) => unpack(piece.packed)));
    if (mine !== turn) return;
    const layout = structuredClone({ ...overview.layout, ...(isDark() ? overview.dark : {}) }); // plotly writes into it
    delete layout.width;
    layout.uirevision = mine;
    [layout.xaxis.minallowed, layout.xaxis.maxallowed] = overviewPiece.x;
    if (view.x) layout.xaxis.range = view.x.slice();
    const traces = shown.flatMap((figure) => figure.data);
    const styled = traces.map((trace) => ({ ...trace, ...(isDark() ? data.dark[trace.style] : {}) }));
    await window.Plotly.react($("timeline"), enlarged(styled), enlarged(layout), TIMELINE_CONFIG);
    drawn = pieces;
  }

  function drawCharts() {
    for (const [name, figures] of Object.entries(data.charts)) {
      const figure = enlarged(structuredClone(figures[isDark() ? "dark" : "light"]));
      window.Plotly.react($(name), figure.data, figure.layout, CONFIG);
    }
  }

  function drawAll() {
    $("step").value = String(view.step);
    $("previous").disabled = view.step === 0;
    $("next").disabled = view.step === steps().length - 1;
    return drawTimeline();
  }

  function toStep(step) {
    view.step = Math.min(Math.max(step, 0), steps().length - 1);
    view.x = null;
    drawAll();
  }

  /* Zoom by a factor and move by a share of what is in view. */
  function move(factor, share) {
    const [low, high] = view.x || $("timeline").layout.xaxis.range;
    const [least, most] = steps()[view.step][0][0].x;
    const half = Math.min((high - low) * factor, most - least) / 2;
    const middle = (low + high) / 2 + share * (high - low);
    const inside = Math.min(Math.max(middle, least + half), most - half);
    view.x = [inside - half, inside + half];
    drawTimeline();
  }

  function fit() {
    view.x = null;
    drawTimeline();
  }

  function paint() {
    drawTimeline();
    drawCharts();
  }

  const KEYS = {
    w: () => move(0.5, 0),
    s: () => move(2, 0),
    a: () => move(1, -0.25),
    d: () => move(1, 0.25),
    f: fit,
    "[": () => toStep(view.step - 1),
    "]": () => toStep(view.step + 1),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, summary")) return;
    if (KEYS[event.key]) KEYS[event.key]();
  });
  $("step").addEventListener("change", (event) => toStep(Number(event.target.value)));
  $("previous").addEventListener("click", () => toStep(view.step - 1));
  $("next").addEventListener("click", () => toStep(view.step + 1));
  $("fit").addEventListener("click", fit);
  for (const radio of document.querySelectorAll("input[name=align]")) {
    radio.addEventListener("change", () => {
      view.align = radio.value;
      fit();
    });
  }

  function follow() {
    document.documentElement.dataset.theme = scheme.matches ? "dark" : "light";
    paint();
  }
  scheme.addEventListener("change", follow);
  let painted = scale();
  window.addEventListener("resize", () => {
    if (scale() !== painted) paint();
    painted = scale();
  });
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    paint();
  });

  document.documentElement.dataset.theme = scheme.matches ? "dark" : "light";
  drawCharts();
  drawAll().then(() => {
    $("timeline").on("plotly_relayout", (change) => {
      if (!("xaxis.range[0]" in change || "xaxis.range" in change)) return;
      view.x = $("timeline").layout.xaxis.range.slice();
      if (!isDrawn(shownPieces())) drawTimeline();
    });
  });
})();
