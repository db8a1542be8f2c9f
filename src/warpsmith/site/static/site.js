// The site's script: dark or light, tables that sort, filters of the leaderboard, buttons that copy. Pages read well without it.
"use strict";
const warpsmith = (() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const list = (selector, within = document) => [...within.querySelectorAll(selector)];
  const query = new URLSearchParams(location.search);
  const split = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  // A page from a file may not fetch: data are scripts that call a function of this one.
  const load = (path) =>
    new Promise((resolve) => {
      const script = document.createElement("script");
      script.src = path;
      script.addEventListener("load", () => resolve(true));
      script.addEventListener("error", () => resolve(false));
      document.head.append(script);
    });

  // Links, reloading and the way back keep what a form says. Some browsers refuse it for files; then the form alone knows.
  const keepInAddress = (fields) => {
    const now = new URLSearchParams();
    for (const field of fields) if (field.value) now.set(field.name, field.value);
    try {
      history.replaceState(null, "", `${location.pathname}${now.size ? `?${now}` : ""}${location.hash}`);
    } catch {
      return;
    }
  };

  // ---- dark or light: as the system says, until the button is used
  const remember = (value) => {
    try {
      if (value) localStorage.setItem("theme", value);
      return localStorage.getItem("theme");
    } catch {
      return value; // storage is off
    }
  };

  const setTheme = () => {
    const saved = remember();
    if (saved === "dark" || saved === "light") document.documentElement.dataset.theme = saved;
  };

  const startTheme = () => {
    const root = document.documentElement;
    find("#theme").addEventListener("click", () => {
      const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      remember(root.dataset.theme);
      document.dispatchEvent(new Event("themechange"));
    });
  };

  // ---- tables that sort by a column
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return cell ? cell.dataset.sort || cell.textContent.trim() : "";
  };

  const compare = (a, b) => {
    const [x, y] = [Number.parseFloat(a), Number.parseFloat(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y) && x !== y) return x - y;
    return a < b ? -1 : a > b ? 1 : 0;
  };

  const sortBy = (table, head, column) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const th of list("thead th", table)) th.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const isBoard = table.id === "board";
    const pairs = (isBoard ? allRows() : list("tbody tr", table)).map((row) => [keyOf(row, column), row]);
    pairs.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    const rows = pairs.map((pair) => pair[1]);
    if (isBoard) placeRows(rows);
    else find("tbody", table).append(...rows);
  };

  const startSorting = (table) => {
    list("thead th", table).forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => sortBy(table, head, column));
    });
  };

  // ---- filters of the leaderboard; a link may set them: index.html?outcome=win&q=softmax
  const texts = new WeakMap(); // row → its text, read once

  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };

  const has = (row, name, value) => (row.dataset[name] || "").split("|").includes(value);
  const isShown = (row, words, facets) =>
    facets.every(([name, value]) => has(row, name, value)) && words.every((w) => textOf(row).includes(w));
  const listFields = (form) => [form.elements.q, ...list("select", form)];

  const filter = () => {
    const form = find("#filters");
    const words = split(form.elements.q.value);
    const facets = list("select", form).filter((s) => s.value).map((s) => [s.name, s.value]);
    if (words.length || facets.length || order) allRows();
    const rows = order || list("#board tbody tr");
    let shown = waiting.length;
    for (const row of rows) {
      row.hidden = !isShown(row, words, facets);
      shown += row.hidden ? 0 : 1;
    }
    if (order) placeRows(order);
    find("#count").textContent = `${shown} of ${rows.length + waiting.length} rows`;
  };

  const readAddress = (form, values) => {
    for (const field of listFields(form)) {
      const value = values.get(field.name);
      if (value && (!field.options || [...field.options].some((o) => o.value === value))) field.value = value;
    }
  };

  const startFilters = () => {
    const form = find("#filters");
    if (!form || !find("#board")) return;
    const update = () => {
      filter();
      keepInAddress(listFields(form));
    };
    readAddress(form, query);
    form.addEventListener("input", update);
    form.addEventListener("reset", () => setTimeout(update));
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  };

  // Rows beyond the first ones, as the site's own template wrote them: everything of an archive is escaped in them. They are
  // drawn some at a time while nothing else is to be done, and at once when somebody filters or sorts.
  const AT_ONCE = 40;
  let waiting = [];

  const drawRows = (count) => {
    const rows = waiting.splice(0, count);
    if (rows.length) find("#board tbody").insertAdjacentHTML("beforeend", rows.join(""));
  };

  const drawLater = () => {
    drawRows(AT_ONCE);
    if (waiting.length) requestIdleCallback(drawLater);
  };

  // Of a board that was sorted or filtered: all of its rows in their order. Those that are shown are placed, the first of them at once:
  // a browser lays out a long table for longer than a person waits.
  let order = null;
  let turn = 0;

  const allRows = () => {
    const known = new Set(order);
    drawRows(Infinity);
    order = (order || []).concat(list("#board tbody tr").filter((row) => !known.has(row)));
    return order;
  };

  const placeRows = (rows) => {
    order = rows;
    const body = find("#board tbody");
    if (!globalThis.requestIdleCallback) {
      body.append(...rows);
      return;
    }
    const shown = rows.filter((row) => !row.hidden);
    body.replaceChildren(...shown.splice(0, AT_ONCE));
    turn += 1;
    const mine = turn;
    const placeMore = () => {
      if (mine !== turn) return; // sorted or filtered again
      body.append(...shown.splice(0, AT_ONCE));
      if (shown.length) requestIdleCallback(placeMore);
    };
    if (shown.length) requestIdleCallback(placeMore);
  };

  const addRows = (rows) => {
    waiting = waiting.concat(rows);
    filter();
    if (globalThis.requestIdleCallback) requestIdleCallback(drawLater);
    else drawRows(Infinity);
  };

  // ---- sources and commands are copied by a button
  const startCopying = (pre) => {
    if (!globalThis.navigator?.clipboard) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${pre.getAttribute("aria-label") || "text"}`);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    pre.before(button);
  };

  const start = () => {
    startTheme();
    list("table").forEach(startSorting);
    startFilters();
    list("pre[role=region]").forEach(startCopying);
  };

  setTheme(); // before anything is drawn
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { addRows, find, keepInAddress, list, load, query, split };
})();
