"use strict";
// Numbers as people read them, and elements whose text is always text: nothing of a target is ever parsed as HTML.

const BYTE_UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];

function formatBytes(bytes) {
  const size = Math.abs(bytes);
  if (size < 1024)
    return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(size) / 10), BYTE_UNITS.length);
  const value = bytes / 1024 ** power;
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${BYTE_UNITS[power - 1]}`;
}

function formatChange(bytes) {
  return bytes > 0 ? `+${formatBytes(bytes)}` : bytes < 0 ? `−${formatBytes(-bytes)}` : "0";
}

function formatTime(nanoseconds) {
  const size = Math.abs(nanoseconds);
  if (size >= 1e9)
    return `${(nanoseconds / 1e9).toFixed(3)} s`;
  if (size >= 1e6)
    return `${(nanoseconds / 1e6).toFixed(2)} ms`;
  return `${(nanoseconds / 1e3).toFixed(1)} µs`;
}

function formatCount(count) {
  return count.toLocaleString("en").replaceAll(",", "\u202f");
}

function formatShare(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "";
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// The end of a path says most of it.
function shortPath(path) {
  const parts = path.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
}

function byId(id) {
  return document.getElementById(id);
}

// make("td", {class: "number", data: {value: 3}}, "text", element, …)
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "data")
      Object.assign(element.dataset, value);
    else if (name === "style")
      Object.assign(element.style, value);
    else if (value !== undefined && value !== null)
      element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function number(text, value) {
  return make("td", {class: "number", data: value === undefined ? {} : {value}}, text);
}

function code(text, title) {
  return make("span", {class: "code", title}, text);
}
