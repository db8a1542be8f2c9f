// The search: all words must occur in a title, in what is said of it, or in the source. The index of sources is read a letter pair at a time.
"use strict";
Object.assign(warpsmith, (() => {
  const { find, keepInAddress, load, query, split } = warpsmith;
  const MOST = 100;
  let entries = []; // [kind, page, title, words]
  let lowered = []; // [title, title and words] in small letters
  const shards = new Map(); // first two letters → promise of { word: entries' numbers as differences }
  const words = new Map();

  const addEntries = (more) => {
    entries = entries.concat(more);
    lowered = entries.map((entry) => [entry[2].toLowerCase(), `${entry[2]} ${entry[3]}`.toLowerCase()]);
    return find("#search") ? show() : undefined;
  };

  const addWords = (shard, table) => words.set(shard, table);

  const loadShard = (word) => {
    const shard = word.slice(0, 2);
    if (!/^[a-z_][a-z0-9_]$/.test(shard)) return Promise.resolve(false);
    if (!shards.has(shard)) shards.set(shard, load(`data/words/${shard}.js`));
    return shards.get(shard);
  };

  // Numbers of entries whose source has a word that begins so.
  const findInSources = (word) => {
    const hits = new Set();
    for (const [known, steps] of Object.entries(words.get(word.slice(0, 2)) || {})) {
      if (!known.startsWith(word)) continue;
      let number = 0;
      for (const step of steps) hits.add((number += step));
    }
    return hits;
  };

  const score = (number, wanted, inSources) => {
    const [title, text] = lowered[number];
    let points = entries[number][0] === "task" ? 1.5 : 1;
    for (let i = 0; i < wanted.length; i++) {
      if (title.includes(wanted[i])) points += 1;
      else if (text.includes(wanted[i])) points += 0.25;
      else if (!inSources[i].has(number)) return 0;
    }
    return points;
  };

  const search = (text) => {
    const wanted = split(text);
    if (!wanted.length) return [];
    const inSources = wanted.map(findInSources);
    const hits = entries.map((entry, number) => [score(number, wanted, inSources), entry]).filter((pair) => pair[0] > 0);
    return hits.sort((a, b) => b[0] - a[0]).map((pair) => pair[1]);
  };

  const makeItem = ([kind, page, title, words]) => {
    const [item, link, note] = ["li", "a", "small"].map((name) => document.createElement(name));
    link.href = page;
    link.textContent = title;
    note.textContent = `${kind}: ${words.slice(0, 160)}`;
    item.append(link, note);
    return item;
  };

  const draw = (text) => {
    const hits = search(text);
    find("#hits").textContent = text.trim() ? `${hits.length} found${hits.length > MOST ? `, ${MOST} shown` : ""}` : "";
    find("#results").replaceChildren(...hits.slice(0, MOST).map(makeItem));
  };

  const show = () => {
    const field = find("#search").elements.q;
    const text = field.value;
    draw(text);
    // Sources come later: what they add is shown when they are there, unless something else was typed.
    return Promise.all(split(text).map(loadShard)).then((came) => came.some(Boolean) && field.value === text && draw(text));
  };

  const start = () => {
    const form = find("#search");
    if (!form) return;
    if (!form.elements.q.value) form.elements.q.value = query.get("q") || "";
    form.addEventListener("input", () => {
      show();
      keepInAddress([form.elements.q]);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    load("data/search.js");
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { addEntries, addWords, search };
})());
