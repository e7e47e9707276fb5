// Shares of a whole as areas: rows of rectangles, each as near to a square as the next one allows.

const TREEMAP_SHOWN = 40;

// [{bytes}] by falling size into {left, top, width, height} in shares of the whole.
function treemapBoxes(items) {
  const whole = items.reduce((sum, item) => sum + item.bytes, 0), boxes = [];
  let left = 0, top = 0, width = 1, height = 1, at = 0, rest = whole;
  const aspect = 4; // of the element: its width to its height
  while (at < items.length && rest > 0) {
    const upright = width * aspect > height, side = upright ? height : width * aspect, area = (sum) => sum / rest * width * aspect * height;
    let end = at, sum = 0, worst = Infinity;
    while (end < items.length) {
      const next = sum + items[end].bytes, depth = area(next) / side;
      const shapes = [items[at], items[end]].map((item) => area(item.bytes) / depth / depth).map((ratio) => Math.max(ratio, 1 / ratio));
      if (Math.max(...shapes) > worst)
        break;
      worst = Math.max(...shapes);
      sum = next;
      end++;
    }
    const share = sum / rest;
    let offset = 0;
    for (; at < end; at++) {
      const part = items[at].bytes / sum;
      boxes.push(upright ? {left, top: top + offset * height, width: width * share, height: part * height}
        : {left: left + offset * width, top, width: part * width, height: height * share});
      offset += part;
    }
    if (upright) {
      left += width * share;
      width *= 1 - share;
    } else {
      top += height * share;
      height *= 1 - share;
    }
    rest -= sum;
  }
  return boxes;
}

// items: {name, bytes, choose}, by falling size.
function drawTreemap(items) {
  const shown = items.slice(0, TREEMAP_SHOWN), rest = items.slice(TREEMAP_SHOWN).reduce((sum, item) => sum + item.bytes, 0);
  if (rest > 0)
    shown.push({name: `${items.length - TREEMAP_SHOWN} others`, bytes: rest, choose: null});
  const boxes = treemapBoxes(shown), percent = (share) => `${100 * share}%`;
  byId("treemap").replaceChildren(...boxes.map((box, place) => {
    const item = shown[place], text = box.width > 0.05 && box.height > 0.07 ? isLineKind(instantPart.kind) ? shortPath(item.name) : item.name : "";
    const button = make("button", {type: "button", title: `${item.name}: ${formatBytes(item.bytes)}`, "aria-label": `${item.name}, ${formatBytes(item.bytes)}`,
      style: {left: percent(box.left), top: percent(box.top), width: percent(box.width), height: percent(box.height),
        background: item.color || (item.choose ? COLORS[place % COLORS.length] : OTHER_COLOR)}}, text);
    if (text && box.height > 0.16)
      button.append(make("span", {}, formatBytes(item.bytes)));
    if (item.choose)
      button.addEventListener("click", item.choose);
    return button;
  }));
}
