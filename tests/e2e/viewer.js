// A viewer of memory snapshots as PyTorch's MemoryViz.js is one, reduced to what can fail: it unpickles, pairs events,
// and replays the allocator backwards from its end, with the same demands, in the same arithmetic (doubles).
//
//     node viewer.js SNAPSHOT          prints what it sees as JSON; any demand that is not kept ends it
'use strict';
const fs = require('fs');

const EXACT = 2 ** 53;
const SPREAD_MAX = 100000; // arguments of one call: somewhat above, the engine's stack is full

function unpickle(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = new TextDecoder('utf-8', {fatal: true});
  const stack = [], marks = [], memo = [];
  let at = 0;
  const take = count => { at += count; return at - count; };
  const number = value => {
    if (Math.abs(value) >= EXACT) throw new Error(`${value} is not exact`);
    return value;
  };
  const read = length => text.decode(bytes.subarray(take(length), at));
  const long = length => {
    if (length > 8) throw new Error(`an integer of ${length} bytes`);
    let value = 0n;
    for (let i = 0; i < length; i++) value |= BigInt(bytes[at + i]) << BigInt(8 * i);
    take(length);
    return Number(BigInt.asIntN(8 * length, value));
  };
  const operations = {
    0x80: () => { if (bytes[take(1)] > 4) throw new Error('a protocol above 4'); },
    0x95: () => take(8),
    '}': () => stack.push({}), ']': () => stack.push([]), ')': () => stack.push([]),
    '(': () => marks.push(stack.length),
    'K': () => stack.push(bytes[take(1)]),
    'M': () => stack.push(view.getUint16(take(2), true)),
    'J': () => stack.push(view.getInt32(take(4), true)),
    0x8a: () => stack.push(number(long(bytes[take(1)]))),
    'G': () => stack.push(view.getFloat64(take(8), false)),
    0x8c: () => stack.push(read(bytes[take(1)])),
    'X': () => stack.push(read(view.getUint32(take(4), true))),
    'N': () => stack.push(null), 0x88: () => stack.push(true), 0x89: () => stack.push(false),
    0x85: () => stack.push(stack.splice(-1)), 0x86: () => stack.push(stack.splice(-2)), 0x87: () => stack.push(stack.splice(-3)),
    'h': () => stack.push(memo[bytes[take(1)]]), 'j': () => stack.push(memo[view.getUint32(take(4), true)]),
    'q': () => { memo[bytes[take(1)]] = stack.at(-1); }, 'r': () => { memo[view.getUint32(take(4), true)] = stack.at(-1); },
    0x94: () => memo.push(stack.at(-1)),
    'a': () => { const item = stack.pop(); stack.at(-1).push(item); },
    'e': () => {
      const items = stack.splice(marks.pop());
      if (items.length > SPREAD_MAX) throw new Error(`${items.length} items in one call`);
      stack.at(-1).push(...items);
    },
    's': () => { const value = stack.pop(), key = stack.pop(); stack.at(-1)[key] = value; },
    'u': () => {
      const items = stack.splice(marks.pop());
      for (let i = 0; i < items.length; i += 2) stack.at(-1)[items[i]] = items[i + 1];
    },
  };
  const table = [];
  for (const [key, run] of Object.entries(operations)) table[isNaN(key) ? key.charCodeAt(0) : Number(key)] = run;
  for (;;) {
    const code = bytes[at++];
    if (code === '.'.charCodeAt(0)) return stack.pop();
    if (code === undefined) throw new Error('no end');
    if (!table[code]) throw new Error(`opcode ${code} is not known`);
    table[code]();
  }
}

function demand(condition, ...message) {
  if (!condition) throw new Error(message.map(part => typeof part === 'string' ? part : JSON.stringify(part)).join(' '));
}

function isNumber(value) { return typeof value === 'number' && Number.isFinite(value); }

const HIDDEN_FUNCTIONS = ['unwind::unwind', 'CapturedTraceback::gather', 'gather_with_cpp', '_start', '__libc_start_main', 'PyEval_',
  'PyObject_', 'PyFunction_'];
const HIDDEN_FILES = ['core/boxing', '/Register', '/Redispatch', 'pythonrun.c', 'Modules/main.c', 'Objects/call.c',
  'Objects/methodobject.c', 'pycore_ceval.h', 'ceval.c', 'cpython/abstract.h'];

function checkFrames(frames, seen) {
  demand(Array.isArray(frames), 'frames are no list', frames);
  if (seen.has(frames)) return;
  seen.add(frames);
  for (const frame of frames) {
    demand(typeof frame.filename === 'string' && typeof frame.name === 'string' && isNumber(frame.line), 'a frame', frame);
    demand(!HIDDEN_FUNCTIONS.some(word => frame.name.includes(word)) && !HIDDEN_FILES.some(word => frame.filename.includes(word)),
      'a frame that is hidden', frame);
  }
}

// As the viewer does first: both halves of a free become one, categories are collected.
function annotate(snapshot, seen) {
  const categories = new Set();
  snapshot.traces = snapshot.device_traces.map(trace => {
    const events = [];
    for (const event of trace) {
      demand(isNumber(event.size) && isNumber(event.stream) && isNumber(event.time_us), 'an entry', event);
      demand(isNumber(event.action === 'oom' ? event.device_free : event.addr), 'an entry without a place', event);
      if ('frames' in event) checkFrames(event.frames, seen);
      if ('category' in event) categories.add(event.category);
      const last = events.at(-1);
      if (event.action === 'free_completed' && last && last.action === 'free_requested' && last.addr === event.addr)
        last.action = 'free';
      else
        events.push({...event});
    }
    return events;
  });
  demand(categories.size === 0 || categories.has('unknown'), 'no category is "unknown"', [...categories]);
  demand(categories.size <= 10, 'more categories than colours');
  return [...categories];
}

function checkSegment(segment, devices, seen) {
  for (const key of ['device', 'address', 'total_size', 'allocated_size', 'active_size', 'requested_size', 'stream'])
    demand(isNumber(segment[key]), key, segment[key]);
  demand(segment.device < devices, 'a segment of a device without a trace');
  demand(['large', 'small'].includes(segment.segment_type) && segment.segment_pool_id.length === 2, 'a segment', segment);
  checkFrames(segment.frames, seen);
  let address = segment.address, allocated = 0, requested = 0;
  for (const block of segment.blocks) {
    demand(block.address === address, 'a gap before', block);
    demand(['active_allocated', 'inactive'].includes(block.state) && block.size > 0, 'a block', block);
    demand(block.requested_size <= block.size, 'more was asked for than was given', block);
    checkFrames(block.frames, seen);
    address += block.size;
    if (block.state === 'inactive') continue;
    allocated += block.size;
    requested += block.requested_size;
  }
  demand(address === segment.address + segment.total_size, 'blocks are not as long as their segment', segment.address);
  demand(allocated === segment.allocated_size && requested === segment.requested_size, 'sums of a segment', segment.address);
}

// "Active Memory Timeline": the highest total, and where blocks end that never began.
function timeline(snapshot, device) {
  const open = new Map(), events = snapshot.traces[device];
  let before = 0, total = 0, highest;
  const changes = [];
  for (const event of events) {
    if (event.action === 'alloc') {
      open.set(event.addr, event.size);
      changes.push(event.size);
    } else if (event.action === 'free' || event.action === 'free_completed') {
      if (!open.delete(event.addr)) before += event.size;
      changes.push(-event.size);
    }
  }
  for (const segment of snapshot.segments)
    if (segment.device === device)
      for (const block of segment.blocks)
        if (block.state === 'active_allocated' && !open.has(block.address)) before += block.requested_size;
  total = highest = before;
  for (const change of changes) highest = Math.max(highest, total += change);
  return {before, highest, end: total};
}

// "Allocator State History": from the end backwards; every block must lie in a segment that is there.
function replay(snapshot, device) {
  let segments = snapshot.segments.filter(segment => segment.device === device)
    .map(segment => ({address: segment.address, size: segment.total_size})).sort((a, b) => a.address - b.address);
  const blocks = new Map();
  const inSegment = (address, size) => segments.some(s => s.address <= address && address + size <= s.address + s.size);
  for (const segment of snapshot.segments)
    for (const block of segment.device === device ? segment.blocks : [])
      if (block.state === 'active_allocated') blocks.set(block.address, block.size);
  for (const event of snapshot.traces[device].slice().reverse()) {
    switch (event.action) {
      case 'free': case 'free_completed':
        demand(inSegment(event.addr, event.size), 'a block outside all segments', event);
        blocks.set(event.addr, event.size);
        break;
      case 'free_requested':
        throw new Error('a free that was only requested');
      case 'alloc':
        demand(inSegment(event.addr, event.size), 'a block outside all segments', event);
        blocks.delete(event.addr);
        break;
      case 'segment_free':
        segments.push({address: event.addr, size: event.size});
        break;
      case 'segment_alloc': {
        const place = segments.findIndex(segment => segment.address === event.addr);
        demand(place >= 0, 'a segment that is not there', event);
        segments.splice(place, 1);
        for (const [address] of blocks)
          demand(address < event.addr || address >= event.addr + event.size, 'a block before its segment', event);
        break;
      }
      case 'oom': case 'snapshot':
        break;
      default:
        throw new Error(`action ${event.action}`);
    }
  }
  return {segments: segments.length, blocks: blocks.size};
}

const snapshot = unpickle(fs.readFileSync(process.argv[2]));
const seen = new Set();
const categories = annotate(snapshot, seen);
for (const segment of snapshot.segments) checkSegment(segment, snapshot.device_traces.length, seen);
console.log(JSON.stringify({
  categories,
  devices: snapshot.traces.map((events, device) => ({
    events: events.length, timeline: timeline(snapshot, device), start: replay(snapshot, device),
  })),
}));
