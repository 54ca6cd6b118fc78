/* Opening another file: it is sent to the server that the page came from, which answers where its page is. */
(function () {
  "use strict";
  const MIB = 1 << 20;
  const ASKING_MS = 1000;

  const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

  function build(place) {
    const most = Number(place.dataset.mostBytes);
    const label = element("label", { htmlFor: "upload-file", textContent: "Open another trace or capture .zip" });
    const input = element("input", { id: "upload-file", type: "file" });
    const state = element("p", { className: "muted" });
    const problem = element("p", { className: "failure" });
    state.setAttribute("role", "status");
    problem.setAttribute("role", "alert");
    const settle = () => {
      state.textContent = "";
      input.disabled = false;
      input.value = ""; // the same file may be chosen again
    };
    input.addEventListener("change", async () => {
      const file = input.files[0];
      if (!file) return;
      problem.textContent = "";
      const tell = (before) => {
        const others = before === 1 ? "another file is" : `${before} other files are`;
        state.textContent = before ? `${file.name} waits: ${others} read first …` : `reading ${file.name} …`;
      };
      tell(0);
      input.disabled = true;
      const answer = file.size > most ? { problem: tooLarge(file, most) } : await send(file, tell);
      if (answer.page) return open(answer.page);
      settle();
      problem.textContent = answer.problem;
      input.focus();
    });
    window.addEventListener("pagehide", settle); // the browser may bring this page back as it was left
    place.replaceChildren(label, input, state, problem);
  }

  function tooLarge(file, most) {
    const sizes = `${Math.ceil(file.size / MIB)} MiB, over the ${most / MIB} that can be opened here`;
    return `${file.name}: ${sizes}; give it to launchscope dashboard instead`;
  }

  /* The address of the file's page, or why there is none; meanwhile tells how many files are read before. */
  async function send(file, tell) {
    const ticket = `${Math.random()}`;
    let asking = window.setInterval(async () => {
      const response = await fetch(`upload/before?ticket=${ticket}`).catch(() => null);
      const before = response && response.ok ? Number(await response.text()) : 0;
      if (asking) tell(before);
    }, ASKING_MS);
    try {
      const response = await fetch(`upload?name=${encodeURIComponent(file.name)}&ticket=${ticket}`, {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream" },
        body: file,
      });
      if (response.status === 201) return { page: response.headers.get("Location") };
      const isWords = (response.headers.get("Content-Type") || "").startsWith("text/plain");
      return { problem: isWords ? await response.text() : `${file.name}: not opened (${response.status})` };
    } catch {
      return { problem: `${file.name}: not sent; is launchscope dashboard still running, and the file still there?` };
    } finally {
      asking = window.clearInterval(asking);
    }
  }

  /* In the theme that was chosen here. */
  function open(page) {
    const theme = new URLSearchParams(window.location.search).get("theme");
    window.location.assign(theme ? `${page}?${new URLSearchParams({ theme: theme })}` : page);
  }

  /* A page that the server keeps no more can't change any more either: say so where it would only stand still. */
  function tellWhenGone() {
    const ask = window.fetch;
    let told = false;
    window.fetch = async function () {
      const response = await ask.apply(this, arguments);
      if (response.status === 410 && !told) {
        told = true;
        const text = "This page is gone: newer files were opened since. What it shows stays, but nothing in it works any more.";
        const props = { children: text, className: "warning" };
        window.dash_clientside.set_props("changed", {
          children: { type: "P", namespace: "dash_html_components", props: props },
        });
      }
      return response;
    };
  }

  function start() {
    const place = document.getElementById("upload");
    if (place) build(place);
    else window.setTimeout(start, 100);
  }

  tellWhenGone();
  start();
})();
