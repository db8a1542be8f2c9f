// The live pages' script: parts of the page that changed take their places, clocks count down, dark or light. Pages read well without it.
"use strict";
(() => {
  const list = (selector, within = document) => [...within.querySelectorAll(selector)];

  // ---- dark or light: as the system says, until the button is used
  const remember = (value) => {
    try {
      if (value) localStorage.setItem("theme", value);
      return localStorage.getItem("theme");
    } catch {
      return value; // storage is off
    }
  };
  const root = document.documentElement;
  const saved = remember();
  if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
  });

  // ---- clocks
  const tick = () => {
    for (const clock of list("[data-ends]")) {
      const seconds = Math.max(0, Math.round(Number(clock.dataset.ends) - Date.now() / 1000));
      const text = seconds < 120 ? `${seconds}s left` : `${Math.floor(seconds / 60)}m ${String(seconds % 60).padStart(2, "0")}s left`;
      if (clock.textContent !== text) clock.textContent = text;
    }
  };
  setInterval(tick, 1000);
  tick();

  // ---- parts: HTML of the server's own templates, in which everything of an archive is escaped. Who stands on a button stays there.
  const put = (parts) => {
    const focused = document.activeElement ? document.activeElement.id : "";
    for (const [name, html] of Object.entries(parts)) {
      const place = document.getElementById(name);
      if (!place) continue;
      const [top, left] = [place.scrollTop, list(".scroll", place).map((s) => s.scrollLeft)];
      place.innerHTML = html;
      place.scrollTop = top;
      list(".scroll", place).forEach((s, i) => (s.scrollLeft = left[i] || 0));
    }
    if (focused && (!document.activeElement || document.activeElement.id !== focused)) {
      const again = document.getElementById(focused);
      if (again) again.focus({ preventScroll: true });
    }
    tick();
  };

  // ---- news, while the page is looked at: a browser has few connections to one server
  const page = document.body.dataset.page;
  const connection = document.getElementById("connection");
  let source = null;
  const connect = () => {
    source = new EventSource(`/events?of=${encodeURIComponent(page)}`);
    source.addEventListener("open", () => (connection.textContent = "connected"));
    source.addEventListener("error", () => (connection.textContent = "not connected; trying again"));
    source.addEventListener("parts", (event) => put(JSON.parse(event.data)));
  };
  const follow = () => {
    if (document.hidden && source) {
      source.close();
      source = null;
      connection.textContent = "paused";
    } else if (!document.hidden && !source) {
      connect();
    }
  };
  if (page !== undefined) {
    document.addEventListener("visibilitychange", follow);
    follow();
  }
})();
