// What stands out, in words. The findings come with the page: they are those of `hdtrace explain`.

const SEVERITY_CLASSES = {critical: "fault", warning: "", note: ""};

function evidenceItem(one) {
  const about = [];
  if (one.bytes)
    about.push(formatBytes(one.bytes));
  if (one.blocks > 1)
    about.push(plural(one.blocks, "block"));
  if (one.byte_tasks)
    about.push(`held ${plural(Math.round(one.byte_tasks / one.bytes), "task")} on average`);
  if (one.saves_bytes)
    about.push(`without it the peak is ${formatBytes(one.saves_bytes)} lower`);
  return make("li", {data: {kind: one.kind, name: one.name, bytes: one.bytes, cost: one.byte_tasks ?? ""}}, code(one.name),
    about.length ? `: ${about.join(", ")}` : "",
    ...(one.holder ? [one.blocks > 1 ? "; the largest is held by " : "; held by ", code(one.holder)] : []));
}

function findingItem(finding) {
  return make("li", {class: SEVERITY_CLASSES[finding.severity], data: {finding: finding.kind, id: finding.id, bytes: finding.bytes,
    severity: finding.severity, saves: finding.saves_bytes ?? "", ...finding.numbers}},
    make("div", {}, finding.text), finding.evidence.length ? make("ul", {class: "evidence"}, ...finding.evidence.map(evidenceItem)) : null,
    make("div", {class: "advice"}, finding.advice),
    make("div", {class: "evidence"}, `${finding.severity}, confidence: ${finding.confidence}`));
}

// Of the rank and device that are shown, and of the job.
function drawFindings() {
  const {rank, device} = view;
  const found = page.head.job.findings.filter((one) => (one.rank === null || one.rank === rank.head.rank)
    && (one.device === null || one.device === device.name));
  byId("finding-list").replaceChildren(...found.map(findingItem));
  byId("findings").hidden = !found.length;
}
