"use strict";

// Elements, numbers in readable form, and the data in the page. Text from the data is never parsed as HTML.

const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const element = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// The recipe of a run, its parameters, and its sink.
function showRun({ recipe, parameters, sink }) {
  const more = sink && sink !== "files" ? { ...parameters, sink } : parameters;
  $("ran").replaceChildren(el("b", {}, recipe || "run"), ...Object.entries(more).map(([name, value]) => el("span", {}, `${name} `, el("b", {}, value))));
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const count = (number, noun) => `${plain.format(number)} ${noun}${number === 1 ? "" : "s"}`;
const fixed = (number, digits) => (number === null || number === undefined ? "" : minus(number.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1")));

const minus = (text) => text.replace("-", "\u2212");

function bytes(size) {
  for (const unit of ["bytes", "kB", "MB", "GB", "TB"]) {
    if (size < 999.5 || unit === "TB") return unit === "bytes" ? count(Math.round(size), "byte") : `${plain.format(size < 999.5 ? Number(size.toPrecision(3)) : Math.round(size))} ${unit}`;
    size /= 1000;
  }
}

function clock(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds === 0) return "0 s";
  if (seconds < 0.1) return `${Number((1000 * seconds).toPrecision(2))} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${plain.format(hours)}:${String(minutes).padStart(2, "0")}:${rest} h` : `${minutes}:${rest} min`;
}

// Shorter than clock, for where there is little room.
const brief = (seconds) => (seconds < 3600 ? clock(seconds) : `${plain.format(Number((seconds / 3600).toPrecision(3)))} h`);

// All digits, except for large numbers.
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 12 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const tick = (number) => minus((Math.abs(number) >= 1e5 ? compact : exact).format(Number(number.toPrecision(12))));

function withUnit(number, unit) {
  if (unit === "bytes") return bytes(number);
  if (unit === "s") return clock(number);
  const text = minus(exact.format(Math.abs(number) >= 100 ? Math.round(number) : Number(number.toPrecision(3))));
  return unit ? `${text} ${unit}` : text;
}

// Lone surrogates stand for bytes of file names that are not UTF-8.
function encoded(path) {
  return path.split("/").map((part) => {
    let text = "";
    for (const sign of part) {
      const code = sign.codePointAt(0);
      if (code >= 0xdc80 && code <= 0xdcff) text += `%${(code - 0xdc00).toString(16)}`;
      else text += code >= 0xd800 && code <= 0xdfff ? "%EF%BF%BD" : encodeURIComponent(sign);
    }
    return text;
  }).join("/");
}

function bytesOf(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
  return found;
}

async function inflated(id) {
  const stream = new Blob([bytesOf($(id).textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// As in splitter/report/table.py, which cuts longer texts.
const LONGEST_TEXT = 1000;

class Column {
  constructor({ name, dataset, number, cells }) {
    Object.assign(this, { name, dataset, number });
    this.codes = cells.codes || null;
    this.values = Array.isArray(cells) ? cells : cells.values;
  }

  // Whether it has texts that were cut.
  get isCut() {
    return this.values.some((value) => typeof value === "string" && value.length > LONGEST_TEXT && value.endsWith("…"));
  }

  at(row) {
    return this.values[this.codes ? this.codes[row] : row];
  }

  text(row) {
    const value = this.at(row);
    return value === null || value === undefined ? "" : String(value);
  }

  // Ask a question about each value only once, and return the answer for any row.
  each(question) {
    const answers = this.values.map(question);
    return this.codes ? (row) => answers[this.codes[row]] : (row) => answers[row];
  }
}

const OUTPUT = 0, SKIPPED = 2, FAILED = 3;

class Rows {
  constructor(data, waves, points) {
    Object.assign(this, { count: data.count, state: data.state, texts: data.texts, unread: data.unread, sources: data.sources, causes: data.causes });
    this.columns = data.columns.map((column) => new Column(column));
    this.byName = new Map(this.columns.map((column) => [column.name, column]));
    for (const [name, cells] of Object.entries(data.levels)) {
      this.byName.set(`#${name}`, new Column({ name: `#${name}`, number: true, cells }));
    }
    this.message = new Column({ name: "message", cells: data.message });
    this.errors = new Column({ name: "error", cells: data.errors });
    this.output = this.byName.get("output");
    this.input = this.byName.get(data.listed);
    this.waves = new Int8Array(waves);
    this.points = points;
    this.waveOf = new Map(data.measured.map((row, number) => [row, number]));
    this.firstFailure = data.count - data.causes.length;
  }

  level(name, row) {
    return this.byName.get(`#${name}`).at(row) ?? null;
  }

  value(name, row) {
    const column = this.byName.get(name);
    return column ? column.at(row) ?? null : null;
  }

  wave(row) {
    const number = this.waveOf.get(row);
    if (number === undefined) return null;
    return this.waves.subarray(number * 2 * this.points, (number + 1) * 2 * this.points);
  }

  name(row) {
    return this.output.text(row) || this.input.text(row);
  }

  sameInput(row) {
    if (!this.groups) {
      this.groups = new Map();
      for (let other = 0; other < this.count; other++) {
        const key = this.input.text(other);
        if (!this.groups.has(key)) this.groups.set(key, []);
        this.groups.get(key).push(other);
      }
    }
    return this.groups.get(this.input.text(row));
  }

  // Where a row begins and ends in its recording, in seconds.
  span(row) {
    this.starts ??= this.numbers("start_seconds");
    this.ends ??= this.numbers("end_seconds");
    return this.starts[row] <= this.ends[row] ? [this.starts[row], this.ends[row]] : null;
  }

  numbers(name) {
    return Float64Array.from({ length: this.count }, (_, row) => Number(this.value(name, row) ?? NaN));
  }
}

const isImage = (name) => /\.(png|jpe?g|gif|webp|avif|svg|bmp)$/i.test(name);

// The recipes for sound put several labels into one cell, separated by |, with a backslash before each | inside a label.
// The backslashes of a label before any | are doubled.
const hasSeveral = (column) => /^(from_)*labels$/.test(column);

const halved = (backslashes) => backslashes.slice(backslashes.length / 2);
const shownLabel = (text) => text.replace(/(\\*)\|/g, (_, backslashes) => `${halved(backslashes.slice(1))}|`);

function labelsIn(column, text) {
  if (!hasSeveral(column)) return [text];
  const cells = text.split(/(?<=(?<!\\)(?:\\\\)*)\|/), last = cells.pop();
  return [...cells.map((one) => one.replace(/\\+$/, halved)), last].map(shownLabel);
}
