// What stands out, in words, each with what it rests on. Nothing is said without numbers that show it.

const IMBALANCE = 0.05;      // of the highest peak: less is no finding
const CACHED = 0.1;          // of the peak: what the allocator held beyond it
const DEAD_SHARE = 0.01;     // of the peak
const LINES_TOLD = 5;
const GROWTH_STEPS = 3;      // as many steps in a row at least
const GROWTH_BYTES = 1024;   // a step at least

function finding(id, title, evidence, data, items) {
  return make("li", {data: {finding: id, ...data}}, make("div", {}, title), make("div", {class: "evidence"}, evidence),
    items && items.length ? make("ul", {class: "evidence"}, ...items) : null);
}

function findPeakMaker() {
  const {device, rank, timeline} = view, {maker} = device;
  if (!maker)
    return null;
  const groups = groupAll(rank, "line"), bytes = timeline.bytesOf(timeline.peakInstant(), groups);
  let most = 0;
  bytes.forEach((value, group) => { most = value > bytes[most] ? group : most; });
  const line = rank.frameText(rank.ownFrame[maker.forward_stack ?? maker.stack]), holder = groups.names[most];
  const title = make("span", {}, `The peak of ${formatBytes(device.peak_bytes)} was reached by `, code(maker.operator),
    ...(line ? [" at ", code(line)] : []), ` (${page.head.phases[maker.phase]}, step ${maker.step}).`);
  return finding("peak", title, holder === NOTHING.line ? "" : `The largest part, ${formatBytes(bytes[most])} (${formatShare(bytes[most], device.peak_bytes)}), `
    + (holder.startsWith("older") ? `is ${holder}.` : `was made at ${holder}.`), {});
}

// Level lite does not look at what operators use.
function usersAreKnown(rank) {
  return rank.head.level !== "lite";
}

// Blocks that were alive at the peak though nothing used them any more.
function findDead() {
  const {device, rank, timeline} = view;
  if (!usersAreKnown(rank))
    return null;
  const groups = groupAll(rank, "line"), peakTask = timeline.taskOf(timeline.peakInstant());
  const alive = new Uint8Array(rank.count), lines = new Map();
  let dead = 0, count = 0;
  for (const index of timeline.alive(timeline.peakInstant()))
    alive[index] = 1;
  for (const index of timeline.mine) {
    const tasks = rank.heldAfter(index);
    if (tasks <= 1)
      continue;
    const line = lines.get(groups.of[index]) || {cost: 0, bytes: 0, blocks: 0, dead: 0};
    line.cost += rank.block.bytes[index] * tasks;
    line.bytes += rank.block.bytes[index];
    line.blocks++;
    if (alive[index] && rank.lastUse[index] < Math.floor(peakTask)) {
      line.dead += rank.held[index];
      dead += rank.held[index];
      count++;
    }
    lines.set(groups.of[index], line);
  }
  const order = [...lines].sort((a, b) => b[1].cost - a[1].cost).slice(0, LINES_TOLD);
  if (!order.length || dead < DEAD_SHARE * device.peak_bytes)
    return null;
  return finding("dead", `${formatBytes(dead)} at the peak were dead but held: ${plural(count, "block")} had been used for the last time before.`,
    "Bytes × tasks from last use to release, by line:", {bytes: dead, count},
    order.map(([group, line]) => make("li", {data: {name: groups.names[group], cost: line.cost}}, code(groups.names[group]),
      `: ${plural(line.blocks, "block")}, ${formatBytes(line.bytes)}, held ${formatCount(Math.round(line.cost / Math.max(1, line.bytes)))} tasks on average`,
      line.dead ? `, ${formatBytes(line.dead)} at the peak` : "")));
}

// For each line the bytes that it has at the end of each complete step.
function bytesAtStepEnds() {
  const {rank, timeline} = view, groups = groupAll(rank, "line"), ends = [];
  for (let step = 0; step < rank.step.time.length; step++)
    if (rank.step.complete[step])
      ends.push(rank.step.start_time[step] + rank.step.time[step]);
  const firstEndAfter = (time) => {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] < time)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  const lines = new Map();
  for (const index of timeline.mine) {
    const from = firstEndAfter(rank.block.start_time[index]), until = rank.endTime[index] === Infinity ? ends.length : firstEndAfter(rank.endTime[index]);
    if (from >= until)
      continue;
    if (!lines.has(groups.of[index]))
      lines.set(groups.of[index], new Float64Array(ends.length + 1));
    lines.get(groups.of[index])[from] += rank.held[index];
    lines.get(groups.of[index])[until] -= rank.held[index];
  }
  for (const bytes of lines.values())
    for (let step = 1; step < ends.length; step++)
      bytes[step] += bytes[step - 1];
  return {lines, steps: ends.length, groups};
}

// Lines that hold more at the end of each step than at that of the one before; what the first step makes is no growth.
function findGrowth() {
  const {lines, steps, groups} = bytesAtStepEnds(), found = [];
  if (steps < GROWTH_STEPS + 1)
    return null;
  for (const [group, bytes] of lines) {
    let grew = 0;
    for (let step = 2; step < steps; step++)
      grew += bytes[step] > bytes[step - 1] ? 1 : 0;
    const growth = bytes[steps - 1] - bytes[1], each = growth / (steps - 2);
    if (grew >= GROWTH_STEPS - 1 && grew >= 0.8 * (steps - 2) && each >= GROWTH_BYTES)
      found.push({name: groups.names[group], growth, each});
  }
  if (!found.length)
    return null;
  found.sort((a, b) => b.growth - a.growth);
  const sum = found.reduce((total, line) => total + line.growth, 0);
  return finding("growth", `Memory grows from step to step: ${formatBytes(sum)} over ${steps - 2} steps.`, "Lines whose blocks stay, at the end of each step:",
    {bytes: sum, name: found[0].name, each: found[0].each},
    found.slice(0, LINES_TOLD).map((line) => make("li", {}, code(line.name), `: ${formatChange(line.each)} a step, ${formatChange(line.growth)} in all`)));
}

function findExhaustion() {
  const {rank, device} = view, list = rank.head.out_of_memory.filter((event) => event.device === device.name), event = list[list.length - 1];
  if (!event)
    return null;
  const free = event.reserved_bytes - event.allocated_bytes, gap = event.largest_gap_bytes;
  const place = event.file_name ? `${event.file_name}:${event.line_num}` : NOTHING.line;
  const missing = event.requested_bytes - free;
  const pieces = gap === null ? "" : `, in pieces of at most ${formatBytes(gap)}`;
  const cause = missing > 0 ? ` Even in one piece, ${formatBytes(missing)} would have been missing.`
    : gap !== null && gap < event.requested_bytes ? " It would have been enough in one piece: the memory was fragmented." : "";
  const title = make("span", {}, `Out of memory${list.length > 1 ? `, ${list.length} times, last` : ""} at ${formatTime(event.time_ns - rank.head.first_time_ns)}: `,
    code(event.node_name || "an allocation outside operators"), ` asked for ${formatBytes(event.requested_bytes)} at `, code(place), ".");
  return finding("memory", title,
    `${formatBytes(event.allocated_bytes)} were allocated of ${formatBytes(event.reserved_bytes)} held; ${formatBytes(free)} were free${free > 0 ? pieces : ""}.${cause}`
      + (event.blocks_enough ? ` Without the ${plural(event.blocks_enough, "largest block")} it would have fitted.` : ""),
    {requested: event.requested_bytes, free, gap: gap ?? "", fragmented: missing <= 0 && gap !== null && gap < event.requested_bytes},
    event.lines.slice(0, LINES_TOLD).map((line) => make("li", {}, code(line.file_name ? `${line.file_name}:${line.line_num}` : NOTHING.line),
      `: ${formatBytes(line.bytes)} in ${plural(line.blocks, "block")}`)));
}

function findCache() {
  const {device} = view, more = device.reserved_peak_bytes - device.peak_bytes;
  if (!device.has_totals || more < CACHED * device.peak_bytes)
    return null;
  return finding("cache", `The allocator held up to ${formatBytes(device.reserved_peak_bytes)}, ${formatBytes(more)} more than was ever allocated at once.`,
    "Blocks of other sizes could not use what was free; or it was held for later.", {bytes: more});
}

function findImbalance() {
  const {ranks, peak} = page.head.job;
  if (ranks.length < 2 || peak.bytes - peak.lowest_bytes < IMBALANCE * peak.bytes)
    return null;
  return finding("imbalance", `Rank ${peak.rank} needs ${formatBytes(peak.bytes)}, rank ${peak.lowest_rank} only ${formatBytes(peak.lowest_bytes)}.`,
    `${formatShare(peak.bytes - peak.lowest_bytes, peak.bytes)} of the highest peak lie between them.`, {bytes: peak.bytes - peak.lowest_bytes});
}

function findUnfinished() {
  const {unfinished} = page.head.job;
  if (!unfinished.length)
    return null;
  return finding("unfinished", "A collective was never finished.", "What a rank began last, while another one never did:", {count: unfinished.length},
    unfinished.map((one) => make("li", {}, ...unfinishedText(one))));
}

function drawFindings() {
  const found = [findExhaustion, findPeakMaker, findDead, findGrowth, findCache, findImbalance, findUnfinished]
    .map((find) => find()).filter(Boolean);
  byId("finding-list").replaceChildren(...found);
  byId("findings").hidden = !found.length;
}
