"use strict";
// Elements, and numbers as text. Nothing of a report becomes markup: all of it is set as text.

/** An element with attributes and children; texts are text nodes. Null children are left out. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** An element of SVG. */
function shape(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Dollars as nano-dollars, exactly; zero if unknown. */
function nanos(usd) {
  const parts = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(usd ?? "0");
  if (!parts) return 0n;
  const value = BigInt(parts[2]) * 1000000000n + BigInt((parts[3] ?? "").padEnd(9, "0"));
  return parts[1] ? -value : value;
}

const CENT = 10000000n;

/** Nano-dollars in whole cents, rounded to nearest. */
function cents(value) {
  return value < 0n ? -((-value + CENT / 2n) / CENT) : (value + CENT / 2n) / CENT;
}

/** Cents as dollars. */
function centsText(value) {
  const size = value < 0n ? -value : value;
  const whole = (size / 100n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return `${value < 0n ? "−" : ""}$${whole}.${(size % 100n).toString().padStart(2, "0")}`;
}

/** An amount that stands alone. Of less than a cent, the first digits that are not zero. */
function dollars(usd) {
  if (usd === null || usd === undefined) return "–";
  const exact = nanos(usd);
  if (exact > 0n && exact < CENT) return `$${Number(usd).toPrecision(2).includes("e") ? usd : Number(usd).toPrecision(2)}`;
  return centsText(cents(exact));
}

/** Parts, in nano-dollars, in cents that sum to a total in cents: by largest remainder. */
function split(total, parts) {
  const floors = parts.map((part) => part / CENT);
  let left = total - floors.reduce((sum, floor) => sum + floor, 0n);
  const order = parts.map((_, index) => index).sort((a, b) => Number((parts[b] % CENT) - (parts[a] % CENT)));
  for (const index of order) {
    if (left <= 0n) break;
    floors[index] += 1n;
    left -= 1n;
  }
  return floors;
}

/** A part of a whole in percent, to 0.1. */
function share(part, whole) {
  return whole > 0n ? `${(Number((part * 10000n) / whole) / 100).toFixed(1)}%` : "–";
}

/** Seconds as at most two units. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => seconds >= size);
  const [size, name] = units[first];
  const [next, nextName] = units[first + 1];
  let whole = Math.floor(seconds / size);
  let rest = Math.round((seconds % size) / next);
  if (rest * next >= size) [whole, rest] = [whole + 1, 0];
  return rest ? `${whole} ${name} ${rest} ${nextName}` : `${whole} ${name}`;
}

/** A number to three significant digits, with separators. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const rounded = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3));
  return rounded.toLocaleString("en-US", { maximumFractionDigits: 9 });
}

/** Names of evidence that are parts of a whole. */
const PARTS = /(share|share_of_bill|share_of_time|busy|utilization|p50|p95|fraction)$/;

/** A value with its unit in UCUM. */
function measured(name, { value, unit }) {
  if (unit === "1" && value <= 1 && PARTS.test(name)) return `${(value * 100).toFixed(1)}%`;
  if (unit === "By") return `${number(value / 2 ** 30)} GiB`;
  if (unit === "s") return duration(value);
  return unit === "1" ? number(value) : `${number(value)} ${unit.replace(/[{}]/g, "")}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value) => String(value).padStart(2, "0");

/** Day of an instant in milliseconds, in UTC. */
function day(at) {
  const date = new Date(at);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

/** Time of day in UTC. */
function clock(at, withSeconds = true) {
  const date = new Date(at);
  const minutes = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  return withSeconds ? `${minutes}:${two(date.getUTCSeconds())}` : minutes;
}

/** Day and time. */
const instant = (at) => `${day(at)} ${clock(at)}`;

/** A table. Columns: title and whether of numbers; a row: its cells and its class. */
function table(caption, columns, rows) {
  const cell = (text, index) => index === 0
    ? element("th", { scope: "row" }, text)
    : element("td", { class: columns[index][1] ? "n" : "wrap" }, text);
  const head = columns.map(([title, numeric]) => element("th", { scope: "col", class: numeric ? "n" : null }, title));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, head)),
      element("tbody", {}, rows.map(({ cells, kind }) => element("tr", { class: kind ?? null }, cells.map(cell))))));
}
