// The top of the page: how much, when, who, and whether it would fit elsewhere. What the head says is there at once,
// what follows from blocks as soon as they are read.

const GIB = 2 ** 30;
const DEVICE_SIZES = [4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192, 288];
// Level lite does not look at what operators use.
function usersAreKnown(rank) {
  return rank.head.level !== "lite";
}

const HOLDERS_SHOWN = 8, MODULES_SHOWN = 6, PEAKS_SHOWN = 32;

function drawPeak() {
  const {rank, device} = view, {maker} = device;
  const step = maker ? `, step ${maker.step}, ${page.head.phases[maker.phase]}` : "";
  byId("peak-where").textContent = `Peak of ${device.name}, rank ${rank.head.rank}`;
  byId("peak-bytes").textContent = formatBytes(device.peak_bytes);
  byId("peak-when").textContent = `at ${formatTime(device.peak_time)}${maker && maker.task !== null ? `, task ${formatCount(maker.task)}` : ""}${step}`;
  Object.assign(byId("peak").dataset, {bytes: device.peak_bytes, time: device.peak_time, task: maker?.task ?? "", step: maker?.step ?? "",
    phase: maker ? page.head.phases[maker.phase] : "", operator: maker?.operator ?? "", module: maker?.module ?? ""});
  byId("peak-incomplete").hidden = rank.head.complete;
  byId("peak-incomplete").textContent = "Incomplete: events were lost, or the capture was cut off. See Limits.";
  drawAllPeaks();
  drawCategories();
  drawTiles();
  drawFit();
}

// Of all ranks and devices side by side; of very many only the highest, the table of ranks has the others.
function drawAllPeaks() {
  const all = page.ranks.flatMap((rank, place) => rank.head.devices.map((device) => ({rank, place, device})));
  const shown = all.length <= PEAKS_SHOWN ? all : [...all].sort((a, b) => b.device.peak_bytes - a.device.peak_bytes).slice(0, PEAKS_SHOWN);
  const highest = Math.max(...all.map(({device}) => device.peak_bytes));
  byId("all-peaks").hidden = all.length < 2;
  byId("all-peaks").replaceChildren(...shown.map(({rank, place, device}) => {
    const chosen = view.rank === rank && view.device === device;
    const button = make("button", {type: "button", "aria-pressed": chosen, data: {rank: rank.head.rank, device: device.name, value: device.peak_bytes}},
      make("span", {class: "note"}, `rank ${rank.head.rank}, ${device.name}`), make("span", {}, formatBytes(device.peak_bytes)),
      make("span", {class: "meter", style: {width: `${100 * device.peak_bytes / highest}%`}}));
    button.addEventListener("click", () => chooseRank(place, device));
    return make("li", {}, button);
  }));
}

function drawFacts() {
  const {rank, device} = view, {maker} = device, facts = [];
  if (!maker) {
    facts.push(["Made by", "an allocation outside of operators"]);
  } else {
    facts.push(["Operator", code(maker.operator)]);
    facts.push(["Line", lineFact(rank, maker.stack, "peak-line")]);
    if (maker.forward_stack !== null)
      facts.push(["Forward line", lineFact(rank, maker.forward_stack, "peak-forward")]);
    facts.push(["Module", maker.module ? code(maker.module) : NOTHING.module]);
  }
  if (rank.head.command)
    facts.push(["Job", code(rank.head.command)]);
  byId("peak-facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

// The job's own line, and the innermost one where that is another.
function lineFact(rank, stack, id) {
  const own = rank.frameText(rank.ownFrame[stack]), leaf = rank.frameText(rank.leafFrame[stack]);
  return make("span", {id, data: {own, leaf}}, code(own || NOTHING.line),
    own === leaf ? "" : make("span", {class: "note"}, ` in ${shortPath(leaf)}`));
}

function drawCategories() {
  const {device} = view, whole = device.peak.reduce((a, b) => a + b, 0);
  const order = device.peak.map((bytes, category) => [bytes, page.head.categories[category]]).filter(([bytes]) => bytes > 0)
    .sort((a, b) => b[0] - a[0]);
  byId("category-bar").replaceChildren(...order.map(([bytes, name]) => make("span",
    {title: `${name}: ${formatBytes(bytes)}`, style: {flex: `${bytes} 0 0`, background: CATEGORY_COLORS[name]}})));
  byId("category-legend").replaceChildren(...order.map(([bytes, name]) => make("li", {data: {category: name, value: bytes}},
    make("span", {class: "swatch", style: {background: CATEGORY_COLORS[name]}}), name,
    make("span", {class: "value"}, `${formatBytes(bytes)} · ${formatShare(bytes, whole)}`))));
}

function tile(id, name, bytes, note) {
  return make("div", {class: "tile", id, data: {value: bytes}}, make("div", {class: "name"}, name),
    make("div", {class: "amount"}, formatBytes(bytes)), make("div", {class: "note"}, note));
}

function drawTiles() {
  const {device, timeline} = view, tiles = [];
  if (device.has_totals)
    tiles.push(tile("tile-reserved", "Held by the allocator, at most", device.reserved_peak_bytes,
      `${formatShare(device.peak_bytes, device.reserved_peak_bytes)} of it allocated at the peak`));
  if (device.outside_peak_bytes)
    tiles.push(tile("tile-outside", "Outside the allocator, at most", device.outside_peak_bytes, "libraries and runtimes"));
  if (device.older_bytes > device.older_known_bytes)
    tiles.push(tile("tile-older", "Older than the trace", device.older_bytes, `${formatBytes(device.older_known_bytes)} of it in blocks that are known`));
  if (timeline) {
    const persistent = persistentOf(timeline), peaks = peaksOf(timeline);
    tiles.push(tile("tile-persistent", "Persistent, alive at the end", persistent.bytes, `${plural(persistent.count, "block")} of ${formatCount(timeline.mine.length)}`));
    tiles.push(tile("tile-real", "Peak of lifetimes", peaks.real, "of blocks, in whole tasks"));
    if (usersAreKnown(timeline.rank))
      tiles.push(tile("tile-theory", "If each went after its last use", peaks.theory,
        peaks.theory < peaks.real ? `${formatBytes(peaks.real - peaks.theory)} less` : "no less"));
  }
  byId("tiles").replaceChildren(...tiles);
  byId("tiles").dataset.ready = timeline ? 1 : 0;
}

function persistentOf(timeline) {
  const {rank} = timeline;
  let bytes = 0, count = 0;
  for (const index of timeline.mine) {
    if (!(rank.block.flags[index] & PERSISTENT))
      continue;
    bytes += rank.block.bytes[index];
    count++;
  }
  return {bytes, count};
}

// The peaks by tasks, as readers of the memory CSV count them: over lifetimes, and as if each block went after its
// last use (one that nothing used, after the task that made it). Of the remainder no use can be known.
function peaksOf(timeline) {
  if (timeline.peaks)
    return timeline.peaks;
  const {rank} = timeline, tasks = rank.head.counts.tasks + 3, real = new Float64Array(tasks), theory = new Float64Array(tasks);
  for (const index of timeline.mine) {
    const start = rank.block.start[index], bytes = rank.block.bytes[index], end = rank.endTask(index);
    real[start] += bytes;
    if (end !== Infinity)
      real[end] -= bytes;
    theory[start] += bytes;
    if (!(rank.block.flags[index] & REMAINDER))
      theory[rank.lastUse[index] + 1] -= bytes;
  }
  const highest = (changes) => {
    let sum = 0, peak = 0;
    for (const change_ of changes) {
      sum += change_;
      peak = Math.max(peak, sum);
    }
    return peak;
  };
  timeline.peaks = {real: highest(real), theory: highest(theory)};
  return timeline.peaks;
}

// What a device must have: the blocks of the peak at least; as the allocator went about it, what it held.
function needs(device) {
  const outside = device.outside_peak_bytes;
  return {least: device.peak_bytes + outside, held: Math.max(device.reserved_peak_bytes, device.peak_bytes) + outside};
}

function fitVerdict(bytes, {least, held}) {
  if (bytes >= held)
    return {name: "fits", text: `fits, with ${formatBytes(bytes - held)} left`};
  if (bytes >= least)
    return {name: "tight", text: `only if the allocator holds less: the blocks fit, what it held (${formatBytes(held)}) does not`};
  return {name: "lacks", text: `does not fit, ${formatBytes(least - bytes)} are missing at the peak`};
}

function drawFit() {
  const {device} = view, need = needs(device), input = byId("capacity");
  if (!input.value)
    input.value = DEVICE_SIZES.find((size) => size * GIB >= need.held) || DEVICE_SIZES[DEVICE_SIZES.length - 1];
  const verdict = fitVerdict(Number(input.value) * GIB, need), answer = byId("fit-answer");
  answer.textContent = verdict.text;
  answer.className = verdict.name === "fits" ? "good" : "fault";
  answer.dataset.verdict = verdict.name;
  const rows = [["Blocks at the peak", device.peak_bytes]];
  if (device.has_totals)
    rows.push(["Held by the allocator, at most", device.reserved_peak_bytes]);
  if (device.outside_peak_bytes)
    rows.push(["Outside the allocator, at most", device.outside_peak_bytes]);
  rows.push(["Smallest common size that holds it", (DEVICE_SIZES.find((size) => size * GIB >= need.held) || 0) * GIB]);
  byId("fit-table").tBodies[0].replaceChildren(...rows.map(([name, bytes]) => make("tr", {}, make("td", {}, name),
    number(bytes ? formatBytes(bytes) : "none"))));
}

// The lines that hold most at the peak, and since when.
function drawHolders() {
  const {rank, timeline, device} = view, groups = groupAll(rank, "line"), rows = new Map();
  for (const index of timeline.alive(timeline.peakInstant())) {
    const group = groups.of[index], row = rows.get(group) || {bytes: 0, blocks: 0, since: Infinity, owner: ""};
    row.bytes += rank.held[index];
    row.blocks++;
    row.since = Math.min(row.since, rank.sinceTask(index));
    row.owner ||= rank.texts[rank.block.owner[index]] || rank.moduleOf(index);
    rows.set(group, row);
  }
  const order = [...rows].sort((a, b) => b[1].bytes - a[1].bytes).slice(0, HOLDERS_SHOWN);
  byId("holders").tBodies[0].replaceChildren(...order.map(([group, row]) => {
    const line = make("tr", {class: "choosable", tabindex: 0, data: {name: groups.names[group], value: row.bytes, blocks: row.blocks}},
      make("td", {class: "name"}, code(shortPath(groups.names[group]), groups.names[group]), make("div", {class: "note"}, row.owner)),
      number(formatBytes(row.bytes)), number(formatShare(row.bytes, device.peak_bytes)), number(formatCount(row.blocks)),
      make("td", {class: "since"}, sinceText(rank, row.since)));
    const choose = () => {
      searchFor("line", groups.names[group]);
      byId("memory").scrollIntoView();
    };
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    return line;
  }));
}

// The first level of modules that says something, at the peak.
function drawModules() {
  const {rank, timeline, device} = view, groups = groupModules(rank, "");
  const bytes = timeline.bytesOf(timeline.peakInstant(), groups);
  const order = groups.names.map((name, group) => ({name, bytes: bytes[group]})).filter((row) => row.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes).slice(0, MODULES_SHOWN);
  byId("modules").tBodies[0].replaceChildren(...order.map((row) => make("tr", {data: {name: row.name, value: row.bytes}},
    make("td", {class: "name"}, code(row.name)), number(formatBytes(row.bytes)), number(formatShare(row.bytes, device.peak_bytes)))));
}

function drawLimits() {
  const {head} = view.rank, lost = Object.entries(head.losses).filter(([, count]) => count > 0);
  byId("complete").textContent = head.complete ? "Nothing that this report rests on was lost."
    : `Incomplete: ${lost.length ? `lost ${lost.map(([reason, count]) => `${formatCount(count)} (${reason.replace("_", " ")})`).join(", ")}` : "the end of the trace is missing, or frees were not seen"}.`;
  byId("complete").className = head.complete ? "good" : "fault";
  byId("complete").dataset.complete = head.complete;
  byId("limitations").replaceChildren(...head.limitations.map((text) => make("li", {}, text)));
  byId("origin").textContent = [`hdtrace ${page.head.hdtrace}`, head.torch_version && `PyTorch ${head.torch_version}`,
    head.python_version && `Python ${head.python_version}`, head.pid && `process ${head.pid}`,
    `${formatCount(head.counts.events)} events`, `${formatCount(head.counts.tasks)} tasks`, `${formatCount(head.counts.blocks)} blocks`,
    head.from_start ? "traced from its start" : "attached while it ran", head.end_reason && `ended: ${head.end_reason}`]
    .filter(Boolean).join(" · ");
}
