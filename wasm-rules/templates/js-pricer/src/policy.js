// Prices GPUs at a discount on the list price.

// Discount, as a share of the list price.
let discount = 0.1;

export const policy = {
  describe() {
    return {
      name: "my-policy",
      version: "0.1.0",
      summary: "Prices GPUs at a discount on the list price.",
      settingsSchema: JSON.stringify({
        type: "object",
        properties: {
          discount: {
            description: "Discount, as a share of the list price.",
            type: "number",
            default: 0.1,
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
      if (path === "discount") discount = value.val;
    }
  },
};

export const pricer = {
  // Returns null for GPUs that the contract does not cover: the next pricer is queried, and at last the
  // list price applies.
  quotePrice(request) {
    const { listed, plan } = request;
    // The discount is on the hourly price. `request.attributes` are those of the run: a price may depend
    // on the team. With `request.isOffer` the GPUs are only compared with those in use.
    const isHourly = (plan) => plan == null || plan === "on-demand";
    if (listed == null || !isHourly(plan) || !isHourly(listed.plan)) return null;
    return {
      nanoUsdPerGpuHour: Math.floor(listed.nanoUsdPerGpuHour * (1 - discount) + 0.5),
      plan: "on-demand",
      source: `my contract: ${Math.round(discount * 100)}% off list price`,
      asOf: listed.asOf ?? "2026-01-01",
    };
  },
};
