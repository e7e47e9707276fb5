// From the data elements to the first picture, and the choices at the top.

function fillChoices() {
  byId("rank").replaceChildren(...page.ranks.map((rank, place) => make("option", {value: place}, String(rank.head.rank))));
  byId("rank-label").hidden = page.ranks.length < 2;
}

function fillDevices() {
  byId("device").replaceChildren(...view.rank.head.devices.map((device, place) => make("option", {value: place}, device.name)));
  byId("device-label").hidden = view.rank.head.devices.length < 2;
}

const NEEDS_DATA = ["findings", "memory", "instant", "ranks"];

// A rank without memory has only its limits to tell.
function showNothing(rank) {
  for (const id of ["peak", ...NEEDS_DATA])
    byId(id).hidden = true;
  view.rank = rank;
  byId("status").hidden = false;
  byId("status").textContent = `No memory was seen on rank ${rank.head.rank}, in ${formatCount(rank.head.counts.events)} events.`;
  drawLimits();
}

async function chooseRank(place, wanted) {
  const rank = page.ranks[place];
  byId("rank").value = place;
  if (!rank.head.devices.length) {
    showNothing(rank);
    return;
  }
  byId("peak").hidden = false;
  Object.assign(view, {rank, timeline: null, device: wanted || highestDevice(rank.head), groups: null});
  fillDevices();
  byId("device").value = rank.head.devices.indexOf(view.device);
  drawPeak();
  drawLimits();
  if (!rank.loaded)
    byId("status").hidden = false;
  await rank.load();
  byId("status").hidden = true;
  chooseDevice(view.device);
}

function chooseDevice(device) {
  const {rank} = view;
  byId("device").value = rank.head.devices.indexOf(device);
  rank.timelines ||= new Map();
  if (!rank.timelines.has(device))
    rank.timelines.set(device, new Timeline(rank, device));
  Object.assign(view, {device, timeline: rank.timelines.get(device), shown: null, pinned: null});
  view.instants = [view.timeline.peakInstant(), null];
  for (const id of NEEDS_DATA)
    byId(id).hidden = false;
  viewReset();
  viewGroups();
  drawFacts();
  drawPeak();
  drawHolders();
  drawModules();
  drawSteps();
  drawPhaseLegend();
  search();
  change("device", "instants", "pinned");
}

function controlEvents() {
  byId("rank").addEventListener("change", (event) => chooseRank(Number(event.target.value)));
  byId("device").addEventListener("change", (event) => chooseDevice(view.rank.head.devices[Number(event.target.value)]));
  byId("capacity").addEventListener("input", drawFit);
  byId("group").addEventListener("change", (event) => {
    view.kind = event.target.value;
    view.prefix = "";
    drawPath();
    viewGroups();
  });
  for (const button of document.querySelectorAll("[data-axis]")) {
    button.addEventListener("click", () => {
      for (const other of document.querySelectorAll("button[data-axis]"))
        other.setAttribute("aria-pressed", other === button);
      viewAxis(button.dataset.axis);
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && pin(-1));
  addEventListener("resize", () => change("range"));
}

function themeEvents() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    if (view.timeline)
      change("theme");
  };
  set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function drawParts() {
  const sums = ["range", "groups", "search", "axis", "device"];
  part(sums, sumChart);
  part([...sums, "instants", "theme", "pointer"], drawChart);
  part([...sums, "instants"], drawChartLegend);
  part([...sums, "theme"], fillBlocks);
  part([...sums, "instants", "theme", "pinned", "pointer"], drawBlocks);
  part(["pinned"], drawDetail);
  part(["instants", "device"], drawInstant);
  part(["device"], drawFindings);
}

async function begin() {
  themeEvents();
  page.head = JSON.parse(await readText("job", "head"));
  if (page.head.version !== PAGE_VERSION)
    throw new Error(`the data have version ${page.head.version}, this page reads ${PAGE_VERSION}`);
  page.ranks = page.head.ranks.map((head, index) => new Rank(head, index));
  document.title = `hdtrace ${page.head.job.job || ""}: ${formatBytes(page.head.job.peak.bytes)}`;
  fillChoices();
  drawParts();
  controlEvents();
  chartEvents();
  blocksEvents();
  searchEvents();
  instantEvents();
  ranksEvents();
  const highest = page.ranks.findIndex((rank) => rank.head.rank === page.head.job.peak.rank);
  await chooseRank(Math.max(0, highest));
  await readWaits();
  drawRanks();
  requestAnimationFrame(() => {
    document.documentElement.dataset.ready = Math.round(performance.now());
  });
}

begin().catch((error) => {
  byId("status").hidden = false;
  byId("status").className = "fault";
  byId("status").textContent = `This page cannot be shown: ${error.message}`;
  document.documentElement.dataset.failed = error.message;
});
