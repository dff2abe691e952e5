// Opens each page of a directory in a browser, as its readers would, and checks what they see.
//
// Usage: node check.mjs DIRECTORY [SCREENSHOTS]. Runs beside the installed packages of package.json.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import chromium from "@sparticuz/chromium";
import axe from "axe-core";
import puppeteer from "puppeteer-core";

const [directory, screenshots] = process.argv.slice(2);
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 400, height: 800 };

const browser = await puppeteer.launch({
  executablePath: await chromium.executablePath(),
  args: [...chromium.args, "--no-sandbox"],
  headless: "shell",
});

/** Opens a page. Whatever it logs, throws or requests is a failure. */
async function open(file, viewport, scheme) {
  const page = await browser.newPage();
  const faults = [];
  const url = pathToFileURL(file).href;
  page.on("console", (message) => faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => { if (request.url() !== url) faults.push(`request: ${request.url()}`); });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport(viewport);
  await page.goto(url);
  return { page, faults };
}

/** Opens a page, runs `check` with it, and expects no fault. */
async function within(file, viewport, scheme, check) {
  const { page, faults } = await open(file, viewport, scheme);
  try {
    await check(page);
    assert.deepEqual(faults, [], `${path.basename(file)}, ${scheme}`);
    if (screenshots) {
      const name = `${path.basename(file, ".html")}-${scheme}-${viewport.width}.png`;
      await page.screenshot({ path: path.join(screenshots, name), fullPage: true });
    }
  } finally {
    await page.close();
  }
}

async function isAccessible(page, what) {
  await page.evaluate(axe.source);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join("; ")}`);
  assert.deepEqual(found, [], what);
  assert.ok(passes.length > 15, `${what}: only ${passes.length} rules apply`);
}

/** Dollars as printed, in cents. */
const cents = (text) => BigInt(text.replace(/[$,.]/g, "").replace("−", "-"));

/** What the page shows equals what its report has. */
async function showsItsReport(page) {
  const shown = await page.evaluate(() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
    const column = (id) => [...document.querySelectorAll(`section[aria-labelledby=${id}] table`)]
      .map((table) => [...table.querySelectorAll("tbody tr")].map((row) => [row.className, row.lastElementChild.textContent]));
    return {
      report: JSON.parse(document.getElementById("report").textContent),
      heading: texts("h1"),
      title: document.title,
      bill: texts(".answer .bill .figure")[0],
      first: texts(".answer .first")[0],
      lanes: document.querySelectorAll(".lane").length,
      drawn: document.querySelectorAll(".lane .plot path").length,
      advice: texts(".advice h3"),
      tables: [...column("money"), ...column("holders").slice(0, 1)],
    };
  });
  const { report } = shown;
  assert.deepEqual(shown.heading, [report.title]);
  assert.equal(shown.title, `${report.title} · Phasemeter`);
  assert.deepEqual(shown.advice, report.recommendations.map((it) => it.title));
  const [advice, waste] = [report.recommendations[0], report.uncovered_waste[0]];
  const size = ({ usd, gpu_hours: hours }) => (usd === null ? hours : Number(usd));
  // What is at stake decides which is first; a risk precedes all.
  if (waste && advice?.kind !== "risk" && !(advice && size(advice.at_stake) >= size(waste))) {
    assert.ok(shown.first.includes(`${waste.category} waste has no recommendation`), shown.first);
  } else {
    assert.equal(shown.first, advice?.title ?? "None");
  }
  const metered = report.gpus.filter((gpu) => gpu.start !== null && report.start !== report.end);
  assert.equal(shown.lanes, Math.min(metered.length, 32));
  assert.equal(shown.drawn > 0, metered.some((gpu) => gpu.timeline !== null));
  if (report.cost.total_usd === null) {
    assert.equal(shown.bill, "no price");
    return;
  }
  const [bill, printed] = [Number(report.cost.total_usd), Number(shown.bill.replace(/[$,]/g, ""))];
  assert.ok(Math.abs(bill - printed) <= Math.min(0.005, bill / 20) + 1e-9, `${shown.bill} for ${bill}`);
  // As printed, the parts of each table sum to its last row.
  for (const rows of shown.tables) {
    const parts = rows.filter(([kind]) => kind === "").map(([, amount]) => cents(amount));
    const [kind, total] = rows.at(-1);
    assert.equal(kind, "sum");
    assert.equal(parts.reduce((sum, part) => sum + part, 0n), cents(total));
  }
}

/** Zoom, the time axis and the evidence of a recommendation. */
async function responds(page) {
  const view = () => page.$eval(".lane .plot", (plot) => plot.getAttribute("viewBox").split(" ").map(Number));
  const ticks = () => page.$$eval(".axis span:not(.day)", (marks) => marks.map((mark) => mark.textContent));
  const whole = await view();
  assert.ok((await ticks()).length >= 2, "the axis has times");
  const lane = await (await page.$(".lane")).boundingBox();
  const at = (part) => [lane.x + lane.width * part, lane.y + 10];
  await page.mouse.move(...at(0.25));
  assert.match(await page.$eval(".readout", (node) => node.textContent), /\d{4} \d\d:\d\d:\d\d · .*: /);
  await page.mouse.down();
  await page.mouse.move(...at(0.75), { steps: 3 });
  await page.mouse.up();
  const half = await view();
  assert.ok(Math.abs(half[2] / whole[2] - 0.5) < 0.02 && Math.abs(half[0] / whole[2] - 0.25) < 0.02, `${half}`);
  assert.ok((await ticks()).length >= 2, "the axis has times");
  const press = (label) => page.click(`button[aria-label="${label}"]`);
  await press("Zoom in");
  assert.ok((await view())[2] < half[2]);
  await press("All of the time");
  assert.deepEqual(await view(), whole);
  const marks = () => page.$$eval(".lane .fill-evidence", (found) => found.length);
  assert.equal(await marks(), 0);
  const concerned = await page.evaluate(() => JSON.parse(document.getElementById("report").textContent).recommendations[0]?.gpus.length ?? 0);
  if (concerned > 0) {
    await page.click(".advice button");
    assert.equal(await marks(), concerned);
    await page.click(".advice button");
    assert.equal(await marks(), 0);
  }
}

/** Names stay text: no element, no attribute and no script of theirs. */
async function isHarmless(page) {
  const found = await page.evaluate(() => ({
    elements: [...document.querySelectorAll("body *")].map((node) => node.localName)
      .filter((name) => ["img", "iframe", "a", "b", "object", "link", "form", "base"].includes(name)),
    handlers: [...document.querySelectorAll("*")].flatMap((node) => node.getAttributeNames()).filter((name) => name.startsWith("on")),
    scripts: document.querySelectorAll("script").length,
    reached: globalThis.hostile ?? null,
  }));
  assert.deepEqual(found, { elements: [], handlers: [], scripts: 2, reached: null });
}

const pages = fs.readdirSync(directory).filter((name) => name.endsWith(".html")).sort();
assert.ok(pages.length >= 5, `${pages}`);
for (const name of pages) {
  const file = path.join(directory, name);
  for (const scheme of ["light", "dark"]) {
    await within(file, WIDE, scheme, async (page) => {
      await showsItsReport(page);
      await isHarmless(page);
      await isAccessible(page, `${name}, ${scheme}`);
    });
  }
  await within(file, NARROW, "light", async (page) => {
    const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(content <= view, `${name}: ${content} pixels wide in ${view}`);
    await isAccessible(page, `${name}, narrow`);
  });
  console.log(`${name}: shows its report; accessible in light, dark and narrow`);
}

for (const name of ["demo.html", "day.html"]) {
  await within(path.join(directory, name), WIDE, "light", responds);
}

// Until it is drawn: the best of three, each in a new tab.
const times = [];
for (let run = 0; run < 3; run += 1) {
  await within(path.join(directory, "day.html"), WIDE, "light", async (page) => {
    times.push(await page.evaluate(() => new Promise((resolve) => {
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
    })));
  });
}
const steps = 8 * 24 * 3600;
console.log(`8 GPUs × 24 h (${steps} seconds of GPU time): drawn ${Math.min(...times).toFixed(0)} ms after the request, file ${(fs.statSync(path.join(directory, "day.html")).size / 1024).toFixed(0)} KiB`);

// Paper: light, without tools, on few pages.
const { page } = await open(path.join(directory, "demo.html"), WIDE, "dark");
await page.emulateMediaType("print");
const printed = await page.evaluate(() => ({
  paper: getComputedStyle(document.body).backgroundColor,
  tools: getComputedStyle(document.querySelector(".tools")).display,
}));
assert.deepEqual(printed, { paper: "rgb(255, 255, 255)", tools: "none" });
const pdf = await page.pdf({ format: "A4", margin: { top: "12mm", bottom: "12mm", left: "12mm", right: "12mm" } });
const sheets = Number(/\/Count (\d+)/.exec(Buffer.from(pdf).toString("latin1"))[1]);
assert.ok(sheets <= 5, `the demo's report takes ${sheets} pages of paper`);
console.log(`print: light, ${sheets} pages of A4`);
await browser.close();
