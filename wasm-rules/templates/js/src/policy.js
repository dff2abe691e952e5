// Recommends sharing or switching off GPUs that are mostly idle.

// Minimum idle share of observed time.
let minIdle = 0.5;

// Mean utilization of a step below which nothing ran.
const QUIET = 0.01;

export const policy = {
  describe() {
    return {
      name: "my-policy",
      version: "0.1.0",
      summary: "Recommends sharing or switching off GPUs that are mostly idle.",
      settingsSchema: JSON.stringify({
        type: "object",
        properties: {
          min_idle: {
            description: "Minimum idle share of observed time.",
            type: "number",
            default: 0.5,
            minimum: 0,
            maximum: 1,
          },
        },
        additionalProperties: false,
      }),
    };
  },

  // Called once in every fresh instance. The host has validated the settings against the schema.
  configure(settings) {
    for (const [path, value] of settings) {
      if (path === "min_idle") minIdle = value.val;
    }
  },
};

export const recommender = {
  recommend(window) {
    // GPUs of a node are rented and given back together.
    const nodes = new Map();
    for (const gpu of window.gpus) {
      const node = nodeOf(gpu);
      if (!nodes.has(node)) nodes.set(node, []);
      nodes.get(node).push(gpu);
    }
    const recommendations = [...nodes.values()].map(recommendFor).filter((found) => found !== null);
    return { recommendations, needs: [] };
  },
};

function nodeOf(gpu) {
  const attributes = new Map(gpu.attributes);
  return attributes.get("host.name") ?? attributes.get("log.file.name") ?? "";
}

const sum = (values) => values.reduce((sum, value) => sum + value, 0);
const billOf = (gpus) => sum(gpus.flatMap((gpu) => Object.values(gpu.accounts).map((of) => of.cost)));
const utilizedOf = (gpus) =>
  sum(gpus.flatMap((gpu) => Object.values(gpu.accounts).map((of) => of.utilizedCost)));

function isIdle(gpu) {
  const of = gpu.accounts;
  const idle = of.idleHeld.seconds + of.idleFree.seconds + of.idleUnknown.seconds;
  const busy = of.underutilized.seconds + of.productive.seconds + of.computeBound.seconds;
  // There is no idle waste if the GPU waits for input, or if its price is unknown.
  return gpu.waste.idle > 0 && idle / (idle + busy) >= minIdle;
}

// The share of the time in which no GPU of a node works. Unobserved steps are NaN, and count as work.
function freeShare(node) {
  const isFree = (_, step) => node.every((gpu) => gpu.utilization[step] < QUIET);
  const steps = Array.from(node[0].utilization);
  return steps.filter(isFree).length / Math.max(steps.length, 1);
}

function recommendFor(node) {
  const idle = node.filter(isIdle);
  if (idle.length === 0) return null;
  const lost = sum(idle.map((gpu) => gpu.waste.idle)) / billOf(idle);
  const free = freeShare(node);
  const counted = `${idle.length} of ${node.length} GPUs`;
  const percent = Math.floor(free * 100);

  let lever, kind, title, action, rationale, expected, high;
  if (free >= minIdle) {
    [lever, kind] = ["schedule", "saving"];
    title = `${counted} free ${percent}% of the time`;
    action = "Stop their node while nothing runs on it, if it has no other GPUs.";
    rationale = "No GPU of the node worked then. How much of it a schedule finds is not known.";
    // Nothing is saved for certain: switching off needs a schedule.
    high = Math.min(lost, free);
    expected = high * 0.5;
  } else {
    // Other jobs use the capacity; the bill stays the same.
    [lever, kind] = ["bin_pack", "capacity"];
    title = `${counted} mostly idle`;
    action = "Place other jobs on them.";
    rationale = `Their node was free ${percent}% of the time, which is too little to stop it.`;
    // Sharing needs other jobs: expect at most as much work again as the node does now.
    high = lost;
    expected = Math.min(utilizedOf(node) / billOf(node), lost * 0.5);
  }
  return {
    code: `idle.${lever}`,
    target: "idle",
    lever,
    title,
    action,
    rationale,
    saving: { low: 0, expected, high },
    confidence: 0.5,
    evidence: [
      { name: "free.share", value: free, unit: "1" },
      { name: "lost.share", value: lost, unit: "1" },
    ],
    gpus: idle.map((gpu) => gpu.id),
    kind,
    effort: "low",
    reversible: true,
  };
}
