// What blocks have in common: a group for each block, and the names of groups. A kind is a row of the table below.

const CATEGORY_COLORS = {
  Parameter: "#3b7dbd", Buffer: "#7fb8e0", Gradient: "#d9742b", Activation: "#2f9e77",
  Temp: "#d8c24a", Optstate: "#b9709f", Other: "#8d949b", Workspace: "#e3a02f",
};
const PHASE_COLORS = {initialization: "#8d949b", forward: "#4a94c9", recompute: "#e3a02f", backward: "#d9742b", optimizer: "#b9709f"};
const COLORS = ["#3b7dbd", "#d9742b", "#2f9e77", "#b9709f", "#d8c24a", "#7fb8e0", "#a65a4a", "#8a7fc7", "#6fae4e", "#c99a6b",
  "#4aa7a7", "#d48fb3"];
const OTHER_COLOR = "#9aa1a8";
const GROUPS_SHOWN = COLORS.length;

const NOTHING = {module: "outside modules", owner: "no owner known", line: "no Python frame", innermost: "no Python frame",
  address: "none: no single block"};

// For each kind the key of a block, and the text of a key.
const KINDS = {
  category: {key: (rank) => (index) => rank.block.category[index], text: (rank, key) => page.head.categories[key]},
  phase: {key: (rank) => (index) => rank.block.phase[index], text: (rank, key) => page.head.phases[key]},
  operator: {key: (rank) => (index) => rank.block.name[index], text: (rank, key) => rank.texts[key]},
  owner: {key: (rank) => (index) => rank.block.owner[index], text: (rank, key) => rank.texts[key]},
  line: {key: (rank) => (index) => rank.ownLine(index), text: (rank, key) => key},
  innermost: {key: (rank) => (index) => rank.innermostLine(index), text: (rank, key) => key},
  module: {key: (rank) => (index) => rank.moduleOf(index), text: (rank, key) => key},
};

function isLineKind(kind) {
  return kind === "line" || kind === "innermost";
}

class Groups {
  // `of`: for each block its group; names and colors of groups.
  constructor(of, names, colors) {
    Object.assign(this, {of, names, colors});
  }
}

// Keys that are made of texts are worked out once for what they depend on.
function memoized(rank, kind) {
  const key = KINDS[kind].key(rank), known = new Map();
  const source = {line: (index) => rank.lineSource(index, rank.originStack(index)),
    innermost: (index) => rank.lineSource(index, rank.block.stack[index]),
    module: (index) => rank.block.module[index] * rank.texts.length + rank.block.owner[index]}[kind];
  if (!source)
    return key;
  return (index) => {
    const from = source(index);
    if (!known.has(from))
      known.set(from, key(index));
    return known.get(from);
  };
}

// All groups of a kind, in order of appearance.
function groupAll(rank, kind) {
  rank.grouped ||= {};
  if (rank.grouped[kind])
    return rank.grouped[kind];
  const key = memoized(rank, kind), place = new Map(), names = [], of = new Uint32Array(rank.count);
  for (let index = 0; index < rank.count; index++) {
    const value = key(index);
    let group = place.get(value);
    if (group === undefined) {
      group = names.length;
      place.set(value, group);
      names.push(KINDS[kind].text(rank, value) || NOTHING[kind] || "unknown");
    }
    of[index] = group;
  }
  rank.grouped[kind] = new Groups(of, names, null);
  return rank.grouped[kind];
}

// The part of a module's name below a prefix that is one level deeper.
function moduleBelow(name, prefix) {
  if (!prefix)
    return name.split(".")[0];
  if (name === prefix)
    return `${prefix} itself`;
  if (!name.startsWith(`${prefix}.`))
    return null;
  return `${prefix}.${name.slice(prefix.length + 1).split(".")[0]}`;
}

const ROOT_SHARE = 0.8; // of the blocks in modules

// An outermost module that has nearly everything says nothing: its children are shown.
function modulePrefix(rank, prefix) {
  if (prefix)
    return prefix;
  const {of, names} = groupAll(rank, "module"), counts = new Uint32Array(names.length), roots = new Map();
  for (let index = 0; index < of.length; index++)
    counts[of[index]]++;
  let inModules = 0;
  names.forEach((name, group) => {
    if (name === NOTHING.module)
      return;
    const root = name.split(".")[0];
    roots.set(root, (roots.get(root) || 0) + counts[group]);
    inModules += counts[group];
  });
  const found = [...roots].find(([, count]) => count >= ROOT_SHARE * inModules);
  return found ? found[0] : "";
}

function groupModules(rank, prefix) {
  const all = groupAll(rank, "module"), from = modulePrefix(rank, prefix), place = new Map(), names = [];
  const of = all.names.map((name) => {
    const text = name === NOTHING.module ? name : moduleBelow(name, from) || "other modules";
    if (!place.has(text)) {
      place.set(text, names.length);
      names.push(text);
    }
    return place.get(text);
  });
  return new Groups(all.of.map((group) => of[group]), names, null);
}

// The groups that matter most, by `weights` of all; the others become one.
function largestGroups(groups, weights, kind) {
  const order = groups.names.map((_, group) => group).filter((group) => weights[group] > 0)
    .sort((a, b) => weights[b] - weights[a]);
  const shown = order.slice(0, order.length > GROUPS_SHOWN ? GROUPS_SHOWN - 1 : GROUPS_SHOWN);
  const names = shown.map((group) => groups.names[group]);
  const fixed = {category: CATEGORY_COLORS, phase: PHASE_COLORS}[kind];
  const colors = names.map((name, place) => fixed ? fixed[name] : COLORS[place]);
  const into = new Uint32Array(groups.names.length).fill(shown.length);
  shown.forEach((group, place) => { into[group] = place; });
  if (order.length > shown.length) {
    names.push(`${order.length - shown.length} others`);
    colors.push(OTHER_COLOR);
  } else {
    // Groups without weight are of blocks that no time was spent with: they need a place all the same.
    names.push("others");
    colors.push(OTHER_COLOR);
  }
  return new Groups(groups.of.map((group) => into[group]), names, colors);
}
