// Memory of one device of a rank over time: its blocks' starts and ends in the order of the allocator's events. An
// instant is a number of these events: the state after so many.

const CHECKPOINTS = 256;
const CHECKPOINT_BLOCKS = 4e6; // of all of them together

class Timeline {
  constructor(rank, device) {
    this.rank = rank;
    this.device = device;
    const {order, blocks} = eventsInOrder(rank, device.index);
    this.order = order;         // of the allocator
    this.blocks = blocks;       // block + 1, negative where it ends
    this.length = blocks.length;
    this.deriveTimes();
    this.places();
    this.noteAlive();
  }

  // Times and tasks of events never go back, whatever the clocks of several threads say.
  deriveTimes() {
    const {rank, blocks, length} = this, {block} = rank;
    this.time = new Float64Array(length);
    this.task = new Float64Array(length);
    this.total = new Float64Array(length);
    let time = 0, task = 0, total = 0;
    for (let event = 0; event < length; event++) {
      const ends = blocks[event] < 0, index = Math.abs(blocks[event]) - 1;
      time = Math.max(time, ends ? rank.endTime[index] : block.start_time[index]);
      task = Math.max(task, ends ? rank.until[index] : rank.from[index]);
      total += ends ? -rank.held[index] : rank.held[index];
      this.time[event] = time;
      this.task[event] = task;
      this.total[event] = total;
    }
    this.lastTime = Math.max(rank.head.last_time, time) || 1;
    this.lastTask = Math.max(rank.head.counts.tasks, task) || 1;
  }

  // The blocks of this device, by start, and how high their places reach.
  places() {
    const {rank} = this, mine = [];
    this.height = 1;
    for (let index = 0; index < rank.count; index++) {
      if (rank.block.device[index] !== this.device.index)
        continue;
      mine.push(index);
      this.height = Math.max(this.height, rank.block.place[index] + rank.held[index]);
    }
    this.mine = Uint32Array.from(mine);
  }

  // What is alive every so many events: a picture of a part of the trace starts there, and not at the beginning.
  noteAlive() {
    const {blocks, length} = this, alive = new Uint32Array(this.mine.length), place = new Uint32Array(this.rank.count);
    let count = 0, most = 1;
    const apply = (event) => {
      const index = Math.abs(blocks[event]) - 1;
      if (blocks[event] > 0) {
        place[index] = count;
        alive[count++] = index;
      } else {
        const last = alive[--count];
        alive[place[index]] = last;
        place[last] = place[index];
      }
      most = Math.max(most, count);
    };
    for (let event = 0; event < length; event++)
      apply(event);
    this.stride = Math.max(1, Math.ceil(length / Math.max(1, Math.min(CHECKPOINTS, Math.floor(CHECKPOINT_BLOCKS / most)))));
    this.checkpoints = [];
    count = 0;
    for (let event = 0; event < length; event++) {
      if (event % this.stride === 0)
        this.checkpoints.push(alive.slice(0, count));
      apply(event);
    }
  }

  // The last checkpoint before a number of events.
  checkpointBefore(event) {
    const at = Math.min(this.checkpoints.length - 1, Math.floor(event / this.stride));
    return at < 0 ? {event: 0, alive: new Uint32Array(0)} : {event: at * this.stride, alive: this.checkpoints[at]};
  }

  // The blocks that a part of the axis may show.
  visible(from, to, axis) {
    const list = this.coordinates(axis), before = this.checkpointBefore(this.eventsUntil(from, list)), end = this.eventsUntil(to, list);
    const found = new Uint32Array(before.alive.length + Math.max(0, end - before.event));
    let count = before.alive.length;
    found.set(before.alive);
    for (let event = before.event; event < end; event++)
      if (this.blocks[event] > 0)
        found[count++] = this.blocks[event] - 1;
    return found.subarray(0, count);
  }

  range(axis) {
    return axis === "time" ? [0, this.lastTime] : [0, this.lastTask];
  }

  coordinates(axis) {
    return axis === "time" ? this.time : this.task;
  }

  // How many events there were until a coordinate, or until an order of the allocator.
  eventsUntil(value, list) {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] <= value)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  peakInstant() {
    return this.eventsUntil(this.device.peak_order, this.order);
  }

  timeOf(instant) {
    return instant ? this.time[instant - 1] : 0;
  }

  taskOf(instant) {
    return instant ? this.task[instant - 1] : 0;
  }

  coordinateOf(instant, axis) {
    return axis === "time" ? this.timeOf(instant) : this.taskOf(instant);
  }

  totalOf(instant) {
    return instant ? this.total[instant - 1] : 0;
  }

  // Blocks alive at an instant, as the allocator had them.
  alive(instant) {
    const {rank} = this, order = instant ? this.order[instant - 1] : -1, found = [];
    for (const index of this.mine)
      if (rank.block.order[index] <= order && order < rank.endOrder[index])
        found.push(index);
    return found;
  }

  // Bytes by group at an instant; `shown`: as of sweep.
  bytesOf(instant, groups, shown = null) {
    const bytes = new Float64Array(groups.names.length);
    for (const index of this.alive(instant))
      if (!shown || shown[index])
        bytes[groups.of[index]] += this.rank.held[index];
    return bytes;
  }

  // Bytes × events by group: who was there most, at any time.
  weights(groups) {
    const {rank, blocks} = this, sums = new Float64Array(groups.names.length);
    for (let event = 0; event < this.length; event++) {
      const index = Math.abs(blocks[event]) - 1;
      sums[groups.of[index]] += blocks[event] > 0 ? rank.held[index] * (this.length - event) : -rank.held[index] * (this.length - event);
    }
    return sums;
  }

  // For each column of the picture the moment of its highest total: the sums by group then, so that no peak is lost
  // however far out the view is. `shown`: 1 for blocks that count, or null.
  sweep(groups, shown, from, to, columns, axis) {
    const {rank, blocks, length} = this, at = this.coordinates(axis), count = groups.names.length, {of} = groups;
    const sums = new Float64Array(count), values = new Float64Array(columns * count);
    const highest = new Float64Array(columns).fill(-1), instants = new Float64Array(columns), scale = columns / (to - from);
    const before = this.checkpointBefore(this.eventsUntil(from, at));
    let total = 0, column = 0, {event} = before;
    for (const index of before.alive) {
      if (shown && !shown[index])
        continue;
      sums[of[index]] += rank.held[index];
      total += rank.held[index];
    }
    const apply = () => {
      const code = blocks[event++], index = (code < 0 ? -code : code) - 1;
      if (shown && !shown[index])
        return;
      const bytes = code < 0 ? -rank.held[index] : rank.held[index];
      sums[of[index]] += bytes;
      total += bytes;
    };
    const note = () => {
      if (total <= highest[column])
        return;
      highest[column] = total;
      instants[column] = event;
      values.set(sums, column * count);
    };
    while (event < length && at[event] <= from)
      apply();
    note();
    while (event < length && at[event] <= to) {
      const next = Math.min(columns - 1, Math.floor((at[event] - from) * scale));
      while (column < next) {
        column++;
        note();
      }
      apply();
      note();
    }
    while (++column < columns)
      note();
    return {columns, count, values, highest, instants, from, to};
  }

  // What the allocator had from the driver: [time, bytes] where it changed. What it held at the end is told, so what
  // it had before the trace is the difference.
  reserved() {
    if (this.reservedPoints)
      return this.reservedPoints;
    const {segment} = this.rank, changes = [];
    let held = 0;
    for (let index = 0; index < segment.bytes.length; index++) {
      if (!segment.allocator[index] || segment.device[index] !== this.device.index + 1)
        continue;
      changes.push([segment.start_time[index], segment.bytes[index]]);
      if (segment.end_time[index])
        changes.push([segment.end_time[index] - 1, -segment.bytes[index]]);
      else
        held += segment.bytes[index];
    }
    changes.sort((a, b) => a[0] - b[0]);
    let bytes = Math.max(0, this.device.reserved_bytes - held);
    this.reservedPoints = [[0, bytes]];
    for (const [time, change] of changes) {
      bytes += change;
      this.reservedPoints.push([time, bytes]);
    }
    return this.reservedPoints;
  }
}

// Starts and ends of a device's blocks, sorted by the allocator's order (by counting): ends first where it is equal.
function eventsInOrder(rank, device) {
  const {order} = rank.block, {endOrder} = rank;
  let last = 0, count = 0;
  for (let index = 0; index < rank.count; index++) {
    if (rank.block.device[index] !== device)
      continue;
    const end = endOrder[index];
    last = Math.max(last, order[index], end === Infinity ? 0 : end);
    count += end === Infinity ? 1 : 2;
  }
  const first = new Uint32Array(2 * last + 4), keyOf = (value, ends) => 2 * value + (ends ? 0 : 1);
  const each = (visit) => {
    for (let index = 0; index < rank.count; index++) {
      if (rank.block.device[index] !== device)
        continue;
      visit(keyOf(order[index], false), index + 1, order[index]);
      if (endOrder[index] !== Infinity)
        visit(keyOf(endOrder[index], true), -index - 1, endOrder[index]);
    }
  };
  each((key) => { first[key + 1]++; });
  for (let key = 1; key < first.length; key++)
    first[key] += first[key - 1];
  const orders = new Float64Array(count), blocks = new Int32Array(count);
  each((key, block, value) => {
    const at = first[key]++;
    blocks[at] = block;
    orders[at] = value;
  });
  return {order: orders, blocks};
}
