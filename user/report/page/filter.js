// The search: words that a block's module, operator, line, owner or stack leaf contain, and fields as module:mlp, size>1M.

const SIZE_UNITS = {"": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30};

const COMPARE = {
  ">": (a, b) => a > b, "<": (a, b) => a < b, "=": (a, b) => a === b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b,
};

const NUMBER_FIELDS = {
  size: (rank) => (index) => rank.block.bytes[index],
  held: (rank) => (index) => rank.heldAfter(index),
  users: (rank) => (index) => rank.block.users[index],
  start: (rank) => (index) => rank.block.start[index],
  end: (rank) => (index) => rank.endTask(index),
};

function parseNumber(text) {
  const parts = text.match(/^([\d.]+)\s*([kmg]?)(?:i?b)?$/i);
  return parts ? Number(parts[1]) * SIZE_UNITS[parts[2].toLowerCase()] : NaN;
}

// Words, with quotes around what has spaces: line:"a b.py:3".
function splitSearch(text) {
  return (text.match(/(?:[^\s"]|"[^"]*"?)+/g) || []).map((word) => word.replaceAll('"', ""));
}

// The names of a kind that contain a text, as a test of blocks.
function containing(rank, kind, text) {
  const groups = groupAll(rank, kind), wanted = text.toLowerCase();
  const exact = wanted.endsWith("$") ? wanted.slice(0, -1) : null;
  const matches = groups.names.map((name) => exact !== null ? name.toLowerCase() === exact : name.toLowerCase().includes(wanted));
  return (index) => matches[groups.of[index]];
}

const WORD_KINDS = ["module", "operator", "line", "innermost", "owner"];

// A test of blocks for one word, null when it makes no sense.
function testOf(rank, word) {
  const compared = word.match(/^(\w+)(>=|<=|>|<|=)(.+)$/);
  if (compared && NUMBER_FIELDS[compared[1]]) {
    const value = NUMBER_FIELDS[compared[1]](rank), limit = parseNumber(compared[3]), compare = COMPARE[compared[2]];
    return Number.isNaN(limit) ? null : (index) => compare(value(index), limit);
  }
  const field = word.match(/^(\w+):(.*)$/);
  if (field && KINDS[field[1]])
    return containing(rank, field[1], field[2]);
  if (field && field[1] === "persistent") {
    const wanted = field[2] !== "no";
    return (index) => Boolean(rank.block.flags[index] & PERSISTENT) === wanted;
  }
  const tests = WORD_KINDS.map((kind) => containing(rank, kind, word));
  return (index) => tests.some((test) => test(index));
}

function search() {
  const text = byId("search").value, words = splitSearch(text), {rank, timeline} = view, result = byId("search-result");
  const tests = words.map((word) => testOf(rank, word)), wrong = words.filter((_, place) => !tests[place]);
  for (const chip of document.querySelectorAll(".chip"))
    chip.setAttribute("aria-pressed", words.includes(chip.dataset.token));
  if (!words.length || wrong.length) {
    view.shown = null;
    result.textContent = wrong.length ? `not understood: ${wrong.join(" ")}` : "";
    delete result.dataset.count;
    change("search");
    return;
  }
  const shown = new Uint8Array(rank.count);
  let count = 0, bytes = 0;
  for (const index of timeline.mine) {
    if (!tests.every((test) => test(index)))
      continue;
    shown[index] = 1;
    count++;
    bytes += rank.held[index];
  }
  const then = timeline.alive(view.instants[0]).reduce((sum, index) => sum + (shown[index] ? rank.held[index] : 0), 0);
  view.shown = shown;
  Object.assign(result.dataset, {count, bytes, then});
  result.textContent = `${plural(count, "block")} of ${formatCount(timeline.mine.length)}, ${formatBytes(bytes)} in all, `
    + `${formatBytes(then)} at the chosen instant`;
  change("search");
}

function searchFor(kind, name) {
  const wanted = name === NOTHING[kind] || name.endsWith(" others") ? name : `${name}$`;
  byId("search").value = `${kind}:${/\s/.test(wanted) ? `"${wanted}"` : wanted}`;
  search();
}

function searchEvents() {
  const input = byId("search");
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 150);
  });
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const words = splitSearch(input.value), at = words.indexOf(chip.dataset.token);
      if (at >= 0)
        words.splice(at, 1);
      else
        words.push(chip.dataset.token);
      input.value = words.map((word) => /\s/.test(word) ? `"${word}"` : word).join(" ");
      search();
    });
  }
}
