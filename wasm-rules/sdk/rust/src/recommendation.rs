//! Builds recommendations and responses.

use crate::{
    Effort, Evidence, Gpu, Need, Price, Recommendation, RecommendationKind, Remediation, Response,
    Saving, Target, Vendor, Workload,
};

impl Recommendation {
    /// Returns a recommendation without texts, saving and evidence: a low-effort saving that can be
    /// undone.
    pub fn new<'a>(
        code: &str,
        target: Target,
        lever: &str,
        gpus: impl IntoIterator<Item = &'a Gpu>,
    ) -> Self {
        Self {
            code: code.to_owned(),
            target,
            lever: lever.to_owned(),
            title: String::new(),
            action: String::new(),
            rationale: String::new(),
            saving: Saving::NONE,
            confidence: 0.0,
            evidence: Vec::new(),
            gpus: gpus.into_iter().map(|gpu| gpu.id.clone()).collect(),
            kind: RecommendationKind::Saving,
            effort: Effort::Low,
            reversible: true,
            remediation: None,
        }
    }
}

impl Evidence {
    /// Returns a number with its name and unit, such as `s`, `W`, `By`, `1` or `{GPU}`.
    #[must_use]
    pub fn new(name: &str, value: f64, unit: &str) -> Self {
        Self { name: name.to_owned(), value, unit: unit.to_owned() }
    }
}

/// Returns evidence from names, values and units.
#[must_use]
pub fn evidence<const N: usize>(values: [(&str, f64, &str); N]) -> Vec<Evidence> {
    values.into_iter().map(|(name, value, unit)| Evidence::new(name, value, unit)).collect()
}

impl Remediation {
    /// Returns a remediation. `LEVERS.md` lists kinds and their parameters.
    #[must_use]
    pub fn new<'a>(kind: &str, parameters: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        Self { kind: kind.to_owned(), parameters: parameters.collect() }
    }

    /// Returns the remediation with the parameter `unless`: the condition under which it is wrong. A controller may do it
    /// only after somebody has made sure that the condition does not hold.
    #[must_use]
    pub fn unless(mut self, condition: &str) -> Self {
        self.parameters.push(("unless".to_owned(), condition.to_owned()));
        self
    }

    /// Returns a remediation with the `provider`, `region` and `instance_type` of a price, as far as they are
    /// known.
    #[must_use]
    pub fn to_place(kind: &str, price: &Price) -> Self {
        let Price { provider, region, instance_type, .. } = price;
        let place = [("provider", provider), ("region", region), ("instance_type", instance_type)];
        Self::new(kind, place.into_iter().filter_map(|(name, of)| Some((name, of.clone()?))))
    }
}

impl Need {
    /// Returns what is missing for these GPUs.
    pub fn new<'a>(missing: &str, reason: &str, gpus: impl IntoIterator<Item = &'a Gpu>) -> Self {
        Self {
            missing: missing.to_owned(),
            reason: reason.to_owned(),
            gpus: gpus.into_iter().map(|gpu| gpu.id.clone()).collect(),
        }
    }

    /// Returns what is missing for these GPUs; `None` if there are none.
    pub fn if_any<'a>(
        missing: &str,
        reason: &str,
        gpus: impl IntoIterator<Item = &'a Gpu>,
    ) -> Option<Self> {
        let mut gpus = gpus.into_iter().peekable();
        gpus.peek()?;
        Some(Self::new(missing, reason, gpus))
    }

    /// The same with a reason that ends with tools of NVIDIA, if all are its GPUs.
    pub fn by_vendor<'a>(
        missing: &str,
        reason: &str,
        nvidia: &'static str,
        gpus: impl IntoIterator<Item = &'a Gpu>,
    ) -> Option<Self> {
        let gpus: Vec<_> = gpus.into_iter().collect();
        let tools = Vendor::of(gpus.iter().copied()).tool(nvidia, "");
        Self::if_any(missing, &[reason, tools].concat(), gpus)
    }
}

impl Workload {
    /// Returns whether the work is a job, which ends: training or batch.
    #[must_use]
    pub const fn is_job(self) -> bool {
        matches!(self, Self::Training | Self::Batch)
    }
}

impl Response {
    /// Returns a response of these recommendations, and of what is missing for others.
    pub fn of(
        recommendations: impl IntoIterator<Item = Recommendation>,
        needs: impl IntoIterator<Item = Need>,
    ) -> Self {
        Self { recommendations: Vec::from_iter(recommendations), needs: Vec::from_iter(needs) }
    }

    /// Adds another response to this one.
    pub fn extend(&mut self, more: Self) {
        self.recommendations.extend(more.recommendations);
        self.needs.extend(more.needs);
    }
}

impl FromIterator<Recommendation> for Response {
    fn from_iter<I: IntoIterator<Item = Recommendation>>(recommendations: I) -> Self {
        Self::of(recommendations, [])
    }
}

impl From<Vec<Recommendation>> for Response {
    fn from(recommendations: Vec<Recommendation>) -> Self {
        Self::of(recommendations, [])
    }
}
