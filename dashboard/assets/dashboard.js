/* Keys, the width and colour scheme of the page, and the hand-over to the Perfetto UI. */
(function () {
  "use strict";
  const KEYS = ["w", "s", "a", "d", "f", "[", "]", "Escape"];
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
