// The map: points on a canvas, found by a grid, reached by pointer and by arrow keys.
"use strict";
Object.assign(warpsmith, (() => {
  const { find, keepInAddress, load, query, split } = warpsmith;
  const [X, Y, FAMILY, TECHNIQUE, TASK, OUTCOME, LABEL, LOW, FILE] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const COLUMN = { family: FAMILY, technique: TECHNIQUE, outcome: OUTCOME };
  const COLOURS = { light: ["#1d4fd7", "#b3400e", "#0f766e", "#a3195b", "#6d28d9", "#4d7c0f", "#0369a1", "#92400e", "#be123c", "#475569"],
    dark: ["#86b0ff", "#ffa26b", "#5eead4", "#ff8cc0", "#c4a5ff", "#b5e550", "#7dd3fc", "#f4c274", "#ff8fa3", "#cbd5e1"] };
  const RAMP = { light: ["#a81f14", "#8a6d1a", "#12692f", "#0b4a8f", "#4c1d95"], dark: ["#ff9d93", "#ecc062", "#6bd398", "#7dd3fc", "#c4a5ff"] };
  const STEPS = [1, 1.5, 3, 10]; // low ends between the colours of the ramp
  const PAD = 14; // pixels around the points
  const CELLS = 50; // of the grid, across and down
  let names = {}, points = [], grid = new Map(), shown = [], picked = -1, colourOf = [];

  const isDark = () => {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const scheme = () => (isDark() ? "dark" : "light");
  const place = (canvas, point) => [PAD + (point[X] / 1000) * (canvas.width - 2 * PAD), PAD + (point[Y] / 1000) * (canvas.height - 2 * PAD)];

  const findColours = (by) => {
    const [colours, ramp] = [COLOURS[scheme()], RAMP[scheme()]];
    if (by === "low") {
      const level = (low) => STEPS.filter((step) => low >= step).length;
      colourOf = points.map((p) => (p[LOW] > 0 ? ramp[level(p[LOW])] : colours[9]));
      return [["no speedup", colours[9]], ["below 1×", ramp[0]], ...STEPS.map((s, i) => [`${s}× and more`, ramp[i + 1]])];
    }
    const counts = new Map();
    for (const p of points) counts.set(p[COLUMN[by]], (counts.get(p[COLUMN[by]]) || 0) + 1);
    const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    const rank = new Map(order.map((name, i) => [name, Math.min(i, 9)]));
    colourOf = points.map((p) => colours[rank.get(p[COLUMN[by]])]);
    const legend = order.slice(0, 9).map((name, i) => [`${names[by][name]} (${counts.get(name)})`, colours[i]]);
    return order.length > 9 ? [...legend, ["others", colours[9]]] : legend;
  };

  const drawLegend = (legend) => {
    find("#legend").replaceChildren(...legend.map(([text, colour]) => {
      const [item, dot] = [document.createElement("li"), document.createElement("span")];
      dot.style.background = colour;
      item.append(dot, text);
      return item;
    }));
  };

  const draw = () => {
    const canvas = find("#map");
    const pen = canvas.getContext("2d");
    const radius = points.length > 3000 ? 3.5 : 5.5;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    points.forEach((point, i) => {
      const [x, y] = place(canvas, point);
      pen.globalAlpha = shown[i] ? 0.8 : 0.08;
      pen.fillStyle = colourOf[i];
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    });
    if (picked < 0) return;
    const [x, y] = place(canvas, points[picked]);
    pen.globalAlpha = 1;
    pen.lineWidth = 3;
    pen.strokeStyle = isDark() ? "#fff" : "#000";
    pen.beginPath();
    pen.arc(x, y, radius + 5, 0, 2 * Math.PI);
    pen.stroke();
  };

  const describe = (point) => {
    const low = point[LOW] > 0 ? `at least ${point[LOW].toFixed(2)}× the fastest baseline` : "no speedup";
    return `${names.label[point[LABEL]]} (${names.family[point[FAMILY]]}) for ${names.task[point[TASK]]}: ${names.outcome[point[OUTCOME]]}, ${low}.`;
  };

  const pick = (number) => {
    picked = number;
    const text = find("#picked");
    if (number < 0) text.textContent = "Point at a kernel, or use the arrow keys.";
    else {
      const link = document.createElement("a");
      link.href = `kernels/${points[number][FILE]}.html`;
      link.textContent = "Open its page";
      text.replaceChildren(`${describe(points[number])} `, link);
    }
    requestAnimationFrame(draw);
  };

  const cellOf = (x, y) => Math.floor((x / 1001) * CELLS) + CELLS * Math.floor((y / 1001) * CELLS);

  const findNear = (x, y) => {
    let [best, least] = [-1, 900]; // 30 thousandths of the map away at most
    for (let dx = -2; dx <= 2; dx++) {
      for (let dy = -2; dy <= 2; dy++) {
        for (const i of grid.get(cellOf(x, y) + dx + CELLS * dy) || []) {
          const apart = (points[i][X] - x) ** 2 + (points[i][Y] - y) ** 2;
          if (shown[i] && apart < least) [best, least] = [i, apart];
        }
      }
    }
    return best;
  };

  const locate = (event) => {
    const canvas = find("#map");
    const box = canvas.getBoundingClientRect();
    const scale = (at, size, length) => (((at / size) * length - PAD) / (length - 2 * PAD)) * 1000;
    return findNear(scale(event.clientX - box.left, box.width, canvas.width), scale(event.clientY - box.top, box.height, canvas.height));
  };

  // The nearest point in a quarter of the plane.
  const step = (dx, dy) => {
    const from = picked >= 0 ? points[picked] : [500, 500];
    let [best, least] = [picked, Infinity];
    points.forEach((point, i) => {
      const along = (point[X] - from[X]) * dx + (point[Y] - from[Y]) * dy;
      const across = Math.abs((point[X] - from[X]) * dy) + Math.abs((point[Y] - from[Y]) * dx);
      if (shown[i] && i !== picked && along > 0 && across <= along && along + 2 * across < least) [best, least] = [i, along + 2 * across];
    });
    pick(best);
  };

  const open = () => picked >= 0 && location.assign(`kernels/${points[picked][FILE]}.html`);
  const KEYS = { ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    Enter: open, Escape: () => pick(-1) };

  const colour = () => {
    const form = find("#colours");
    const words = split(form.elements.q.value);
    const text = (p) => `${names.label[p[LABEL]]} ${names.family[p[FAMILY]]} ${names.task[p[TASK]]} ${names.outcome[p[OUTCOME]]}`.toLowerCase();
    shown = points.map((p) => !words.length || words.every((w) => text(p).includes(w)));
    find("#count").textContent = `${shown.filter(Boolean).length} of ${points.length} kernels`;
    if (picked >= 0 && !shown[picked]) picked = -1;
    drawLegend(findColours(form.elements.by.value));
    draw();
  };

  const addPoints = (data) => {
    ({ names, points } = data);
    points.forEach((point, i) => {
      const cell = cellOf(point[X], point[Y]);
      grid.set(cell, [...(grid.get(cell) || []), i]);
    });
    colour();
  };

  const start = () => {
    const [form, canvas] = [find("#colours"), find("#map")];
    const by = query.get("by");
    if (by && [...form.elements.by.options].some((o) => o.value === by)) form.elements.by.value = by;
    form.elements.q.value = form.elements.q.value || query.get("q") || "";
    form.addEventListener("input", () => {
      colour();
      keepInAddress([form.elements.by, form.elements.q]);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("themechange", colour);
    canvas.addEventListener("pointermove", (event) => {
      const near = locate(event);
      if (near >= 0 && near !== picked) pick(near);
    });
    canvas.addEventListener("click", (event) => {
      pick(locate(event));
      open();
    });
    canvas.addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    load("data/map.js");
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { addPoints };
})());
