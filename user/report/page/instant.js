// What is alive at the chosen instant, and what a second one has more and less.

const ROWS_SHOWN = 30;
const instantPart = {kind: "line", sort: "bytes", falling: true, second: false, limit: ROWS_SHOWN};

const ALIVE_COLUMNS = [
  {key: "name", title: "", text: true},
  {key: "bytes", title: "Bytes"}, {key: "share", title: "Share", by: "bytes"}, {key: "blocks", title: "Blocks"},
  {key: "largest", title: "Largest"}, {key: "since", title: "Since"},
];
const DIFFERENCE_COLUMNS = [
  {key: "name", title: "", text: true},
  {key: "bytes", title: "First"}, {key: "then", title: "Second"}, {key: "more", title: "Difference"},
  {key: "added", title: "New"}, {key: "released", title: "Gone"},
];

// One row a group: its bytes at both instants, what is new and gone.
function aliveRows() {
  const {rank, timeline, instants} = view, {kind} = instantPart, rows = new Map();
  const groups = kind === "block" ? null : groupAll(rank, kind);
  const rowOf = (index) => {
    const key = groups ? groups.of[index] : index;
    if (!rows.has(key))
      rows.set(key, {key, name: groups ? groups.names[key] : blockName(rank, index), bytes: 0, blocks: 0, largest: 0, since: Infinity,
        then: 0, added: 0, released: 0, index});
    return rows.get(key);
  };
  const first = timeline.alive(instants[0]);
  for (const index of first) {
    const row = rowOf(index), bytes = rank.held[index];
    row.bytes += bytes;
    row.blocks++;
    row.largest = Math.max(row.largest, bytes);
    row.since = Math.min(row.since, rank.sinceTask(index));
  }
  if (instants[1] !== null) {
    const before = new Set(first), second = timeline.alive(instants[1]), after = new Set(second);
    for (const index of second) {
      rowOf(index).then += rank.held[index];
      rowOf(index).added += before.has(index) ? 0 : rank.held[index];
    }
    for (const index of first)
      rowOf(index).released += after.has(index) ? 0 : rank.held[index];
  }
  return [...rows.values()].map((row) => ({...row, more: row.then - row.bytes}));
}

function blockName(rank, index) {
  return `${rank.texts[rank.block.owner[index]] || rank.texts[rank.block.name[index]]} · ${shortPath(rank.ownLine(index) || NOTHING.line)}`;
}

function sortRows(rows, key, falling) {
  const compare = key === "name" ? (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0
    : key === "more" ? (a, b) => Math.abs(a.more) - Math.abs(b.more) : (a, b) => a[key] - b[key];
  return rows.sort((a, b) => (falling ? -1 : 1) * compare(a, b));
}

function sortableHead(table, columns, state, redrawTable) {
  table.tHead.replaceChildren(make("tr", {}, ...columns.map((column) => {
    const key = column.by || column.key, button = make("button", {type: "button", data: {key}}, column.title || state.title);
    button.addEventListener("click", () => {
      state.falling = state.sort === key ? !state.falling : key !== "name";
      state.sort = key;
      redrawTable();
    });
    return make("th", {class: column.text ? "" : "number", "aria-sort": state.sort === key ? state.falling ? "descending" : "ascending" : null}, button);
  })));
}

// The step that a task is in, and the task.
function sinceText(rank, task) {
  if (task === Infinity)
    return "";
  if (task < 0)
    return "before the trace";
  const band = rank.bandAt(task, "tasks");
  return band ? `step ${band.step}, task ${task}` : `task ${task}`;
}

function aliveRow(row, columns, total) {
  const {rank} = view, texts = {
    bytes: formatBytes(row.bytes), share: formatShare(row.bytes, total), blocks: formatCount(row.blocks), largest: formatBytes(row.largest),
    since: sinceText(rank, row.since), then: formatBytes(row.then), more: formatChange(row.more),
    added: formatBytes(row.added), released: formatBytes(row.released),
  };
  const line = make("tr", {class: "choosable", tabindex: 0, data: {bytes: row.bytes, name: row.name, more: row.more, blocks: row.blocks}},
    make("td", {class: "name"}, code(row.name)), ...columns.slice(1).map((column) => number(texts[column.key])));
  const choose = () => chooseRow(row);
  line.addEventListener("click", choose);
  line.addEventListener("keydown", (event) => event.key === "Enter" && choose());
  return line;
}

function chooseRow(row) {
  if (instantPart.kind === "block")
    pin(row.index);
  else
    searchFor(instantPart.kind, row.name);
  byId("memory").scrollIntoView();
}

function instantText(instant) {
  const {timeline, rank} = view, time = timeline.timeOf(instant), band = rank.bandAt(time, "time");
  const peak = instant === timeline.peakInstant() ? "at the peak, " : "at ";
  return `${peak}${formatTime(time)}${band ? `, ${page.head.phases[band.phase]}, step ${band.step}` : ""}`;
}

function drawInstant() {
  const {instants, timeline} = view, second = instants[1] !== null, columns = second ? DIFFERENCE_COLUMNS : ALIVE_COLUMNS;
  const rows = aliveRows(), total = timeline.totalOf(instants[0]), section = byId("instant");
  if (second !== instantPart.second)
    Object.assign(instantPart, {second, sort: second ? "more" : "bytes", falling: true});
  Object.assign(section.dataset, {time: timeline.timeOf(instants[0]), task: timeline.taskOf(instants[0]), total});
  instantPart.title = byId("instant-group").selectedOptions[0].textContent;
  byId("instant-title").textContent = instantText(instants[0]) + (second ? `, and ${instantText(instants[1])}` : "");
  byId("instant-clear").hidden = !second;
  drawInstantNote(rows, total, second);
  drawTreemap(sortRows(rows.filter((row) => row.bytes > 0), "bytes", true).map((row) => ({...row, color: fixedColor(row.name), choose: () => chooseRow(row)})));
  sortRows(rows, instantPart.sort, instantPart.falling);
  sortableHead(byId("alive"), columns, instantPart, drawInstant);
  byId("alive").tBodies[0].replaceChildren(...rows.slice(0, instantPart.limit).map((row) => aliveRow(row, columns, total)));
  byId("alive").dataset.rows = rows.length;
  byId("alive-more").hidden = rows.length <= instantPart.limit;
  byId("alive-more").textContent = `${formatCount(rows.length - instantPart.limit)} more`;
}

function fixedColor(name) {
  return {category: CATEGORY_COLORS, phase: PHASE_COLORS}[instantPart.kind]?.[name];
}

function drawInstantNote(rows, total, second) {
  const sum = (key) => rows.reduce((bytes, row) => bytes + row[key], 0), note = byId("instant-note"), {timeline, device, instants} = view;
  const untold = instants[0] === timeline.peakInstant() ? device.peak_bytes - total : 0;
  if (second)
    note.textContent = `From the first instant to the second: ${formatChange(sum("more"))}; ${formatBytes(sum("added"))} are new, ${formatBytes(sum("released"))} are gone.`;
  else
    note.textContent = `${formatBytes(total)} in ${plural(sum("blocks"), "block")}${untold > 0 ? `; ${formatBytes(untold)} more are no rows of the report` : ""}. `
      + "Click in the plot for another instant, with Shift for a second one to compare with.";
  if (second)
    Object.assign(byId("instant").dataset, {more: sum("more"), added: sum("added"), released: sum("released")});
}

function instantEvents() {
  byId("instant-group").addEventListener("change", (event) => {
    Object.assign(instantPart, {kind: event.target.value, limit: ROWS_SHOWN});
    drawInstant();
  });
  byId("instant-peak").addEventListener("click", () => viewInstant(view.timeline.peakInstant(), false));
  byId("instant-clear").addEventListener("click", () => viewInstant(view.instants[0], false));
  byId("alive-more").addEventListener("click", () => {
    instantPart.limit += 10 * ROWS_SHOWN;
    drawInstant();
  });
}
