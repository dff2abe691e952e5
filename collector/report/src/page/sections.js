// The sections of the page, in order. Each returns null if the report has nothing for it.

const CATEGORY_NAMES = { starvation: "starvation", idle: "idleness", underload: "underload" };

/** Names of GPUs: their index, with the node if there are several; else the ID. */
function gpuNames(gpus) {
  const isNode = new Set(gpus.map((gpu) => gpu.node)).size > 1;
  const name = (gpu) => (gpu.index === null ? gpu.id : `${isNode && gpu.node ? `${gpu.node} ` : ""}GPU ${gpu.index}`);
  const counts = new Map();
  for (const gpu of gpus) counts.set(name(gpu), (counts.get(name(gpu)) ?? 0) + 1);
  return new Map(gpus.map((gpu) => [gpu.id, counts.get(name(gpu)) > 1 ? `${name(gpu)}, ${gpu.id}` : name(gpu)]));
}

/** These GPUs in words. */
function which(ids, names) {
  if (ids.length > 1 && ids.length === names.size) return ids.length === 2 ? "both GPUs" : `all ${ids.length} GPUs`;
  const listed = ids.slice(0, 6).map((id) => names.get(id) ?? id).join(", ");
  return ids.length > 6 ? `${listed} and ${ids.length - 6} more` : listed;
}

const section = (id, title, ...children) =>
  element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);

function head(report) {
  const models = new Map();
  for (const gpu of report.gpus) models.set(gpu.model ?? "GPU of unknown model", (models.get(gpu.model ?? "GPU of unknown model") ?? 0) + 1);
  const what = [...models].map(([model, count]) => `${count} × ${model}`).join(" + ") || "no GPUs";
  const range = report.start ? ` · ${instant(milliseconds(report.start))} – ${rangeEnd(report)} UTC` : "";
  return element("header", {}, element("h1", {}, report.title), element("p", { class: "quiet" }, what + range),
    report.warnings.map((warning) => element("p", { class: "warning" }, `Warning: ${warning}`)));
}

function rangeEnd({ start, end }) {
  const [from, to] = [milliseconds(start), milliseconds(end)];
  return day(from) === day(to) ? clock(to) : instant(to);
}

/** The answer: what it cost, what was wasted, what to do first. */
function answer(report, names) {
  const { cost } = report;
  const entry = (kind, term, figure, size, note) =>
    element("div", { class: kind }, element("dt", {}, term), element("dd", { class: size }, figure), element("dd", { class: "quiet small" }, note));
  const isEstimate = report.gpus.some((gpu) => gpu.price?.estimate);
  const range = cost.total_range_usd;
  const rangeText = range ? `estimated; ${dollars(range.low)} to ${dollars(range.high)} at other list prices` : isEstimate ? "estimated" : null;
  const hours = `${number(cost.gpu_hours)} GPU-hours`;
  const priced = cost.total_usd !== null;
  const bill = priced
    ? entry("bill", "Bill", dollars(cost.total_usd), "figure", [hours, rangeText].filter(Boolean).join(" · "))
    : entry("bill", "Bill", "no price", "figure", `${hours} · ${cost.unpriced_reason ?? "no GPU has a price"}`);
  const { waste_coverage: covered } = report;
  const parts = covered ? ` · ${dollars(covered.advised_usd)} advised, ${dollars(covered.trial_usd)} on trial, ${dollars(covered.uncovered_usd)} uncovered, ${dollars(covered.minor_usd)} in small parts` : "";
  const wasted = priced
    ? entry("waste", "Waste", dollars(cost.waste_usd), "figure", `${share(nanos(cost.waste_usd), nanos(cost.total_usd))} of the bill${parts}`)
    : entry("waste", "Effective", `${number(cost.effective_gpu_hours)} h`, "figure", `of ${hours}`);
  const [first] = report.recommendations;
  const uncovered = largestUncovered(report);
  const action = uncovered
    ? entry("action", "First finding", uncoveredText(uncovered, names), "first", decides(uncovered))
    : first
    ? entry("action", "First action", first.title, "first", `${worth(first).join(" ")} · ${which(first.gpus, names)}`)
    : entry("action", "First action", "None", "first", report.policies.length ? "No recommendation was returned." : "No policy was evaluated.");
  return element("dl", { class: "answer" }, bill, wasted, action);
}

/** The largest uncovered waste, if it is larger than what any recommendation is about and no risk comes first. */
function largestUncovered(report) {
  const [first] = report.recommendations;
  const [waste] = report.uncovered_waste;
  if (!waste || !first) return waste;
  if (first.kind === "risk") return undefined;
  const sizes = [waste.usd, first.at_stake.usd].map((usd) => (usd === null ? -1n : nanos(usd)));
  const isLarger = sizes[0] === sizes[1] ? waste.gpu_hours > first.at_stake.gpu_hours : sizes[0] > sizes[1];
  return isLarger ? waste : undefined;
}

function uncoveredText(it, names) {
  return `${it.usd === null ? `${number(it.gpu_hours)} GPU-hours` : dollars(it.usd)} of ${it.category} waste has no recommendation (${which(it.gpus, names)})`;
}

/** What decides it. */
function decides({ risks, missing }) {
  return [risks.length ? `first see ${risks.join(", ")}` : null, missing.length ? `missing: ${missing.join(", ")}` : null].filter(Boolean).join(" · ").replaceAll(/[._]/g, " ");
}

/** What a recommendation is worth, in words: the figure, and what it means. A trial promises nothing until it is settled. */
function worth({ kind, saving_usd: usd, saving_fraction: fraction, at_stake: stake, confidence, trial }) {
  const amount = stake.usd === null ? `${number(stake.gpu_hours)} GPU-hours` : dollars(stake.usd);
  if (trial && !trial.settled) return ["Try", [stake.gpu_hours > 0 ? `${amount} at stake` : "in no sum", trial.order ? `to try ${trial.order === 1 ? "first" : "next"}` : null].filter(Boolean).join(", ")];
  if (trial && trial.settled.result !== "saves") return ["Tried", "no saving was found"];
  const sure = trial ? "measured by a trial" : `${Math.round(confidence * 100)}% confident`;
  if (kind === "risk") return ["Risk", sure];
  if (usd && nanos(usd.high) > 0n) return [dollars(usd.expected), `${kind === "capacity" ? "of capacity freed, not saved" : "saved of this bill"} (${dollars(usd.low)} to ${dollars(usd.high)}), ${sure}`];
  if (fraction.high > 0) return [`${(fraction.expected * 100).toFixed(1)}%`, `${kind === "capacity" ? "of these GPUs freed" : "of their bill"}, ${sure}`];
  const about = stake.gpu_hours > 0 ? `${amount} at stake, ` : "";
  return [kind === "capacity" ? "Capacity" : "Trial", about + sure];
}

/** A bar of parts in proportion. */
function splitBar(label, parts) {
  const bar = element("div", { class: "split", role: "img", "aria-label": label });
  for (const [kind, value] of parts) {
    if (value <= 0n) continue;
    const part = element("i", { class: `bg-${kind}` });
    part.style.flexGrow = String(Number(value) / 1e9);
    bar.append(part);
  }
  return bar;
}

const keyed = (kind, text) => [element("span", { class: `key bg-${kind}` }), text];

/** Where the money went: by phase, by use, and over time. */
function money(report) {
  const { fleet: { phases }, cost } = report;
  const priced = cost.total_usd !== null;
  const total = nanos(cost.total_usd);
  const of = (phase) => nanos(phase?.cost_usd);
  const accounts = [["idle", "idle", phases.idle], ["underutilized", "underutilized", phases.underutilized],
    ["productive", "productive", phases.productive], ["compute_bound", "compute-bound", phases.compute_bound],
    ["unobserved", "unobserved", { seconds: report.fleet.unobserved_seconds, percent: null, cost_usd: cost.unobserved_usd }]];
  const amounts = split(cents(total), accounts.map(([, , phase]) => of(phase)));
  const below = [["held", phases.idle_held], ["of it, never touched", phases.idle_never_touched], ["free", phases.idle_free], ["unknown", phases.idle_unknown]]
    .filter(([, phase]) => phase && phase.seconds > 0);
  const row = (name, phase, amount, kind) => ({ kind, cells: [name, duration(phase.seconds), phase.percent === null ? "–" : `${phase.percent.toFixed(1)}%`, priced ? amount : "–"] });
  const rows = accounts.flatMap(([kind, text, phase], index) => {
    const whole = row(keyed(kind, text), phase, centsText(amounts[index]));
    return kind === "idle" ? [whole, ...below.map(([name, part]) => row(name, part, dollars(part.cost_usd), "sub"))] : [whole];
  });
  rows.push(row("total", { seconds: report.fleet.span_seconds, percent: null }, centsText(cents(total)), "sum"));
  const byPhase = element("div", {}, priced ? splitBar("Cost by phase", accounts.map(([kind, , phase]) => [kind, of(phase)])) : null,
    table("By phase", [["Phase"], ["GPU time", true], ["share", true], ["cost", true]], rows));
  return section("money", "Where the money went", element("div", { class: "columns" }, byPhase, priced ? use(cost, total) : null),
    priced ? hours(report) : null);
}

function use(cost, total) {
  const waste = cost.waste_by_category_usd;
  const parts = [["utilized", "utilized", cost.utilized_usd], ["starvation", "waste: waiting for input", waste.starvation],
    ["idle-waste", "waste: idle", waste.idle], ["underload", "waste: working below capacity", waste.underload], ["unobserved", "unobserved", cost.unobserved_usd]];
  const exact = parts.map(([, , usd]) => nanos(usd));
  const amounts = split(cents(total), exact);
  const rows = parts.map(([kind, text], index) => ({ cells: [keyed(kind, text), share(exact[index], total), centsText(amounts[index])] }));
  rows.push({ kind: "sum", cells: ["bill", "", centsText(cents(total))] });
  const each = cost.cost_per_effective_gpu_hour_usd;
  const facts = [`${number(cost.effective_gpu_hours)} effective of ${number(cost.gpu_hours)} GPU-hours`,
    each ? `${dollars(each)} per effective GPU-hour` : null,
    cost.hourly_usd ? `${dollars(cost.hourly_usd)} per hour, ${dollars(cost.monthly_usd)} per month of 30 days, idle or not` : null];
  return element("div", {}, splitBar("Cost by use", parts.map(([kind], index) => [kind, exact[index]])),
    table("By use", [["Use"], ["share", true], ["cost", true]], rows), element("p", { class: "quiet small" }, facts.filter(Boolean).join(" · ")));
}

/** Cost by hour, in the colors of phases; only of a run of several hours. */
function hours(report) {
  const periods = new Map();
  for (const gpu of report.gpus) {
    for (const period of gpu.periods) {
      const sums = periods.get(period.start) ?? { end: period.end };
      for (const [account, { cost_usd: usd }] of Object.entries(period.accounts)) {
        const kind = account.startsWith("idle") ? "idle" : account;
        sums[kind] = (sums[kind] ?? 0) + Number(usd ?? 0);
      }
      periods.set(period.start, sums);
    }
  }
  if (periods.size < 4) return null;
  const kinds = ["compute_bound", "productive", "underutilized", "idle", "unobserved"];
  const total = (sums) => kinds.reduce((sum, kind) => sum + (sums[kind] ?? 0), 0);
  const rows = [...periods].sort(([a], [b]) => milliseconds(a) - milliseconds(b));
  const origin = milliseconds(rows[0][0]);
  const extent = (Math.max(...rows.map(([, { end }]) => milliseconds(end))) - origin) / 1000;
  const most = Math.max(...rows.map(([, sums]) => total(sums)));
  const svg = shape("svg", { viewBox: `0 0 ${extent} 100`, preserveAspectRatio: "none", "shape-rendering": "crispEdges", role: "img", "aria-label": `Cost over time, at most $${most.toFixed(2)} per column` });
  for (const [start, sums] of rows) {
    const from = (milliseconds(start) - origin) / 1000;
    const width = (milliseconds(sums.end) - milliseconds(start)) / 1000;
    let top = 100;
    for (const kind of kinds) {
      const tall = most > 0 ? ((sums[kind] ?? 0) / most) * 100 : 0;
      top -= tall;
      if (tall > 0) svg.append(shape("rect", { class: kind === "unobserved" ? "fill-rest" : `fill-${kind}`, x: from + width * 0.06, y: top, width: width * 0.88, height: tall }));
    }
    const last = svg.lastChild;
    last?.append(shape("title", {}, `${instant(milliseconds(start))}: $${total(sums).toFixed(2)}`));
  }
  return element("div", {}, element("p", { class: "quiet small" }, `Cost over time, at most $${most.toFixed(2)} per column: compute-bound at the bottom, then productive, underutilized, idle, unobserved`),
    element("div", { class: "hours" }, svg),
    element("p", { class: "quiet small" }, `${instant(origin)} – ${instant(origin + extent * 1000)} UTC`));
}

/** Most rows of a table of holders. */
const HOLDERS = 40;

/** Who held the GPUs, over all GPUs: with nobody's, they sum to the bill of the divided GPUs. */
function holders(report, names) {
  const sums = new Map();
  const add = (name, gpu, parts) => {
    const sum = sums.get(name) ?? { gpus: new Set(), used: 0n, unused: 0n, untouched: 0n, cost: 0n, waste: 0n, seconds: 0 };
    sum.gpus.add(gpu.id);
    for (const [key, value] of Object.entries(parts)) sum[key] += value;
    sums.set(name, sum);
  };
  let unheld = 0n;
  for (const gpu of report.gpus) {
    for (const it of gpu.holders ?? []) {
      add(it.name, gpu, { used: nanos(it.used_usd), unused: nanos(it.granted_unused_usd), untouched: nanos(it.never_touched_usd),
        cost: nanos(it.cost_usd), waste: nanos(it.waste_usd), seconds: it.granted_seconds });
    }
    if (gpu.nobody) unheld += nanos(gpu.nobody.cost_usd);
  }
  if (!sums.size) return null;
  const priced = report.cost.total_usd !== null;
  const sorted = [...sums].sort(([, a], [, b]) => Number(b.waste - a.waste));
  const rows = sorted.slice(0, HOLDERS);
  const rest = sorted.slice(HOLDERS);
  if (rest.length) {
    const merged = { gpus: new Set(), used: 0n, unused: 0n, untouched: 0n, cost: 0n, waste: 0n, seconds: 0 };
    for (const [, sum] of rest) {
      sum.gpus.forEach((gpu) => merged.gpus.add(gpu));
      for (const key of ["used", "unused", "untouched", "cost", "waste", "seconds"]) merged[key] += sum[key];
    }
    rows.push([`${rest.length} more`, merged]);
  }
  // As printed, rows and columns sum to their totals.
  const costs = [...rows.map(([, sum]) => sum.cost), unheld];
  const total = costs.reduce((sum, cost) => sum + cost, 0n);
  const printed = split(cents(total), costs);
  const text = (value) => (priced ? centsText(value) : "–");
  const shown = rows.map(([name, sum], index) => {
    const parts = split(printed[index], [sum.used, sum.unused, sum.untouched]);
    return { cells: [name, which([...sum.gpus], names), duration(sum.seconds), ...parts.map(text), text(printed[index])] };
  });
  shown.push({ cells: ["nobody", "", "", "", "", "", text(printed.at(-1))] }, { kind: "sum", cells: ["total", "", "", "", "", "", text(cents(total))] });
  const methods = [...new Set(report.gpus.flatMap((gpu) => (gpu.holders ?? []).map((holder) => holder.method)))].join(", ");
  return section("holders", "Who held the GPUs",
    table("Cost by holder, most waste first", [["Holder"], ["GPUs"], ["granted", true], ["used", true], ["not used", true], ["never touched", true], ["cost", true]], shown),
    element("p", { class: "quiet small" }, `How shared GPUs were divided: ${methods.replaceAll("_", " ")}.`));
}

/** Every GPU in numbers. */
function gpus(report, names) {
  if (!report.gpus.length) return null;
  const memory = ({ total_bytes: total, used_peak_bytes: peak }) =>
    peak === null ? "–" : `${(peak / 2 ** 30).toFixed(1)}${total === null ? "" : ` of ${(total / 2 ** 30).toFixed(1)}`} GiB`;
  const percent = (value) => (value === null ? "–" : `${Math.round(value)}%`);
  const pattern = ({ pattern: it }) => (it ? it.kind + (it.period_seconds ? `, ${duration(it.period_seconds)}` : "") : "–");
  const rows = report.gpus.map((gpu) => ({ cells: [names.get(gpu.id), gpu.model ?? "–", duration(gpu.span_seconds), percent(gpu.utilization.mean), percent(gpu.utilization.p95),
    pattern(gpu), memory(gpu.memory), gpu.energy_joules === null ? "–" : `${number(gpu.energy_joules / 3.6e6)} kWh`, dollars(gpu.cost_usd), dollars(gpu.waste_usd)] }));
  const columns = [["GPU"], ["Model"], ["time", true], ["mean", true], ["p95", true], ["Pattern"], ["memory, peak", true], ["energy", true], ["cost", true], ["waste", true]];
  return section("gpus", "GPUs", table("Measured of each GPU", columns, rows));
}

/** Strips of GPUs drawn beside a recommendation. */
const STRIPS = 4;

function advice(report, names, timeline) {
  if (!report.recommendations.length) return null;
  const items = report.recommendations.map((it, index) => recommendation(it, index, report, names, timeline));
  return section("advice", "What to do", element("ol", { class: "advice" }, items), savings(report));
}

function recommendation(it, index, report, names, timeline) {
  const [figure, meaning] = worth(it);
  const target = CATEGORY_NAMES[it.target] ?? it.target;
  const about = [it.kind, target, `${it.effort} effort`, it.reversible ? "reversible" : null, it.counted || it.kind !== "saving" ? null : "alternative, counted once"];
  const evidence = Object.entries(it.evidence).map(([name, value]) =>
    element("div", {}, element("dt", {}, name.replaceAll(/[._]/g, " ")), element("dd", {}, measured(name, value))));
  const body = element("div", {}, element("h3", {}, it.title), element("p", {}, it.action), element("p", { class: "quiet" }, it.rationale),
    strips(it, index, report, names, timeline), evidence.length ? element("dl", { class: "evidence" }, evidence) : null,
    element("p", { class: "quiet small" }, `${about.filter(Boolean).join(" · ")} · ${which(it.gpus, names)} · `, element("code", {}, it.code)));
  return element("li", {}, element("div", { class: "worth" }, element("strong", {}, figure), element("span", { class: "quiet small" }, meaning)), body);
}

/** The evidence on the timeline: what a recommendation is about keeps its color. */
function strips(it, index, report, names, timeline) {
  if (timeline.isEmpty) return null;
  const about = new Set(it.gpus);
  const lanes = timeline.lanes.filter(({ gpu }) => about.has(gpu.id) && gpu.timeline);
  if (!lanes.length) return null;
  const matches = concerns(it.target, report.thresholds_percent);
  const box = element("div", { class: "strips" });
  for (const lane of lanes.slice(0, STRIPS)) {
    lane.steps ??= stepsOf(lane.gpu, report, timeline.origin);
    const svg = plot(lane, timeline.extent, matches);
    svg.setAttribute("class", "hatched");
    box.append(element("div", {}, lane.name), svg);
  }
  const more = lanes.length > STRIPS ? ` ${lanes.length - STRIPS} more GPUs are not shown here.` : "";
  const note = element("span", { class: "quiet small" }, `In color: time ${concernText(it.target, report.thresholds_percent)}.${more}`);
  const button = element("button", { type: "button", "aria-pressed": "false", "aria-label": `Show on the timeline: ${it.title}` }, "Show on the timeline");
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    document.querySelectorAll(".advice button").forEach((other) => other.setAttribute("aria-pressed", "false"));
    button.setAttribute("aria-pressed", String(on));
    timeline.select(on ? it : null);
    if (on) document.getElementById("timeline").scrollIntoView({ block: "start" });
  });
  return element("div", {}, box, element("div", { class: "bar-of-tools" }, note, button));
}

function savings({ savings: it }) {
  if (!it || nanos(it.total_usd.high) <= 0n) return null;
  const capped = it.capped ? ", capped at the measured waste" : "";
  return element("p", {}, element("strong", {}, `Together ${dollars(it.total_usd.expected)}`),
    ` (${dollars(it.total_usd.low)} to ${dollars(it.total_usd.high)}), ${(it.total_fraction.expected * 100).toFixed(1)}% of this bill. Alternatives are counted once${capped}; the plain sum would be ${(it.naive_sum_fraction * 100).toFixed(1)}%.`);
}

function missing(report, names) {
  const needs = report.needs.map((need) => element("li", {}, element("strong", {}, need.missing.replaceAll(/[._]/g, " ")), ` (${which(need.gpus, names)}): ${need.reason}`));
  const uncovered = report.uncovered_waste.map((it) => element("li", {}, `${uncoveredText(it, names)}; ${decides(it)}. ${it.outcomes.join(" ")}`));
  const all = [...uncovered, ...needs];
  return all.length ? section("missing", "What is missing", element("ul", { class: "plain" }, all)) : null;
}

function alerts({ alerts: it }, names) {
  if (!it) return null;
  const text = ({ rule, gpu, opened, closed, mean }) => ({ cells: [rule, names.get(gpu) ?? gpu, instant(milliseconds(opened)), closed ? instant(milliseconds(closed)) : "open", number(mean)] });
  const before = it.continued ?? [];
  const rows = [...before, ...it.opened].slice(0, 100).map(text);
  const all = before.length + it.total;
  return section("alerts", "Alerts", element("p", {}, `${it.total} opened${before.length ? ` and ${before.length} open before` : ""}, of ${it.rules.length} rules${rows.length < all ? `; the first ${rows.length} are listed` : ""}.`),
    rows.length ? table("Opened alerts", [["Rule"], ["GPU"], ["opened", true], ["closed", true], ["mean", true]], rows) : null);
}

/** Work, experiments and interruptions. */
function work(report) {
  const units = Object.entries(report.work).map(([unit, it]) => ({ cells: [unit, number(it.count), dollars(it.cost_each_usd)] }));
  const groups = (report.work_groups?.groups ?? []).map((it) => ({ cells: [Object.entries(it.labels).map(([key, value]) => `${key} ${value}`).join(", ") || "others",
    Object.entries(it.work).map(([unit, { count }]) => `${number(count)} ${unit}`).join(", "), duration(it.gpu_seconds), dollars(it.cost_usd)] }));
  const { listed = [], more } = report.experiments ?? {};
  const experiments = listed.map((it) => ({ cells: [it.id, instant(milliseconds(it.start)), duration(it.gpu_seconds), it.utilization === null ? "–" : `${Math.round(it.utilization)}%`, dollars(it.cost_usd)] }));
  if (more?.count) experiments.push({ cells: [`${more.count} more`, "", duration(more.gpu_seconds), "", dollars(more.cost_usd)] });
  const notices = (report.interruptions?.notices ?? []).map((it) => ({ cells: [it.action, it.provider, instant(milliseconds(it.at)), it.due ? instant(milliseconds(it.due)) : "–"] }));
  const tables = [
    units.length ? table("By unit", [["Unit"], ["count", true], ["cost of each", true]], units) : null,
    groups.length ? table("By group", [["Group"], ["Work"], ["GPU time", true], ["cost", true]], groups) : null,
    experiments.length ? table("Experiments", [["Experiment"], ["start", true], ["GPU time", true], ["mean", true], ["cost", true]], experiments) : null,
    notices.length ? table("Interruptions", [["Action"], ["Cloud"], ["received", true], ["due", true]], notices) : null,
  ].filter(Boolean);
  return tables.length ? section("work", "Work", tables) : null;
}

/** Prices, and what the report assumed. */
function prices(report) {
  const kinds = new Map();
  for (const gpu of report.gpus) {
    const key = JSON.stringify([gpu.model, gpu.rate_usd_per_gpu_hour, gpu.price]);
    const kind = kinds.get(key) ?? { gpu, count: 0 };
    kind.count += 1;
    kinds.set(key, kind);
  }
  const rows = [...kinds.values()].map(({ gpu, count }) => {
    const { price } = gpu;
    const where = price ? [price.provider, price.region, price.instance_type].filter(Boolean).join(", ") || "–" : "–";
    const estimate = price?.estimate;
    const rate = gpu.rate_usd_per_gpu_hour === null ? "no price" : dollars(gpu.rate_usd_per_gpu_hour);
    const range = estimate ? `lower median of ${estimate.rows} prices, ${dollars(estimate.low_usd_per_gpu_hour)} to ${dollars(estimate.high_usd_per_gpu_hour)}` : null;
    const dated = price?.as_of ? `${price.as_of}${price.stale ? ", old" : ""}` : null;
    return { cells: [`${count} × ${gpu.model ?? "GPU of unknown model"}`, rate, price?.plan?.replaceAll("_", " ") ?? "–", where, [range, price?.source ?? gpu.unpriced_reason, dated].filter(Boolean).join(" · ")] };
  });
  const list = (title, sentences) => (sentences.length ? [element("h3", {}, title), element("ul", { class: "plain" }, sentences.map((it) => element("li", {}, it)))] : []);
  const rejected = report.rejected_rows.map((row) => `${row.file}, line ${row.line}: ${row.reason}`);
  if (report.rejected_total > rejected.length) rejected.push(`and ${report.rejected_total - rejected.length} more`);
  const policies = report.policies.map((it) => `${it.name} ${it.version ?? ""}${it.error ? `: ${it.error.message}` : ""}`);
  const attributes = Object.entries(report.experiment.attributes).map(([key, value]) => `${key}: ${value}`);
  return section("prices", "Prices and assumptions",
    rows.length ? table("Price of a GPU-hour", [["GPUs"], ["USD", true], ["Plan"], ["Where"], ["Source"]], rows) : null,
    element("p", {}), list("Assumptions", report.assumptions), list("Sampling", report.sampling), list("Delivery", report.delivery), list("Rejected rows", rejected),
    element("details", {}, element("summary", {}, "Experiment and policies"),
      element("ul", { class: "plain" }, element("li", {}, "Experiment ", element("code", {}, report.experiment.id)),
        report.experiment.trace_id ? element("li", {}, "Trace ", element("code", {}, report.experiment.trace_id)) : null,
        attributes.map((text) => element("li", {}, text)), policies.map((text) => element("li", {}, `Policy ${text}`)))));
}
