// Recommends sharing or switching off GPUs that are mostly idle.

// Minimum idle share of observed time.
let minIdle = 0.5;

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
    const recommendations = window.gpus.map(recommendFor).filter((found) => found !== null);
    return { recommendations, needs: [] };
  },
};

function recommendFor(gpu) {
  const of = gpu.accounts;
  const idle = of.idleHeld.seconds + of.idleFree.seconds + of.idleUnknown.seconds;
  const busy = of.underutilized.seconds + of.productive.seconds + of.computeBound.seconds;
  const share = idle + busy > 0 ? idle / (idle + busy) : 0;
  // There is no idle waste if the GPU waits for input, or if its price is unknown.
  if (share < minIdle || gpu.waste.idle === 0) return null;
  const bill = Object.values(of).reduce((sum, account) => sum + account.cost, 0);
  const lost = gpu.waste.idle / bill;
  const held = of.idleHeld.seconds > of.idleFree.seconds;
  const [lever, title, action, state] = held
    ? [
        "bin_pack",
        "Share this GPU",
        "Place a second job on it. The process that holds it is mostly idle.",
        "mostly held by a process",
      ]
    : [
        "schedule",
        "Switch this GPU off",
        "Stop its node while nothing runs on it.",
        "mostly free",
      ];
  return {
    code: `idle.${lever}`,
    target: "idle",
    lever,
    title,
    action,
    rationale: `The GPU was idle ${Math.floor(share * 100)}% of the time, ${state}.`,
    // Nothing is saved for certain: sharing needs another job, and switching off needs a schedule.
    saving: { low: 0, expected: lost * 0.5, high: lost },
    confidence: 0.75,
    evidence: [
      { name: "idle.share", value: share, unit: "1" },
      { name: "lost.share", value: lost, unit: "1" },
    ],
    gpus: [gpu.id],
    // Other jobs use the capacity; the bill stays the same.
    kind: held ? "capacity" : "saving",
    effort: "low",
    reversible: true,
  };
}
