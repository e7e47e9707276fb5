// Memory over time: areas by group, one above the other, bands of phases and steps over them.

const CHART = {top: 34, bottom: 24, band: 10, step: 12, row: 18}; // pixels; step: between marks of steps; row: of labels
const chart = {bins: null, picture: null, high: 1, drag: null, dragged: false, before: null};

function chartHeight(bins) {
  let high = 1;
  for (const total of bins.highest)
    high = Math.max(high, total);
  return high;
}

function chartHasReserved() {
  return view.device.has_totals && !view.shown;
}

// The sums, which take long with a million blocks, apart from their picture, which a moving pointer changes.
function sumChart() {
  if (!view.groups)
    return;
  const columns = Math.max(1, Math.floor(byId("chart").clientWidth - MARGIN.left - MARGIN.right));
  const bins = view.timeline.sweep(view.groups, view.shown, view.from, view.to, columns, view.axis);
  Object.assign(chart, {bins, high: chartHeight(bins)});
  if (chartHasReserved())
    chart.high = reservedIn(view.from, view.to).reduce((high, [, bytes]) => Math.max(high, bytes), chart.high);
  chart.high *= 1.04;
  Object.assign(byId("chart").dataset, {from: view.from, to: view.to, axis: view.axis,
    highest: bins.highest.reduce((a, b) => Math.max(a, b), 0)});
}

function drawChart() {
  if (!view.groups)
    return;
  const picture = canvasOpen(byId("chart")), {bins} = chart;
  chart.picture = picture;
  drawByteAxis(picture, 0, chart.high, CHART.top, picture.height - CHART.bottom);
  drawAreas(picture, bins);
  if (chartHasReserved())
    drawReserved(picture);
  drawTimeAxis(picture, picture.height - CHART.bottom + 7);
  drawBands(picture);
  drawMarks(picture);
  drawChartPointer(picture);
}

function chartY(bytes, picture) {
  const bottom = picture.height - CHART.bottom;
  return bottom - bytes / chart.high * (bottom - CHART.top);
}

function drawAreas(picture, bins) {
  const {context} = picture, below = new Float64Array(bins.columns);
  for (let group = 0; group < bins.count; group++) {
    const above = below.slice();
    let any = false;
    for (let column = 0; column < bins.columns; column++) {
      above[column] += bins.values[column * bins.count + group];
      any ||= above[column] > below[column];
    }
    if (any)
      fillBetween(context, picture, below, above, view.groups.colors[group]);
    below.set(above);
  }
}

function fillBetween(context, picture, below, above, color) {
  const left = MARGIN.left, count = above.length, step = picture.inner / count;
  context.beginPath();
  context.moveTo(left, chartY(below[0], picture));
  for (let column = 0; column < count; column++) {
    context.lineTo(left + column * step, chartY(above[column], picture));
    context.lineTo(left + (column + 1) * step, chartY(above[column], picture));
  }
  for (let column = count - 1; column >= 0; column--) {
    context.lineTo(left + (column + 1) * step, chartY(below[column], picture));
    context.lineTo(left + column * step, chartY(below[column], picture));
  }
  context.fillStyle = color;
  context.fill();
}

// The points inside a part of the axis, with the value at its beginning.
function reservedIn(from, to) {
  const {timeline, axis} = view;
  const points = timeline.reserved().map(([time, bytes]) =>
    [axis === "time" ? time : timeline.taskOf(timeline.eventsUntil(time, timeline.time)), bytes]);
  let at = 0;
  while (at + 1 < points.length && points[at + 1][0] <= from)
    at++;
  return points.slice(at).filter(([place]) => place <= to);
}

function drawReserved(picture) {
  const {context, inner} = picture;
  let y = null;
  context.save();
  context.setLineDash([5, 4]);
  context.strokeStyle = themeColor("text");
  context.lineWidth = 1.4;
  context.beginPath();
  for (const [place, bytes] of reservedIn(view.from, view.to)) {
    const x = Math.max(MARGIN.left, toX(place, inner));
    if (y === null)
      context.moveTo(x, chartY(bytes, picture));
    else
      context.lineTo(x, y);
    y = chartY(bytes, picture);
    context.lineTo(x, y);
  }
  context.lineTo(picture.width - MARGIN.right, y);
  context.stroke();
  context.restore();
}

// Phases as a stripe above the plot, steps as lines through it and numbers over the stripe.
function drawBands(picture) {
  const {context, inner} = picture, key = view.axis === "time" ? "time" : "task", {bands} = view.rank;
  const [, last] = view.timeline.range(view.axis);
  let labelEnd = 0, step = null, mark = -Infinity;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  for (let index = 0; index < bands.length; index++) {
    const begin = bands[index][key], end = index + 1 < bands.length ? bands[index + 1][key] : last;
    if (end < view.from || begin > view.to)
      continue;
    const x = Math.max(MARGIN.left, toX(begin, inner)), until = Math.min(picture.width - MARGIN.right, toX(end, inner));
    context.fillStyle = PHASE_COLORS[page.head.phases[bands[index].phase]];
    context.fillRect(x, CHART.top - CHART.band - 2, Math.max(until - x, 0.5), CHART.band - 2);
    if (bands[index].step === step)
      continue;
    step = bands[index].step;
    if (x - mark < CHART.step)
      continue;
    mark = x;
    drawStepMark(context, x, picture.height - CHART.bottom);
    const text = `step ${step}`;
    if (x > labelEnd && x + context.measureText(text).width < picture.width) {
      context.fillStyle = themeColor("quiet");
      context.fillText(text, x + 2, CHART.top - CHART.band - 7);
      labelEnd = x + context.measureText(text).width + 14;
    }
  }
}

function drawStepMark(context, x, bottom) {
  context.strokeStyle = themeColor("quiet");
  context.globalAlpha = 0.35;
  context.beginPath();
  context.moveTo(Math.round(x) + 0.5, CHART.top - CHART.band - 4);
  context.lineTo(Math.round(x) + 0.5, bottom);
  context.stroke();
  context.globalAlpha = 1;
}

// A line through the plot; labels of each kind stand in a row of their own, as marks may lie close together.
function drawMark(picture, coordinate, label, color, dash, row) {
  const {context, inner} = picture, x = Math.round(toX(coordinate, inner)) + 0.5;
  if (x < MARGIN.left - 1 || x > picture.width - MARGIN.right + 1)
    return;
  context.save();
  context.strokeStyle = color;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x, CHART.top);
  context.lineTo(x, picture.height - CHART.bottom);
  context.stroke();
  if (label) {
    const right = x + context.measureText(label).width + 12 < picture.width - MARGIN.right;
    const begin = right ? x + 5 : x - 11 - context.measureText(label).width, wide = context.measureText(label).width + 6;
    context.fillStyle = themeColor("card");
    context.globalAlpha = 0.85;
    context.fillRect(begin - 1, CHART.top + 2 + row * CHART.row, wide + 2, CHART.row - 1);
    context.globalAlpha = 1;
    context.fillStyle = color;
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillText(label, begin + 2, CHART.top + 4 + row * CHART.row);
  }
  context.restore();
}

function drawMarks(picture) {
  const {timeline, device, axis} = view, peak = timeline.peakInstant();
  drawMark(picture, timeline.coordinateOf(peak, axis), `peak ${formatBytes(device.peak_bytes)}`, themeColor("fault"), [], 0);
  for (const event of view.rank.head.out_of_memory) {
    const time = event.time_ns - view.rank.head.first_time_ns;
    if (event.device === device.name)
      drawMark(picture, axis === "time" ? time : timeline.taskOf(timeline.eventsUntil(time, timeline.time)), "out of memory", themeColor("fault"), [6, 3], 1);
  }
  view.instants.forEach((instant, index) => {
    if (instant !== null && (index || instant !== peak))
      drawMark(picture, timeline.coordinateOf(instant, axis), index ? "second" : "first", themeColor("text"), [2, 3], 2);
  });
}

function drawChartPointer(picture) {
  const {context} = picture, bottom = picture.height - CHART.bottom;
  if (chart.drag && chart.drag.moved) {
    context.fillStyle = themeColor("accent");
    context.globalAlpha = 0.18;
    context.fillRect(Math.min(chart.drag.from, chart.drag.to), CHART.top, Math.abs(chart.drag.to - chart.drag.from), bottom - CHART.top);
    context.globalAlpha = 1;
  }
}

function drawChartLegend() {
  if (!view.groups)
    return;
  const {groups, timeline, instants} = view;
  const sums = timeline.bytesOf(instants[0], groups, view.shown);
  const items = groups.names.map((name, group) => {
    if (!groupIsSeen(group))
      return null;
    const button = make("button", {type: "button", title: view.kind === "module" ? "Look inside" : "Search for these",
      data: {group: name}}, isLineKind(view.kind) ? shortPath(name) : name);
    button.addEventListener("click", () => legendChosen(name));
    return make("li", {}, make("span", {class: "swatch", style: {background: groups.colors[group]}}), button,
      make("span", {class: "value", data: {value: sums[group]}}, formatBytes(sums[group])));
  });
  if (chartHasReserved())
    items.push(make("li", {}, make("span", {class: "swatch stroke"}), "held by the allocator",
      make("span", {class: "value"}, `${formatBytes(view.device.reserved_peak_bytes)} at most`)));
  byId("chart-legend").replaceChildren(...items.filter(Boolean));
}

// What the stripe above the plot means.
function drawPhaseLegend() {
  const seen = [...new Set(view.rank.bands.map((band) => page.head.phases[band.phase]))];
  byId("phase-legend").replaceChildren(make("li", {class: "note"}, "Stripe:"), ...seen.map((phase) =>
    make("li", {class: "note"}, make("span", {class: "swatch", style: {background: PHASE_COLORS[phase]}}), phase)));
}

function groupIsSeen(group) {
  const {values, count} = chart.bins;
  for (let at = group; at < values.length; at += count)
    if (values[at] > 0)
      return true;
  return false;
}

function legendChosen(name) {
  if (view.kind === "module" && name !== NOTHING.module && !name.endsWith(" itself") && !name.endsWith(" others")
      && name !== "other modules" && name !== view.prefix) {
    view.prefix = name;
    drawPath();
    viewGroups();
    return;
  }
  if (!name.endsWith("others"))
    searchFor(view.kind, name);
}

// The way down the tree of modules, each part leads back.
function drawPath() {
  const path = byId("path");
  path.replaceChildren();
  if (view.kind !== "module" || !view.prefix)
    return;
  const parts = view.prefix.split(".");
  const step = (text, prefix) => {
    const button = make("button", {type: "button"}, text);
    button.addEventListener("click", () => {
      view.prefix = prefix;
      drawPath();
      viewGroups();
    });
    path.append(button);
  };
  step("all", "");
  parts.forEach((text, index) => {
    path.append(" › ");
    step(text, parts.slice(0, index + 1).join("."));
  });
}

// --- pointer and keys ---------------------------------------------------------------------

function chartColumn(event) {
  const x = event.offsetX - MARGIN.left;
  return Math.min(chart.bins.columns - 1, Math.max(0, Math.floor(x / chart.picture.inner * chart.bins.columns)));
}

function chartTip(event) {
  const column = chartColumn(event), {bins} = chart, {groups, rank, timeline} = view, instant = bins.instants[column];
  const band = rank.bandAt(timeline.coordinateOf(instant, view.axis), view.axis);
  const rows = groups.names.map((name, group) => [name, bins.values[column * bins.count + group], groups.colors[group]])
    .filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).slice(0, 8);
  tipShow(event, make("p", {class: "head"}, formatBytes(Math.max(0, bins.highest[column]))),
    make("p", {class: "note"}, `${formatTime(timeline.timeOf(instant))}, task ${formatCount(Math.floor(timeline.taskOf(instant)))}`,
      band ? `, ${page.head.phases[band.phase]}, step ${band.step}` : ""),
    make("table", {}, ...rows.map(([name, bytes, color]) => make("tr", {},
      make("td", {}, make("span", {class: "swatch", style: {background: color}}), " ", name), number(formatBytes(bytes))))));
}

function chartEvents() {
  const canvas = byId("chart");
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    chart.drag = {from: event.offsetX, to: event.offsetX, moved: false};
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!chart.bins)
      return;
    if (chart.drag) {
      chart.drag.to = event.offsetX;
      chart.drag.moved ||= Math.abs(chart.drag.to - chart.drag.from) > 4;
      change("pointer");
    }
    chartTip(event);
  });
  canvas.addEventListener("pointerleave", tipHide);
  canvas.addEventListener("pointerup", (event) => {
    const drag = chart.drag;
    chart.drag = null;
    chart.dragged = Boolean(drag && drag.moved);
    if (!chart.dragged || !chart.bins)
      return;
    const ends = [drag.from, event.offsetX].map((x) => fromX(x, chart.picture.inner)).sort((a, b) => a - b);
    viewRange(ends[0], ends[1]);
    tipHide();
  });
  canvas.addEventListener("click", (event) => {
    if (chart.dragged || !chart.bins)
      return;
    if (event.detail === 1)
      chart.before = [...view.instants];
    viewInstant(chart.bins.instants[chartColumn(event)], event.shiftKey);
  });
  // Its two clicks were no choice of an instant.
  canvas.addEventListener("dblclick", () => {
    if (chart.before)
      view.instants = chart.before;
    change("instants");
    viewReset();
  });
  canvas.addEventListener("keydown", rangeKeys);
}

function instantHighest() {
  let column = 0;
  chart.bins.highest.forEach((total, at) => { column = total > chart.bins.highest[column] ? at : column; });
  viewInstant(chart.bins.instants[column], false);
}

function instantMove(events) {
  viewInstant(Math.min(view.timeline.length, Math.max(0, view.instants[0] + events)), false);
}

function rangeKeys(event) {
  const middle = (view.from + view.to) / 2;
  const actions = {
    ArrowLeft: () => viewPan(-0.2), ArrowRight: () => viewPan(0.2),
    "+": () => viewZoom(0.6, middle), "=": () => viewZoom(0.6, middle), "-": () => viewZoom(1 / 0.6, middle),
    0: viewReset, Home: viewReset, Enter: instantHighest, ",": () => instantMove(-1), ".": () => instantMove(1),
  };
  if (!actions[event.key] || event.ctrlKey || event.metaKey)
    return false;
  event.preventDefault();
  actions[event.key]();
  return true;
}
