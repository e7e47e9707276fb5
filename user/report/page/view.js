// What is being looked at. All parts draw from here, and ask for a redraw by change(); drawing waits for the next frame.

const page = {head: null, ranks: [], parts: []};

const view = {
  rank: null, device: null, timeline: null,
  axis: "time", from: 0, to: 1,        // the part of the axis that is shown
  low: 0, high: 1,                     // bytes of the block view
  kind: "category", prefix: "",        // of groups; prefix: of modules
  groups: null, shown: null,           // shown: blocks that the search found, null: no search
  instants: [0, null], pinned: null,
  pending: new Set(),
};

function change(...what) {
  if (!view.pending.size)
    requestAnimationFrame(redraw);
  for (const topic of what)
    view.pending.add(topic);
}

// A part is drawn when a topic that it depends on has changed.
function part(topics, draw) {
  page.parts.push({topics, draw});
}

function redraw() {
  const topics = new Set(view.pending);
  view.pending.clear();
  for (const {topics: wanted, draw} of page.parts)
    if (wanted.some((topic) => topics.has(topic)))
      draw();
  document.documentElement.dataset.drawn = Number(document.documentElement.dataset.drawn || 0) + 1;
}

function viewReset() {
  [view.from, view.to] = view.timeline.range(view.axis);
  view.low = 0;
  view.high = view.timeline.height;
  change("range");
}

// Never outside of what there is, never closer than a single unit of the axis.
function viewRange(from, to) {
  const [first, last] = view.timeline.range(view.axis);
  const width = Math.min(Math.max(to - from, (last - first) * 1e-7, view.axis === "time" ? 1 : 0.01), last - first);
  view.from = Math.min(Math.max(from, first), last - width);
  view.to = view.from + width;
  change("range");
}

function viewZoom(factor, center) {
  viewRange(center - (center - view.from) * factor, center + (view.to - center) * factor);
}

function viewBytes(low, high) {
  const height = Math.min(Math.max(high - low, 512), view.timeline.height);
  view.low = Math.min(Math.max(low, 0), view.timeline.height - height);
  view.high = view.low + height;
  change("range");
}

function viewPan(share) {
  const move = (view.to - view.from) * share;
  viewRange(view.from + move, view.to + move);
}

// The same part of the trace on the other axis.
function viewAxis(axis) {
  if (axis === view.axis)
    return;
  const {timeline} = view, list = timeline.coordinates(view.axis), [first, last] = timeline.range(view.axis);
  const whole = view.from <= first && view.to >= last;
  const events = [view.from, view.to].map((value) => timeline.eventsUntil(value, list));
  view.axis = axis;
  if (whole)
    [view.from, view.to] = timeline.range(axis);
  else
    viewRange(timeline.coordinateOf(events[0], axis), timeline.coordinateOf(events[1], axis));
  change("range", "axis");
}

function viewGroups() {
  const {rank, kind} = view;
  const all = kind === "module" ? groupModules(rank, view.prefix) : groupAll(rank, kind);
  view.groups = largestGroups(all, view.timeline.weights(all), kind);
  change("groups");
}

function viewInstant(instant, second) {
  if (second)
    view.instants[1] = instant;
  else
    view.instants = [instant, null];
  change("instants");
}

function formatCoordinate(value, axis) {
  return axis === "time" ? formatTime(value) : `task ${formatCount(Math.floor(value))}`;
}

// --- canvases ------------------------------------------------------------------------

const MARGIN = {left: 74, right: 10};

function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A canvas of as many pixels as the screen has for it; drawn in units of CSS.
function canvasOpen(canvas) {
  const scale = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * scale));
  canvas.height = Math.max(1, Math.round(box.height * scale));
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return {context, scale, width: box.width, height: box.height, inner: box.width - MARGIN.left - MARGIN.right};
}

function toX(value, inner) {
  return MARGIN.left + (value - view.from) / (view.to - view.from) * inner;
}

function fromX(x, inner) {
  return view.from + (x - MARGIN.left) / inner * (view.to - view.from);
}

// Round steps of bytes are powers of two, of all else 1, 2 or 5 times a power of ten.
function tickStep(range, count, binary) {
  const rough = range / count;
  if (binary)
    return 2 ** Math.round(Math.log2(Math.max(rough, 1)));
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

function drawByteAxis(picture, low, high, top, bottom) {
  const {context, width} = picture, step = tickStep(high - low, 5, true);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let bytes = Math.ceil(low / step) * step; bytes <= high; bytes += step) {
    const y = Math.round(bottom - (bytes - low) / (high - low) * (bottom - top)) + 0.5;
    context.strokeStyle = themeColor("line");
    context.beginPath();
    context.moveTo(MARGIN.left, y);
    context.lineTo(width - MARGIN.right, y);
    context.stroke();
    context.fillStyle = themeColor("quiet");
    context.fillText(formatBytes(bytes).replace(/\.0+ /, " "), MARGIN.left - 8, y);
  }
}

// As many digits as neighbours on the axis need.
function timeLabel(value, step) {
  const [unit, name] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit)));
  return `${(value / unit).toFixed(Math.min(digits, 6))} ${name}`;
}

function drawTimeAxis(picture, y) {
  const {context, inner} = picture, step = tickStep(view.to - view.from, Math.max(2, inner / 130), false);
  context.fillStyle = themeColor("quiet");
  context.textAlign = "center";
  context.textBaseline = "top";
  for (let value = Math.ceil(view.from / step) * step; value <= view.to; value += step) {
    const label = view.axis === "time" ? timeLabel(value, step) : formatCount(Number(value.toFixed(2)));
    context.fillText(label, Math.min(Math.max(toX(value, inner), MARGIN.left + 14), picture.width - 28), y);
  }
}

// --- the tip beside the pointer ----------------------------------------------------------

function tipShow(event, ...children) {
  const tip = byId("tip");
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 18 + box.width > innerWidth ? event.clientX - 18 - box.width : event.clientX + 18;
  const top = Math.min(event.clientY + 14, innerHeight - box.height - 8);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function tipHide() {
  byId("tip").hidden = true;
}

function tipRows(rows) {
  return make("table", {}, ...rows.map(([name, value]) => make("tr", {}, make("td", {class: "note"}, name), make("td", {}, value))));
}
