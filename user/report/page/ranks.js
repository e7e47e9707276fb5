// Ranks beside each other, who waits for whom, and the steps of the chosen rank.

const STEPS_SHOWN = 25;
const ranksPart = {sort: "rank", falling: false, title: "Rank", steps: STEPS_SHOWN};

const RANK_COLUMNS = [
  {key: "rank", title: "Rank"}, {key: "peak", title: "Peak"}, {key: "time", title: "When"}, {key: "reserved", title: "Held by the allocator"},
  {key: "steps", title: "Steps"}, {key: "collectives", title: "Collectives"}, {key: "bytes", title: "Sent"}, {key: "wait", title: "Waited"},
  {key: "last", title: "Came last"},
];

// Only the collectives of the other ranks are read: blocks are, when their rank is chosen.
async function readWaits() {
  const waits = page.ranks.map(() => new Map());
  for (const [place, rank] of page.ranks.entries()) {
    const {wait, last_rank: last} = await readTable(rank.scope, "collective");
    for (let index = 0; index < wait.length; index++) {
      if (!last[index])
        continue;
      const sum = waits[place].get(last[index] - 1) || 0;
      waits[place].set(last[index] - 1, sum + wait[index]);
    }
  }
  page.waits = waits;
}

function rankRows() {
  return page.ranks.map((rank, place) => {
    const side = page.head.job.ranks[place], device = highestDevice(rank.head);
    return {place, rank: rank.head.rank, peak: side.peak_bytes, time: device ? device.peak_time : 0, reserved: device ? device.reserved_peak_bytes : 0,
      steps: side.steps, collectives: side.collectives, bytes: side.collective_bytes, wait: side.wait_ns, last: side.came_last};
  });
}

function highestDevice(head) {
  return head.devices.reduce((most, device) => !most || device.peak_bytes > most.peak_bytes ? device : most, null);
}

function drawRankTable() {
  const rows = sortRows(rankRows(), ranksPart.sort, ranksPart.falling), highest = Math.max(...rows.map((row) => row.peak), 1);
  sortableHead(byId("rank-table"), RANK_COLUMNS, ranksPart, drawRankTable);
  byId("rank-table").tBodies[0].replaceChildren(...rows.map((row) => {
    const line = make("tr", {class: "choosable", tabindex: 0, data: {rank: row.rank, peak: row.peak, wait: row.wait}},
      number(String(row.rank)), make("td", {class: "number"}, make("span", {class: "meter", style: {width: `${110 * row.peak / highest}px`}}), ` ${formatBytes(row.peak)}`),
      number(formatTime(row.time)), number(row.reserved ? formatBytes(row.reserved) : ""), number(formatCount(row.steps)), number(formatCount(row.collectives)),
      number(formatBytes(row.bytes)), number(formatTime(row.wait)), number(formatCount(row.last)));
    const choose = () => chooseRank(row.place);
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    return line;
  }));
}

function drawRanks() {
  const {job} = page.head, several = page.ranks.length > 1;
  byId("rank-part").hidden = !several;
  if (!several)
    return;
  const spread = job.peak.bytes - job.peak.lowest_bytes;
  byId("rank-note").textContent = !spread ? `All have the same peak, ${formatBytes(job.peak.bytes)}.` : `Highest peak: rank ${job.peak.rank}, ${formatBytes(job.peak.bytes)}; lowest: rank ${job.peak.lowest_rank}, ${formatBytes(job.peak.lowest_bytes)}; `
    + `${formatBytes(spread)} (${formatShare(spread, job.peak.bytes) || "0 %"}) between them.`;
  byId("rank-note").dataset.spread = spread;
  drawRankTable();
  drawWaits();
  drawCollectives();
}

// A row waits, a column is waited for.
function drawWaits() {
  const table = byId("wait-table"), names = page.ranks.map((rank) => rank.head.rank), seen = page.waits.some((waits) => waits.size);
  table.tHead.replaceChildren(make("tr", {}, make("th", {}, seen ? "waits for" : ""), ...(seen ? names.map((name) => make("th", {class: "number"}, `rank ${name}`)) : [])));
  if (!seen) {
    table.tBodies[0].replaceChildren(make("tr", {}, make("td", {}, "No collective was begun by several ranks.")));
    return;
  }
  table.tBodies[0].replaceChildren(...page.waits.map((waits, place) => make("tr", {}, make("td", {}, `rank ${names[place]}`),
    ...names.map((name) => number(name === names[place] ? "" : formatTime(waits.get(name) || 0), waits.get(name) || 0)))));
}

// What a rank began last while another one never did; and where that stood at the end, where it is known.
function unfinishedText(one) {
  const stack = page.head.job.ranks.find((rank) => rank.rank === one.absent_rank)?.python_stack;
  return [`rank ${one.rank} began ${one.kind} ${one.sequence}, rank ${one.absent_rank} never did`,
    ...(one.line ? [", at ", code(shortPath(one.line), one.line)] : []),
    ...(stack && stack.length ? [`; rank ${one.absent_rank} stood at `, code(stack[0])] : [])];
}

function drawCollectives() {
  const {unfinished, differing, latest} = page.head.job, items = [];
  const place = (one) => one.line ? [", at ", code(shortPath(one.line), one.line)] : [];
  for (const one of unfinished)
    items.push(make("li", {class: "fault", data: {kind: "unfinished"}}, "Unfinished: ", ...unfinishedText(one)));
  for (const one of differing)
    items.push(make("li", {class: "fault", data: {kind: "differing"}}, `Ranks differ in ${one.kind} ${one.sequence} of rank ${one.rank}`, ...place(one)));
  for (const one of latest.slice(0, 8))
    items.push(make("li", {data: {kind: "latest"}}, `${formatTime(one.skew_ns)} late: rank ${one.last_rank} in ${one.kind} ${one.sequence}`, ...place(one)));
  byId("collective-list").replaceChildren(...(items.length ? items : [make("li", {class: "note"}, "None.")]));
}

// --- steps -----------------------------------------------------------------------------------

const STEP_PHASES = ["forward", "recompute", "backward", "optimizer"];
const STEP_TITLES = ["Step", "Time", "", "Forward", "Recompute", "Backward", "Optimizer", "Peak", "At its end", "Growth", "Allocated", "Operators", "Waited"];

function stepRow(step, index) {
  const growth = index ? step.end[index] - step.end[index - 1] : 0;
  const phases = STEP_PHASES.map((phase) => make("span", {title: phase, style: {flex: `${step[phase][index]} 0 0`, background: PHASE_COLORS[phase]}}));
  return make("tr", {data: {step: index, peak: step.peak[index], end: step.end[index], growth, time: step.time[index]}},
    number(`${index}${step.complete[index] ? "" : " (part)"}`), number(formatTime(step.time[index])),
    make("td", {}, make("div", {class: "stack-of-phases"}, ...phases)),
    ...STEP_PHASES.map((phase) => number(step[phase][index] ? formatTime(step[phase][index]) : "")),
    number(formatBytes(step.peak[index])), number(formatBytes(step.end[index])), number(index ? formatChange(growth) : ""),
    number(formatBytes(step.allocated[index])), number(formatCount(step.operators[index])), number(step.wait[index] ? formatTime(step.wait[index]) : ""));
}

function drawSteps() {
  const {rank} = view, {step} = rank, count = step.time.length, table = byId("step-table");
  byId("step-note").textContent = count ? "Time on the host: from one operator to the next, counted for the phase of the first. Growth: bytes at its end, less those at the end of the one before."
    : "No optimizer step was seen.";
  table.tHead.replaceChildren(make("tr", {}, ...(count ? STEP_TITLES : []).map((title) => make("th", {class: title ? "number" : ""}, title))));
  const shown = Math.min(count, ranksPart.steps);
  table.tBodies[0].replaceChildren(...Array.from({length: shown}, (_, index) => stepRow(step, index)));
  table.dataset.steps = count;
  byId("step-more").hidden = count <= shown;
  byId("step-more").textContent = `${formatCount(count - shown)} more`;
}

function ranksEvents() {
  byId("step-more").addEventListener("click", () => {
    ranksPart.steps += 10 * STEPS_SHOWN;
    drawSteps();
  });
}
