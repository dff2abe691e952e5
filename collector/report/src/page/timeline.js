// The timeline: a lane per GPU, whose columns are as high as the utilization and colored by its phase.

const PHASES = ["idle", "underutilized", "productive", "compute_bound"];
const PHASE_NAMES = { idle: "idle", underutilized: "underutilized", productive: "productive", compute_bound: "compute-bound" };

/** Lanes drawn until all are asked for. */
const LANES = 32;

/** Height of a lane, in its own units, and of its lowest column: idle time must be visible. */
const TALL = 100;
const LOWEST = 12;

const milliseconds = (text) => Date.parse(text);

/** The phase of a mean utilization in percent. */
function phaseOf(percent, thresholds) {
  return PHASES[thresholds.filter((bound) => percent >= bound).length];
}

/** The steps of a GPU in seconds since `origin`: start, end, mean in percent or null, phase. */
function stepsOf(gpu, report, origin) {
  const { timeline } = gpu;
  if (!timeline) return [];
  const begin = (milliseconds(timeline.start) - origin) / 1000;
  const [from, to] = [gpu.start, gpu.end].map((at) => (milliseconds(at) - origin) / 1000);
  const width = timeline.step_seconds;
  return timeline.utilization_percent.map((mean, index) => ({
    from: Math.max(from, begin + index * width),
    to: Math.min(to, begin + (index + 1) * width),
    mean,
    phase: mean === null ? null : phaseOf(mean, report.thresholds_percent),
  })).filter((step) => step.from < step.to);
}

/** The columns of steps as the data of a path. */
function columns(steps, heightOf) {
  let path = "";
  let open = null;
  for (const step of steps) {
    const top = (TALL - heightOf(step)).toFixed(1);
    if (open && open.top === top && Math.abs(open.to - step.from) < 1e-3) {
      open.to = step.to;
      continue;
    }
    if (open) path += `M${open.from} ${TALL}V${open.top}H${open.to}V${TALL}Z`;
    open = { from: step.from, to: step.to, top };
  }
  return open ? `${path}M${open.from} ${TALL}V${open.top}H${open.to}V${TALL}Z` : path;
}

const high = (step) => Math.max(LOWEST, step.mean);

/** The steps that a recommendation is about. */
function concerns(target, thresholds) {
  const [idle, , bound] = thresholds;
  switch (target) {
    case "idle": return (step) => step.mean !== null && step.mean < idle;
    case "starvation": return (step) => step.mean !== null && step.mean < bound;
    case "underload": return (step) => step.mean !== null && step.mean >= idle && step.mean < bound;
    default: return (step) => step.mean !== null;
  }
}

/** What those steps are, in words. */
function concernText(target, thresholds) {
  const [idle, , bound] = thresholds;
  switch (target) {
    case "idle": return `below ${idle}%`;
    case "starvation": return `below ${bound}%`;
    case "underload": return `from ${idle}% to ${bound}%`;
    default: return "observed";
  }
}

/** Whether a GPU bounces between idle and busy faster than its steps can show. */
function bouncesWithin({ pattern, timeline }) {
  return pattern?.kind === "bouncing" && timeline.step_seconds > pattern.period_seconds / 2;
}

let bands = 0;

/** Bands of idle and busy, for steps in which there is both. */
function bandsFill(svg) {
  bands += 1;
  svg.append(shape("pattern", { id: `bands-${bands}`, width: 1, height: 24, patternUnits: "userSpaceOnUse", patternTransform: "translate(0 4)" },
    shape("rect", { class: "fill-compute_bound", width: 1, height: 24 }), shape("rect", { class: "fill-idle", y: 12, width: 1, height: 12 })));
  return `url(#bands-${bands})`;
}

/** The picture of one lane: unobserved time is the hatched background, time outside of the run is blank. */
function plot(lane, extent, evidence) {
  const svg = shape("svg", { viewBox: `0 0 ${extent} ${TALL}`, preserveAspectRatio: "none", "shape-rendering": "crispEdges", "aria-hidden": "true" });
  const { steps, span } = lane;
  if (span[0] > 0) svg.append(shape("rect", { class: "paper", x: 0, y: 0, width: span[0], height: TALL }));
  if (span[1] < extent) svg.append(shape("rect", { class: "paper", x: span[1], y: 0, width: extent - span[1] + 1, height: TALL }));
  const seen = steps.filter((step) => step.mean !== null);
  if (seen.length) svg.append(shape("path", { class: "surface", d: columns(seen, () => TALL) }));
  const isBoth = (step) => lane.bounces && ["underutilized", "productive"].includes(step.phase);
  const both = seen.filter(isBoth);
  if (both.length) svg.append(shape("path", { fill: bandsFill(svg), d: columns(both, high) }));
  for (const phase of PHASES) {
    const ofPhase = seen.filter((step) => step.phase === phase && !isBoth(step));
    if (!evidence) {
      if (ofPhase.length) svg.append(shape("path", { class: `fill-${phase}`, d: columns(ofPhase, high) }));
      continue;
    }
    for (const [matches, kind] of [[true, `fill-${phase}`], [false, "fill-rest"]]) {
      const found = ofPhase.filter((step) => evidence(step) === matches);
      if (found.length) svg.append(shape("path", { class: kind, d: columns(found, high) }));
    }
  }
  return svg;
}

/** The holders of a GPU, a line each: pale until they first touched it. At most six. */
function heldLines(gpu, origin, extent) {
  const holders = (gpu.holders ?? []).slice(0, 6);
  if (!holders.length) return null;
  const svg = shape("svg", { class: "held", viewBox: `0 0 ${extent} ${holders.length * 4}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.style.height = `${holders.length * 4}px`;
  const at = (text, otherwise) => (text ? (milliseconds(text) - origin) / 1000 : otherwise);
  holders.forEach((holder, line) => {
    const [from, to] = [at(holder.start, 0), at(holder.end, at(gpu.end, extent))];
    const touched = Math.min(to, Math.max(from, at(holder.first_touch, to)));
    for (const [begin, end, kind] of [[from, touched, "fill-untouched"], [touched, to, "fill-held"]]) {
      if (begin < end) svg.append(shape("rect", { class: kind, x: begin, y: line * 4, width: end - begin, height: 3 }, shape("title", {}, holder.name)));
    }
  });
  return svg;
}

/** Distances between ticks, in seconds. */
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];

/** The timeline of a report. Zooming changes which part of each picture is shown. */
class Timeline {
  constructor(report, names) {
    this.report = report;
    this.alerts = [...(report.alerts?.continued ?? []), ...(report.alerts?.opened ?? [])];
    this.names = names;
    const spans = report.gpus.filter((gpu) => gpu.start && gpu.end);
    this.origin = Math.min(...spans.map((gpu) => milliseconds(gpu.start)));
    this.extent = (Math.max(...spans.map((gpu) => milliseconds(gpu.end))) - this.origin) / 1000;
    this.view = [0, this.extent];
    this.isEmpty = !spans.length || !(this.extent > 0);
    this.lanes = spans.map((gpu) => ({
      gpu,
      name: names.get(gpu.id),
      bounces: Boolean(gpu.timeline) && bouncesWithin(gpu),
      span: [gpu.start, gpu.end].map((at) => (milliseconds(at) - this.origin) / 1000),
    }));
    this.selected = null;
  }

  /** The section with its tools. */
  draw() {
    const title = element("h2", { id: "timeline" }, "GPUs over time");
    const section = element("section", { "aria-labelledby": "timeline" });
    if (this.isEmpty) {
      section.append(title, element("p", {}, "No time was metered."));
      return section;
    }
    const tool = (text, label, act) => {
      const made = element("button", { type: "button", "aria-label": label }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.all = tool("All", "All of the time", () => this.show(0, this.extent));
    const tools = element("div", { class: "tools", role: "group", "aria-label": "Time shown" },
      tool("←", "Earlier", () => this.move(-0.5)), tool("→", "Later", () => this.move(0.5)),
      tool("−", "Zoom out", () => this.zoom(2)), tool("+", "Zoom in", () => this.zoom(0.5)), this.all);
    section.append(element("div", { class: "titled" }, title, tools), this.legend());
    this.grid = element("div", { class: "lanes" });
    this.axis = element("div", { class: "axis" });
    this.over = element("div", { class: "over", "aria-hidden": "true" });
    section.append(this.grid);
    this.readout = element("div", { class: "readout" });
    section.append(this.readout, element("p", { class: "quiet small" }, this.explanation()));
    this.fill(LANES);
    if (this.lanes.length > LANES) {
      const more = tool(`Show all ${this.lanes.length} GPUs`, null, () => { this.fill(Infinity); more.remove(); });
      more.removeAttribute("aria-label");
      section.append(more);
    }
    this.listen();
    return section;
  }

  legend() {
    const entry = (kind, text) => element("li", {}, element("span", { class: `swatch ${kind}` }), text);
    const [idle, productive, bound] = this.report.thresholds_percent ?? [10, 70, 90];
    const holders = this.report.gpus.some((gpu) => (gpu.holders ?? []).length);
    return element("ul", { class: "legend" },
      entry("idle", `idle, below ${idle}%`), entry("underutilized", "underutilized"), entry("productive", `productive, from ${productive}%`),
      entry("compute_bound", `compute-bound, from ${bound}%`), entry("unobserved", "unobserved"),
      this.lanes.some((lane) => lane.bounces) ? entry("bands", "idle and busy within a step") : null,
      holders ? entry("holder", "holder; pale before its first touch") : null,
      this.alerts.length ? entry("alert", "alert") : null);
  }

  explanation() {
    const steps = [...new Set(this.lanes.map(({ gpu }) => gpu.timeline?.step_seconds).filter(Boolean))].sort((a, b) => a - b);
    if (!steps.length) return "The report has no utilization over time.";
    const width = steps.map(duration).join(" or ");
    return `Height: mean utilization of ${width}. Color: the phase of that mean; the sums below come from whole seconds. Times are in UTC. Drag to zoom in.`;
  }

  /** Draws the first lanes, those with the most waste if there are more. */
  fill(most) {
    const waste = ({ gpu }) => nanos(gpu.waste_usd);
    let shown = this.lanes;
    if (shown.length > most) shown = [...shown].sort((a, b) => Number(waste(b) - waste(a))).slice(0, most);
    const priced = this.report.cost.total_usd !== null;
    const head = (text, kind) => element("div", { class: `head ${kind ?? ""}` }, text);
    this.grid.replaceChildren(head(""), head(""), head("mean"), head(priced ? "cost" : "time"), head(priced ? "waste" : "", "optional"));
    this.shown = shown;
    shown.forEach((lane, index) => this.lane(lane, index + 2, priced));
    this.axis.style.setProperty("--row", String(shown.length + 2));
    this.over.style.setProperty("--row", `2 / span ${shown.length + 1}`);
    this.grid.append(this.axis, this.over);
    this.show(...this.view);
    this.select(this.selected);
  }

  lane(lane, row, priced) {
    const { gpu } = lane;
    lane.steps ??= stepsOf(gpu, this.report, this.origin);
    const names = [...new Set((gpu.holders ?? []).map((holder) => holder.name))];
    const note = names.length ? names.slice(0, 2).join(", ") + (names.length > 2 ? ` +${names.length - 2}` : "") : gpu.pattern?.kind ?? "";
    const mean = gpu.utilization.mean;
    const meanText = mean === null ? "–" : `${Math.round(mean)}%`;
    const text = `${lane.name}: mean utilization ${meanText}${gpu.pattern ? `, ${gpu.pattern.kind}` : ""}`;
    lane.plot = plot(lane, this.extent);
    lane.plot.setAttribute("class", "plot hatched");
    lane.held = heldLines(gpu, this.origin, this.extent);
    this.markAlerts(lane);
    lane.box = element("div", { class: "lane", role: "img", "aria-label": text }, lane.plot, lane.held);
    lane.box.lane = lane;
    lane.label = element("div", { class: "label", title: names.length ? names.join(", ") : null },
      element("div", { class: "name" }, lane.name), element("div", { class: "quiet small" }, note));
    const numbers = priced
      ? [dollars(gpu.cost_usd), dollars(gpu.waste_usd)]
      : [duration(gpu.span_seconds), ""];
    const cells = [lane.label, lane.box, element("div", { class: "number" }, meanText),
      element("div", { class: "number" }, numbers[0]), element("div", { class: "number optional" }, numbers[1])];
    cells.forEach((cell) => cell.style.setProperty("--row", String(row)));
    this.grid.append(...cells);
  }

  markAlerts(lane) {
    for (const alert of this.alerts) {
      if (alert.gpu !== lane.gpu.id) continue;
      const at = (text) => (milliseconds(text) - this.origin) / 1000;
      const [from, to] = [Math.max(lane.span[0], at(alert.since)), alert.closed ? at(alert.closed) : lane.span[1]];
      lane.plot.append(shape("rect", { class: "fill-alert", x: from, y: 0, width: Math.max(0, to - from), height: 9 }, shape("title", {}, alert.rule)));
    }
  }

  /** Marks the lanes and steps that a recommendation is about; null: none. */
  select(recommendation) {
    this.selected = recommendation;
    for (const lane of this.shown) {
      lane.plot.querySelectorAll(".fill-evidence").forEach((mark) => mark.remove());
      const concerned = !recommendation || recommendation.gpus.includes(lane.gpu.id);
      lane.box.classList.toggle("away", !concerned);
      if (!recommendation || !concerned) continue;
      const matches = concerns(recommendation.target, this.report.thresholds_percent);
      lane.plot.append(shape("path", { class: "fill-evidence", d: columns(lane.steps.filter(matches), () => 6) }));
    }
  }

  /** Shows a part of the time, in seconds since the first reading. */
  show(from, to) {
    const least = Math.min(this.extent, 2);
    const width = Math.max(least, Math.min(this.extent, to - from));
    const begin = Math.max(0, Math.min(this.extent - width, from));
    this.view = [begin, begin + width];
    for (const { plot: svg, held } of this.shown) {
      for (const picture of [svg, held].filter(Boolean)) {
        const height = picture.viewBox.baseVal.height;
        picture.setAttribute("viewBox", `${begin} 0 ${width} ${height}`);
      }
    }
    this.all.disabled = width >= this.extent;
    this.ticks();
  }

  zoom(factor) {
    const [from, to] = this.view;
    const [middle, half] = [(from + to) / 2, ((to - from) / 2) * factor];
    this.show(middle - half, middle + half);
  }

  move(part) {
    const [from, to] = this.view;
    const by = (to - from) * part;
    this.show(from + by, to + by);
  }

  ticks() {
    const [from, to] = this.view;
    const room = Math.max(2, Math.floor((this.axis.clientWidth || 900) / 90));
    const every = TICKS.find((tick) => (to - from) / tick <= room) ?? TICKS.at(-1);
    const start = this.origin / 1000;
    const marks = [];
    const lines = [];
    let lastDay = null;
    const place = (node, at) => { node.style.left = `${((at - from) / (to - from)) * 100}%`; return node; };
    for (let at = Math.ceil((start + from) / every) * every; at <= start + to; at += every) {
      const since = at - start;
      lines.push(place(element("i"), since));
      const part = (since - from) / (to - from);
      if (part > 0.03 && part < 0.97) marks.push(place(element("span", {}, every < 86400 ? clock(at * 1000, every < 60) : day(at * 1000)), since));
      const today = day(at * 1000);
      if (every < 86400 && today !== lastDay && lastDay !== null) marks.push(place(element("span", { class: "day" }, today), since));
      lastDay = today;
    }
    if (every < 86400) marks.unshift(place(element("span", { class: "day" }, day((start + from) * 1000)), from));
    this.axis.replaceChildren(...marks);
    this.cursor = element("i", { class: "cursor" });
    this.cursor.hidden = true;
    this.over.replaceChildren(...lines, this.cursor);
  }

  listen() {
    let begun = null;
    const range = element("i", { class: "range" });
    const second = (event, box) => {
      const { left, width } = box.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - left) / width));
      return this.view[0] + part * (this.view[1] - this.view[0]);
    };
    const percent = (at) => ((at - this.view[0]) / (this.view[1] - this.view[0])) * 100;
    this.grid.addEventListener("pointerdown", (event) => {
      const box = event.target.closest(".lane");
      if (!box || event.button !== 0 || event.pointerType === "touch") return;
      event.preventDefault();
      begun = { box, at: second(event, box) };
      this.grid.setPointerCapture(event.pointerId);
      this.over.append(range);
    });
    this.grid.addEventListener("pointermove", (event) => {
      const box = begun?.box ?? event.target.closest?.(".lane");
      if (!box) return;
      const at = second(event, box);
      this.cursor.hidden = false;
      this.cursor.style.left = `${percent(at)}%`;
      this.readout.textContent = this.describe(box.lane, at);
      if (begun) {
        const [low, top] = [Math.min(begun.at, at), Math.max(begun.at, at)];
        range.style.left = `${percent(low)}%`;
        range.style.width = `${percent(top) - percent(low)}%`;
      }
    });
    const end = (event) => {
      if (!begun) return;
      const at = second(event, begun.box);
      const [low, top] = [Math.min(begun.at, at), Math.max(begun.at, at)];
      range.remove();
      begun = null;
      if (percent(top) - percent(low) > 0.7) this.show(low, top);
    };
    this.grid.addEventListener("pointerup", end);
    this.grid.addEventListener("pointercancel", () => { range.remove(); begun = null; });
    this.grid.addEventListener("pointerleave", () => { this.cursor.hidden = true; this.readout.textContent = ""; });
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(this.axis.clientWidth - width) > 1) { width = this.axis.clientWidth; this.ticks(); }
    }).observe(this.axis);
  }

  /** What was at an instant. */
  describe({ gpu, name, steps, span, bounces }, at) {
    const when = instant(this.origin + at * 1000);
    if (at < span[0] || at > span[1]) return `${when} · ${name}: not metered`;
    const step = steps.find(({ from, to }) => at >= from && at < to);
    const state = !step || step.mean === null ? "unobserved" : `${step.mean.toFixed(1)}%, ${bounces ? "bouncing" : PHASE_NAMES[step.phase]}`;
    const absolute = this.origin + at * 1000;
    const held = (gpu.holders ?? []).filter(({ start, end }) => milliseconds(start) <= absolute && (!end || absolute < milliseconds(end)));
    const holders = held.length ? ` · held by ${held.map((holder) => holder.name).join(", ")}` : "";
    return `${when} · ${name}: ${state}${holders}`;
  }
}
