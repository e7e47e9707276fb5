// The data elements: base64 of deflated bytes; columns are planes of bytes, the lowest first (docs/report-format.md).

const PAGE_VERSION = 1;

function base64Bytes(text) {
  if (Uint8Array.fromBase64)
    return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++)
    bytes[index] = binary.charCodeAt(index);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Each is read once: its text is dropped, since it is as large as what comes out of it.
async function takeElement(scope, name) {
  const element = document.querySelector(`script[data-scope="${scope}"][data-name="${name}"]`);
  if (!element)
    throw new Error(`the page has no ${name} of ${scope}`);
  const {count, bytes, coding} = element.dataset;
  const text = element.textContent;
  element.remove();
  return {count: Number(count), width: Number(bytes), coding, bytes: await inflate(base64Bytes(text))};
}

async function readText(scope, name) {
  const piece = await takeElement(scope, name);
  return new TextDecoder().decode(piece.bytes);
}

// Up to four planes: whole numbers of 32 bits.
function joinNarrow(bytes, count, width) {
  const values = new Uint32Array(count);
  for (let plane = 0; plane < width; plane++) {
    const at = plane * count, shift = 8 * plane;
    for (let index = 0; index < count; index++)
      values[index] |= bytes[at + index] << shift;
  }
  return values;
}

// More: doubles, exact to 2^53.
function joinWide(bytes, count, width) {
  const values = new Float64Array(count);
  for (let plane = width - 1; plane >= 0; plane--) {
    const at = plane * count;
    for (let index = 0; index < count; index++)
      values[index] = values[index] * 256 + bytes[at + index];
  }
  return values;
}

// Differences with the sign in the lowest bit; sums need not fit where differences do.
function undoDelta(coded) {
  const values = new Float64Array(coded.length);
  let value = 0;
  for (let index = 0; index < coded.length; index++) {
    const half = Math.floor(coded[index] / 2);
    value += coded[index] % 2 ? -half - 1 : half;
    values[index] = value;
  }
  return values;
}

async function readColumn(scope, name) {
  const {count, width, coding, bytes} = await takeElement(scope, name);
  const values = width <= 4 ? joinNarrow(bytes, count, width) : joinWide(bytes, count, width);
  return coding === "delta" ? undoDelta(values) : values;
}

function columnsOf(scope, prefix) {
  return [...document.querySelectorAll(`script[data-scope="${scope}"][data-name^="${prefix}."]`)]
    .map((element) => element.dataset.name);
}

// {column: values} of one table; what was read before stays.
async function readTable(scope, prefix) {
  const table = {}, names = columnsOf(scope, prefix);
  const columns = await Promise.all(names.map((name) => readColumn(scope, name)));
  names.forEach((name, index) => { table[name.slice(prefix.length + 1)] = columns[index]; });
  return table;
}
