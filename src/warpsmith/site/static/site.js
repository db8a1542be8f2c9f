// The site's script: dark or light, tables that sort, filters of the leaderboard, the search. Pages read well without it.
"use strict";
const warpsmith = (() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const list = (selector, within = document) => [...within.querySelectorAll(selector)];
  const query = new URLSearchParams(location.search);
  const split = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  // ---- dark or light: as the system says, until the button is used
  const remember = (value) => {
    try {
      if (value) localStorage.setItem("theme", value);
      return localStorage.getItem("theme");
    } catch {
      return value; // storage is off
    }
  };

  const startTheme = () => {
    const root = document.documentElement;
    const saved = remember();
    if (saved === "dark" || saved === "light") root.dataset.theme = saved;
    const button = find("#theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      remember(root.dataset.theme);
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
    const rows = list("tbody tr", table).map((row) => [keyOf(row, column), row]);
    rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    find("tbody", table).append(...rows.map((pair) => pair[1]));
  };

  const startSorting = (table) => {
    list("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => sortBy(table, head, column));
    });
  };

  // ---- filters of the leaderboard; a link may set them: index.html?outcome=win&q=softmax
  const isShown = (row, words, facets) => {
    const text = row.textContent.toLowerCase();
    return words.every((w) => text.includes(w)) && facets.every(([name, value]) => row.dataset[name] === value);
  };

  const filter = () => {
    const form = find("#filters");
    const words = split(form.elements.q.value);
    const facets = list("select", form).filter((s) => s.value).map((s) => [s.name, s.value]);
    const rows = list("#board tbody tr");
    for (const row of rows) row.hidden = !isShown(row, words, facets);
    find("#count").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };

  const startFilters = () => {
    const form = find("#filters");
    if (!form || !find("#board")) return;
    for (const field of [form.elements.q, ...list("select", form)]) {
      const value = query.get(field.name);
      if (value && (!field.options || [...field.options].some((o) => o.value === value))) field.value = value;
    }
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  };

  // Rows beyond the first ones, as the site's own template wrote them: everything of an archive is escaped in them.
  const addRows = (rows) => {
    find("#board tbody").insertAdjacentHTML("beforeend", rows.join(""));
    filter();
  };

  // ---- search: [kind, page, title, words]; all words must occur, titles count more
  const MOST = 100;
  let entries = [];

  const score = (entry, words) => {
    const title = entry[2].toLowerCase();
    const text = `${title} ${entry[3].toLowerCase()}`;
    if (!words.every((w) => text.includes(w))) return 0;
    return 1 + words.filter((w) => title.includes(w)).length + (entry[0] === "task" ? 0.5 : 0);
  };

  const search = (text) => {
    const words = split(text);
    if (!words.length) return [];
    const hits = entries.map((entry) => [score(entry, words), entry]).filter((pair) => pair[0] > 0);
    return hits.sort((a, b) => b[0] - a[0]).map((pair) => pair[1]);
  };

  const showHits = (text) => {
    const hits = search(text);
    find("#hits").textContent = text.trim() ? `${hits.length} found${hits.length > MOST ? `, ${MOST} shown` : ""}` : "";
    const items = hits.slice(0, MOST).map(([kind, page, title, words]) => {
      const [item, link, note] = ["li", "a", "small"].map((name) => document.createElement(name));
      link.href = page;
      link.textContent = title;
      note.textContent = `${kind}: ${words.slice(0, 160)}`;
      item.append(link, note);
      return item;
    });
    find("#results").replaceChildren(...items);
  };

  const addEntries = (more) => {
    entries = entries.concat(more);
    const form = find("#search");
    if (form) showHits(form.elements.q.value);
  };

  const startSearch = () => {
    const form = find("#search");
    if (!form) return;
    if (!form.elements.q.value) form.elements.q.value = query.get("q") || "";
    form.hidden = false;
    form.addEventListener("input", () => showHits(form.elements.q.value));
    form.addEventListener("submit", (event) => event.preventDefault());
  };

  startTheme();
  list("table").forEach(startSorting);
  startFilters();
  startSearch();
  return { addRows, addEntries, search };
})();
