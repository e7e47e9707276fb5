// One rank: its columns, and what follows from them. A block, task, stack or text is its index.

const PERSISTENT = 1, PREEXISTING = 2, REMAINDER = 4;
const WORKSPACE = "Workspace";
const PLOT_STEPS = 2 ** 20;
// The job's own frames are those outside PyTorch and outside code that has no file.
const isLibraryFile = (file) => file.includes("-packages/torch/") || file.startsWith("<");

class Rank {
  constructor(head, index) {
    this.head = head;
    this.scope = `rank-${index}`;
    this.loaded = false;
  }

  async load() {
    if (this.loaded)
      return;
    this.texts = JSON.parse(await readText(this.scope, "texts"));
    for (const table of ["block", "user", "task", "step", "segment", "stack", "frame"])
      this[table] = await readTable(this.scope, table);
    this.loaded = true;
    this.count = this.block.start.length;
    this.uniteTexts();
    this.indexStacks();
    this.deriveBlocks();
    this.deriveBands();
  }

  // Equal texts may have come from several places of the program: the first one stands for all.
  uniteTexts() {
    const first = new Map(), same = new Uint32Array(this.texts.length);
    this.texts.forEach((text, index) => {
      if (!first.has(text))
        first.set(text, index);
      same[index] = first.get(text);
    });
    for (const column of [this.block.name, this.block.module, this.block.owner, this.task.name, this.frame.file])
      for (let index = 0; index < column.length; index++)
        column[index] = same[column[index]];
  }

  indexStacks() {
    this.firstFrame = sumsBefore(this.stack.frames);
    const count = this.stack.frames.length;
    this.ownFrame = new Int32Array(count).fill(-1);
    this.leafFrame = new Int32Array(count).fill(-1);
    for (let stack = 0; stack < count; stack++) {
      const begin = this.firstFrame[stack], end = this.firstFrame[stack + 1];
      if (end === begin)
        continue;
      this.leafFrame[stack] = this.ownFrame[stack] = this.stack.frame[end - 1];
      for (let at = end - 1; at >= begin; at--) {
        if (!isLibraryFile(this.fileOf(this.stack.frame[at]))) {
          this.ownFrame[stack] = this.stack.frame[at];
          break;
        }
      }
    }
  }

  deriveBlocks() {
    const {block, count} = this, workspace = page.head.categories.indexOf(WORKSPACE);
    this.firstUser = sumsBefore(block.users);
    this.held = new Float64Array(count);        // bytes in the totals of the device
    this.from = new Float64Array(count);        // plot coordinates; persistent: Infinity
    this.until = new Float64Array(count);
    this.endTime = new Float64Array(count);
    this.endOrder = new Float64Array(count);
    this.lastUse = new Float64Array(count);     // the task, that of the producer without users
    for (let index = 0; index < count; index++) {
      const start = block.start[index], end = start + block.life[index] - 1;
      const persistent = block.flags[index] & PERSISTENT;
      this.held[index] = block.allocated[index] || block.bytes[index];
      this.from[index] = start + block.start_plot[index] / PLOT_STEPS;
      this.until[index] = persistent ? Infinity
        : (block.category[index] === workspace ? end - 1 : end) + block.end_plot[index] / PLOT_STEPS;
      this.endTime[index] = block.life_time[index] ? block.start_time[index] + block.life_time[index] - 1 : Infinity;
      this.endOrder[index] = block.order_life[index] ? block.order[index] + block.order_life[index] - 1 : Infinity;
      this.lastUse[index] = block.users[index] ? this.user.task[this.firstUser[index + 1] - 1] : start;
    }
  }

  // Where phase or step change, by time and by task.
  deriveBands() {
    const {phase, step, time} = this.task, index = this.task.index;
    this.bands = [];
    for (let at = 0; at < phase.length; at++) {
      const last = this.bands[this.bands.length - 1];
      if (!last || last.phase !== phase[at] || last.step !== step[at])
        this.bands.push({time: time[at], task: index[at], phase: phase[at], step: step[at]});
    }
    this.stepTask = new Map();
    for (const band of this.bands)
      if (!this.stepTask.has(band.step))
        this.stepTask.set(band.step, band);
  }

  // Tasks held after the last use; none is known of what stays.
  heldAfter(index) {
    return this.block.flags[index] & PERSISTENT ? 0 : Math.max(0, this.endTask(index) - this.lastUse[index]);
  }

  endTask(index) {
    return this.block.flags[index] & PERSISTENT ? Infinity : this.block.start[index] + this.block.life[index] - 1;
  }

  bandAt(value, axis) {
    const key = axis === "time" ? "time" : "task";
    let low = 0, high = this.bands.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.bands[middle][key] <= value)
        low = middle + 1;
      else
        high = middle;
    }
    return this.bands[Math.max(0, low - 1)];
  }

  // The place of a task in the columns, -1: not there.
  taskPlace(task) {
    const index = this.task.index;
    let low = 0, high = index.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (index[middle] === task)
        return middle;
      if (index[middle] < task)
        low = middle + 1;
      else
        high = middle - 1;
    }
    return -1;
  }

  fileOf(frame) {
    return this.texts[this.frame.file[frame]];
  }

  frameText(frame) {
    return frame < 0 ? "" : `${this.fileOf(frame)}:${this.frame.line[frame]}`;
  }

  framesOf(stack) {
    const frames = [];
    for (let at = this.firstFrame[stack]; at < this.firstFrame[stack + 1]; at++)
      frames.push({place: this.frameText(this.stack.frame[at]), file: this.fileOf(this.stack.frame[at]),
        function: this.texts[this.frame.function[this.stack.frame[at]]]});
    return frames;
  }

  // The stack that says where a block comes from: of the forward pass where that is known, since the engine of autograd
  // is always called from the same line.
  originStack(index) {
    return this.block.forward_stack[index] ? this.block.forward_stack[index] - 1 : this.block.stack[index];
  }

  ownLine(index) {
    return this.frameText(this.ownFrame[this.originStack(index)]) || this.olderText(index);
  }

  innermostLine(index) {
    return this.frameText(this.leafFrame[this.block.stack[index]]) || this.olderText(index);
  }

  // What was there before the trace has no line; what it is says more than that there is none.
  olderText(index) {
    if (this.block.flags[index] & REMAINDER)
      return "older than the trace: in no block that is known";
    return this.block.flags[index] & PREEXISTING ? `older than the trace: ${page.head.categories[this.block.category[index]]}` : "";
  }

  // What a line depends on, as one number.
  lineSource(index, stack) {
    const flags = this.block.flags[index], categories = page.head.categories.length;
    const older = flags & REMAINDER ? categories + 1 : flags & PREEXISTING ? this.block.category[index] + 1 : 0;
    return stack * (categories + 2) + older;
  }

  // The task since when a block is there, -1: since before the trace.
  sinceTask(index) {
    return this.block.flags[index] & PREEXISTING ? -1 : this.block.start[index];
  }

  // Modules of what was made outside of any: that of its owner, "AdamW.exp_avg(Model.a.weight)" or "Model.a.weight".
  moduleOf(index) {
    const module = this.texts[this.block.module[index]];
    if (module)
      return module;
    const owner = this.texts[this.block.owner[index]], inner = owner.match(/\((.*)\)$/);
    const name = (inner && !owner.includes("_flat_param(") ? inner[1] : owner).split(/[(,]/)[0];
    return name.slice(0, Math.max(0, name.lastIndexOf(".")));
  }
}

function sumsBefore(counts) {
  const sums = new Float64Array(counts.length + 1);
  for (let index = 0; index < counts.length; index++)
    sums[index + 1] = sums[index] + counts[index];
  return sums;
}
