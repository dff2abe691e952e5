// Advises what to do with GPUs that are idle most of the time.

// GPUs that are idle for less of their observed time than this are left alone.
let leastIdle = 0.5;

export const policy = {
  describe() {
    return {
      name: "my-policy",
      version: "0.1.0",
      summary: "Advises what to do with GPUs that are idle most of the time.",
      settingsSchema: JSON.stringify({
        type: "object",
        properties: {
          least_idle: {
            description: "GPUs that are idle for less of their observed time than this are left alone.",
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

  // Called once in every fresh instance. The host has checked the settings by the schema.
  configure(settings) {
    for (const [path, value] of settings) {
      if (path === "least_idle") leastIdle = value.val;
    }
  },
};

export const recommender = {
  recommend(window) {
    return window.gpus.map(advise).filter((advice) => advice !== null);
  },
};

function advise(gpu) {
  const of = gpu.accounts;
  const idle = of.idleHeld.seconds + of.idleFree.seconds + of.idleUnknown.seconds;
  const busy = of.underutilized.seconds + of.productive.seconds + of.computeBound.seconds;
  const share = idle + busy > 0 ? idle / (idle + busy) : 0;
  // Nothing is lost where it waits for its input, nor known where nobody knows its price.
  if (share < leastIdle || gpu.waste.idle === 0) return null;
  const bill = Object.values(of).reduce((sum, account) => sum + account.cost, 0);
  const lost = gpu.waste.idle / bill;
  const held = of.idleHeld.seconds > of.idleFree.seconds;
  const [lever, title, action, why] = held
    ? [
        "bin_pack",
        "Share this GPU",
        "Place a second job on it: what holds it hardly computes.",
        "held by a process for most of that",
      ]
    : [
        "schedule",
        "Switch this GPU off",
        "Stop its node while nothing runs on it.",
        "free for most of that",
      ];
  return {
    code: `idle.${lever}`,
    target: "idle",
    lever,
    title,
    action,
    rationale: `It was idle for ${Math.floor(share * 100)} % of its time, and ${why}.`,
    saving: { low: lost * 0.5, expected: lost * 0.75, high: lost },
    confidence: 0.75,
    evidence: [
      ["idle.share", share],
      ["lost.share", lost],
    ],
    gpus: [gpu.id],
  };
}
