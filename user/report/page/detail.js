// One block: in short under the pointer, whole when it is pinned.

const USERS_SHOWN = 100;

function lifeText(rank, index) {
  const {block} = rank, stays = block.flags[index] & PERSISTENT;
  return stays ? `from task ${block.start[index]}, alive at the end` : `tasks ${block.start[index]} to ${rank.endTask(index)}`;
}

function blockTip(index) {
  const {rank} = view, {block, texts} = rank, owner = texts[block.owner[index]], module = rank.moduleOf(index);
  const held = rank.heldAfter(index);
  const rows = [["category", page.head.categories[block.category[index]]], ["operator", texts[block.name[index]]],
    ["line", rank.ownLine(index) || NOTHING.line]];
  if (module)
    rows.push(["module", module]);
  if (owner)
    rows.push(["owner", owner]);
  rows.push(["phase", page.head.phases[block.phase[index]]], ["lifetime", lifeText(rank, index)]);
  if (held)
    rows.push(["held after last use", plural(held, "task")]);
  return [make("p", {class: "head", data: {block: index}}, formatBytes(block.bytes[index])), tipRows(rows)];
}

function pin(index) {
  view.pinned = index < 0 ? null : index;
  change("pinned");
}

// Every column of its row, by the names of the memory CSV where that has it.
function blockFields(rank, index) {
  const {block, texts} = rank, persistent = block.flags[index] & PERSISTENT;
  const life = block.life_time[index] ? block.life_time[index] - 1 : null;
  return [
    ["size", `${formatBytes(block.bytes[index])} (${formatCount(block.bytes[index])})`, block.bytes[index]],
    ["allocated", block.allocated[index] ? formatBytes(block.allocated[index]) : "not seen"],
    ["type", page.head.categories[block.category[index]]],
    ["owner", texts[block.owner[index]] || NOTHING.owner],
    ["module", texts[block.module[index]] || NOTHING.module],
    ["operator", texts[block.name[index]]],
    ["phase", page.head.phases[block.phase[index]]],
    ["start", `task ${block.start[index]}, ${formatTime(block.start_time[index])}`, block.start[index]],
    ["end", persistent ? "alive at the end of the trace" : `task ${rank.endTask(index)}, ${formatTime(rank.endTime[index])}`],
    ["lifetime", life === null ? "to the end" : formatTime(life)],
    ["last use", block.users[index] ? `task ${rank.lastUse[index]}` : "never used"],
    ["held after", persistent ? "not known" : plural(rank.heldAfter(index), "task"), rank.heldAfter(index)],
    ["device", `${view.device.name}, stream ${block.stream[index]}`],
    ["address", block.flags[index] & REMAINDER ? NOTHING.address
      : `0x${block.address[index].toString(16)}, use ${block.generation[index] + 1}`],
    ["live then", `${formatBytes(block.used[index])}, highest until then ${formatBytes(block.peak[index])}`],
    ["older than trace", block.flags[index] & PREEXISTING ? "yes" : "no"],
  ];
}

function stackList(rank, stack) {
  const frames = rank.framesOf(stack);
  if (!frames.length)
    return make("p", {class: "note"}, NOTHING.line);
  return make("ul", {class: "frames"}, ...frames.reverse().map((frame) =>
    make("li", {class: isLibraryFile(frame.file) ? "inner" : ""}, code(frame.place), ` ${frame.function}`)));
}

function userList(rank, index) {
  const {block, task, texts} = rank, first = rank.firstUser[index], count = block.users[index];
  const items = [];
  for (let at = 0; at < Math.min(count, USERS_SHOWN); at++) {
    const user = rank.user.task[first + at], place = rank.taskPlace(user);
    items.push(make("li", {data: {task: user}}, `task ${user} `, place < 0 ? "" : texts[task.name[place]], " ",
      place < 0 ? "" : code(rank.frameText(rank.ownFrame[task.stack[place]]))));
  }
  if (count > USERS_SHOWN)
    items.push(make("li", {class: "note"}, `and ${count - USERS_SHOWN} more`));
  return items.length ? make("ul", {class: "frames", id: "users"}, ...items) : make("p", {class: "note"}, "No task had it as an argument.");
}

function drawDetail() {
  const detail = byId("detail"), {rank, pinned} = view;
  detail.hidden = pinned === null;
  if (pinned === null)
    return;
  const {block} = rank, forward = block.forward_stack[pinned];
  const close = make("button", {class: "close", type: "button", "aria-label": "Close"}, "×");
  close.addEventListener("click", () => pin(-1));
  detail.dataset.block = pinned;
  detail.replaceChildren(close, make("div", {class: "parts"},
    make("dl", {class: "facts", id: "fields"}, ...blockFields(rank, pinned).flatMap(([name, text, value]) =>
      [make("dt", {}, name), make("dd", {data: value === undefined ? {field: name} : {field: name, value}}, text)])),
    make("div", {},
      make("h3", {}, "Made at ", make("span", {class: "note"}, "innermost first")), stackList(rank, block.stack[pinned]),
      ...(forward ? [make("h3", {}, `Forward pass it belongs to${block.forward_task[pinned] ? `, task ${block.forward_task[pinned] - 1}` : ""}`),
        stackList(rank, forward - 1)] : []),
      make("h3", {}, `Used by ${plural(block.users[pinned], "task")}`), userList(rank, pinned))));
}
