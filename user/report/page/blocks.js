// Blocks as rectangles. Pixels are set by hand, and beside each stands whose it is: a million blocks take some
// milliseconds, most of them being less than a pixel, and what lies under the pointer is one look.

const PLOT = {top: 4, bottom: 6};
// While the view moves, of so many thin blocks only every few are drawn; all of them as soon as it stands still.
const MOVING = {blocks: 2e5, stride: 5, pause: 150};
const LABEL = {width: 90, height: 15, most: 200};
const picture = {moving: 0, labels: [], image: null, ids: null, width: 0, height: 0, scale: 1, hover: 0, drag: null, frame: null};

function packColor(color) {
  const value = parseInt(color.slice(1), 16);
  return (255 << 24 | (value & 255) << 16 | (value >> 8 & 255) << 8 | value >> 16) >>> 0;
}

function darker(packed) {
  const part = (shift) => Math.floor((packed >>> shift & 255) * 0.72) << shift;
  return (255 << 24 | part(16) | part(8) | part(0)) >>> 0;
}

// Blocks in pixels of the plot: those that cover the middle of one are filled, thinner ones take what is still empty.
class Raster {
  constructor(width, height, ids, pixels) {
    Object.assign(this, {width, height, ids, pixels});
  }

  fill(id, color, edge, left, right, top, bottom) {
    const {width, ids, pixels} = this, framed = right - left > 3 && bottom - top > 3;
    for (let y = top; y < bottom; y++) {
      const row = y * width;
      pixels.fill(framed && y === top ? edge : color, row + left, row + right);
      ids.fill(id, row + left, row + right);
      if (framed)
        pixels[row + right - 1] = edge;
    }
  }

  // When its ends and its middle are taken, so is the rest, most likely: not worth a walk.
  fillEmpty(id, color, left, right, top, bottom) {
    const {width, ids, pixels} = this, middle = (top + bottom) >> 1;
    if (right - left === 1 && ids[top * width + left] && ids[middle * width + left] && ids[(bottom - 1) * width + left])
      return;
    for (let y = top; y < bottom; y++) {
      for (let at = y * width + left; at < y * width + right; at++) {
        if (ids[at])
          continue;
        ids[at] = id;
        pixels[at] = color;
      }
    }
  }
}

// As with the chart: the rectangles apart from what a moving pointer changes.
function fillBlocks() {
  if (!view.groups)
    return;
  const frame = canvasOpen(byId("blocks")), {scale} = frame;
  const width = Math.max(1, Math.floor(frame.inner * scale)), height = Math.max(1, Math.floor((frame.height - PLOT.top - PLOT.bottom) * scale));
  const image = frame.context.createImageData(width, height);
  const ids = new Int32Array(width * height), pixels = new Uint32Array(image.data.buffer);
  Object.assign(picture, {image, ids, width, height, scale});
  rasterize(new Raster(width, height, ids, pixels));
  paintGround(pixels, ids);
}

function drawBlocks() {
  if (!view.groups)
    return;
  const frame = canvasOpen(byId("blocks")), {scale} = frame;
  picture.frame = frame;
  drawByteAxis(frame, view.low, view.high, PLOT.top, frame.height - PLOT.bottom);
  frame.context.putImageData(picture.image, Math.round(MARGIN.left * scale), Math.round(PLOT.top * scale));
  drawLabels(frame);
  drawBlockMarks(frame);
}

// What a block is, where there is room: its owner, else its operator and line.
function drawLabels(frame) {
  const {context, width} = frame;
  context.save();
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = "#101418";
  for (const index of picture.labels) {
    const box = blockBox(index, frame), left = Math.max(box.left, MARGIN.left), top = Math.max(box.top, PLOT.top);
    const right = Math.min(box.right, width - MARGIN.right), bottom = Math.min(box.bottom, frame.height - PLOT.bottom);
    context.save();
    context.beginPath();
    context.rect(left, top, right - left - 4, bottom - top);
    context.clip();
    context.fillText(blockName(view.rank, index), left + 5, (top + bottom) / 2);
    context.restore();
  }
  context.restore();
}

function paintGround(pixels, ids) {
  const ground = packColor(themeColor("card"));
  for (let at = 0; at < pixels.length; at++)
    if (!ids[at])
      pixels[at] = ground;
}

// Whole pixels from a place up to a limit, and none below the first.
function toPixel(place, limit) {
  return place <= 0 ? 0 : place >= limit ? limit : (place + 0.5) | 0;
}

function rasterize(raster) {
  const {rank, timeline, groups, shown, axis} = view, {width, height} = raster, {of} = groups, {from, low} = view;
  const starts = axis === "time" ? rank.block.start_time : rank.from, ends = axis === "time" ? rank.endTime : rank.until;
  const across = width / (view.to - from), up = height / (view.high - low), {place} = rank.block, {held} = rank;
  const colors = groups.colors.map(packColor), edges = colors.map(darker), faint = packColor(themeColor("line"));
  const labelWidth = LABEL.width * picture.scale, labelHeight = LABEL.height * picture.scale;
  const visible = timeline.visible(from, view.to, axis), count = visible.length;
  const thin = new Uint32Array(count), faintThin = new Uint32Array(shown ? count : 0);
  let drawn = 0, thinCount = 0, faintCount = 0;
  picture.labels = [];
  for (let at = 0; at < count; at++) {
    const index = visible[at], left = (starts[index] - from) * across, right = (ends[index] - from) * across;
    const bottom = height - (place[index] - low) * up, top = bottom - held[index] * up;
    if (right < 0 || left > width || bottom < 0 || top > height)
      continue;
    drawn++;
    const x0 = toPixel(left, width), x1 = toPixel(right, width), y0 = toPixel(top, height), y1 = toPixel(bottom, height);
    const matches = !shown || shown[index] === 1;
    if (x0 >= x1 || y0 >= y1) {
      if (matches)
        thin[thinCount++] = index;
      else
        faintThin[faintCount++] = index;
      continue;
    }
    raster.fill(index + 1, matches ? colors[of[index]] : faint, matches ? edges[of[index]] : faint, x0, x1, y0, y1);
    if (matches && x1 - x0 > labelWidth && y1 - y0 > labelHeight && picture.labels.length < LABEL.most)
      picture.labels.push(index);
  }
  const stride = picture.moving && count > MOVING.blocks ? MOVING.stride : 1;
  const fillThin = (list, length, color) => {
    for (let at = 0; at < length; at += stride) {
      const index = list[at], left = (starts[index] - from) * across, right = (ends[index] - from) * across;
      const bottom = height - (place[index] - low) * up, top = bottom - held[index] * up;
      const x0 = left <= 0 ? 0 : Math.min(width - 1, left | 0), x1 = Math.max(x0 + 1, toPixel(right, width));
      const y1 = Math.max(1, Math.min(height, Math.ceil(bottom))), y0 = Math.min(y1 - 1, toPixel(top, height));
      raster.fillEmpty(index + 1, color === null ? colors[of[index]] : color, x0, x1, y0, y1);
    }
  };
  fillThin(thin, thinCount, null);
  fillThin(faintThin, faintCount, faint);
  byId("blocks").dataset.drawn = drawn;
}

function blockBox(index, frame) {
  const {rank, axis} = view, starts = axis === "time" ? rank.block.start_time : rank.from, ends = axis === "time" ? rank.endTime : rank.until;
  const left = toX(starts[index], frame.inner), right = Math.min(toX(ends[index], frame.inner), frame.width - MARGIN.right + 2);
  const span = frame.height - PLOT.top - PLOT.bottom, up = span / (view.high - view.low);
  const bottom = PLOT.top + span - (rank.block.place[index] - view.low) * up;
  return {left: Math.max(left, MARGIN.left - 2), right, top: bottom - rank.held[index] * up, bottom};
}

function drawBlockMarks(frame) {
  const {context, inner, width, height} = frame;
  context.save();
  context.beginPath();
  context.rect(MARGIN.left - 2, 0, inner + 4, height);
  context.clip();
  for (const instant of view.instants) {
    if (instant === null)
      continue;
    const x = Math.round(toX(view.timeline.coordinateOf(instant, view.axis), inner)) + 0.5;
    context.strokeStyle = themeColor("text");
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
  }
  context.setLineDash([]);
  for (const [index, line] of [[picture.hover - 1, 1], [view.pinned ?? -1, 2]]) {
    if (index < 0)
      continue;
    const box = blockBox(index, frame);
    context.strokeStyle = themeColor("text");
    context.lineWidth = line;
    context.strokeRect(box.left, box.top, Math.max(box.right - box.left, 2), Math.max(box.bottom - box.top, 2));
  }
  context.restore();
}

// The block under the pointer, or one beside it: thin ones are hard to meet.
function blockAt(event) {
  const {ids, width, height, scale} = picture;
  if (!ids)
    return 0;
  const x = Math.floor((event.offsetX - MARGIN.left) * scale), y = Math.floor((event.offsetY - PLOT.top) * scale);
  for (const [right, down] of [[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [2, 0], [-2, 0], [0, 2], [0, -2]]) {
    const at = x + right, row = y + down;
    if (at >= 0 && at < width && row >= 0 && row < height && ids[row * width + at])
      return ids[row * width + at];
  }
  return 0;
}

// --- pointer and keys ---------------------------------------------------------------------

function blocksEvents() {
  const canvas = byId("blocks");
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    picture.drag = {x: event.offsetX, y: event.offsetY, from: view.from, to: view.to, low: view.low, high: view.high, moved: false};
  });
  canvas.addEventListener("pointermove", blocksMove);
  canvas.addEventListener("pointerleave", () => {
    picture.hover = 0;
    tipHide();
    change("pointer");
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = picture.drag;
    picture.drag = null;
    if (drag && !drag.moved)
      pin(blockAt(event) - 1);
  });
  canvas.addEventListener("dblclick", viewReset);
  canvas.addEventListener("wheel", blocksWheel, {passive: false});
  canvas.addEventListener("keydown", blocksKeys);
}

function blocksMove(event) {
  const {drag, frame} = picture;
  if (drag && frame) {
    const right = event.offsetX - drag.x, down = event.offsetY - drag.y;
    drag.moved ||= Math.abs(right) + Math.abs(down) > 4;
    if (!drag.moved)
      return;
    moving();
    const time = right / frame.inner * (drag.to - drag.from);
    const bytes = down / (frame.height - PLOT.top - PLOT.bottom) * (drag.high - drag.low);
    viewRange(drag.from - time, drag.to - time);
    viewBytes(drag.low + bytes, drag.high + bytes);
    return;
  }
  const block = blockAt(event);
  if (block)
    tipShow(event, ...blockTip(block - 1));
  else
    tipHide();
  if (block !== picture.hover) {
    picture.hover = block;
    byId("blocks").dataset.hover = block - 1;
    change("pointer");
  }
}

function moving() {
  clearTimeout(picture.moving);
  picture.moving = setTimeout(() => {
    picture.moving = 0;
    change("range");
  }, MOVING.pause);
}

// The page scrolls over a picture that nobody has chosen yet.
function blocksWheel(event) {
  const canvas = byId("blocks");
  if (document.activeElement !== canvas && !event.ctrlKey)
    return;
  event.preventDefault();
  moving();
  const factor = 1.0015 ** (event.deltaY || event.deltaX), span = picture.frame.height - PLOT.top - PLOT.bottom;
  const center = view.low + (span - event.offsetY + PLOT.top) / span * (view.high - view.low);
  if (!event.shiftKey)
    viewZoom(factor, fromX(event.offsetX, picture.frame.inner));
  viewBytes(center - (center - view.low) * factor, center + (view.high - center) * factor);
}

function blocksKeys(event) {
  const move = (view.high - view.low) * 0.2;
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    event.preventDefault();
    viewBytes(view.low + (event.key === "ArrowUp" ? move : -move), view.high + (event.key === "ArrowUp" ? move : -move));
  } else if (event.key === "n" || event.key === "p") {
    pinNext(event.key === "n" ? 1 : -1);
  } else {
    rangeKeys(event);
  }
}

// Through the blocks that are in view and found, largest first.
function pinNext(direction) {
  const {rank, shown, timeline, axis} = view;
  const starts = axis === "time" ? rank.block.start_time : rank.from, ends = axis === "time" ? rank.endTime : rank.until;
  const list = [...timeline.mine].filter((index) => (!shown || shown[index]) && starts[index] <= view.to && ends[index] >= view.from)
    .sort((a, b) => rank.held[b] - rank.held[a] || a - b);
  if (!list.length)
    return;
  const at = list.indexOf(view.pinned);
  pin(list[(at + direction + list.length) % list.length]);
}
