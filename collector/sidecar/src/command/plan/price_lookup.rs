//! Prices for plans: given, else quoted by policies, else from a report, else from the price book.

use std::path::PathBuf;

use phasemeter_engine::pricing::{GpuOfModel, book_file};
use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price, PriceBook, Query};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_plan::error::PlanError;
use tracing::warn;

use super::super::error::CommandError;
use super::super::metering;
use super::super::policies::{self, Evaluations};
use super::super::today::{now, today};
use phasemeter_cli::{PlanPriceArgs, PolicyArgs, PriceArgs, PricerArgs};
use phasemeter_plan_report::{Measured, PlanPrice};

/// Finds prices and remembers their provenance.
pub(super) struct PriceLookup {
    book: PriceBook,
    today: Date,
    used: Vec<PlanPrice>,
}

impl PriceLookup {
    /// Ages are as of today.
    pub(super) fn today() -> Self {
        Self { book: PriceBook::built_in(), today: today(), used: Vec::new() }
    }

    /// Lays books of the user over the built-in one.
    pub(super) fn read(&mut self, files: &[PathBuf]) -> Result<(), CommandError> {
        self.book = book_file::load(files)?;
        Ok(())
    }

    /// The provenance of each price that was used.
    pub(super) fn used(self) -> Vec<PlanPrice> {
        self.used
    }

    /// What pricing policies quote for this GPU, if there are any and one does.
    pub(super) fn quoted(
        &mut self,
        args: &PlanPriceArgs,
        model: Option<&str>,
        measured: Option<&Measured>,
    ) -> Result<Option<Price>, CommandError> {
        if args.pricers.is_empty() || args.price.is_some() {
            return Ok(None);
        }
        let of_type = || self.gpu_of(args.instance_type.as_deref());
        let model = model.or_else(|| measured?.model()).map(str::to_owned).or_else(of_type);
        let model = model.ok_or(PlanError::missing(
            "gpu",
            "a pricing policy is asked for the price of a model",
            "give --gpu or --instance-type",
        ))?;
        let PricerArgs { policy_files: files, policy_settings: settings } = args.pricers.clone();
        let policies = PolicyArgs { files, settings, ..PolicyArgs::default() };
        let manager = policies::open(&policies, Evaluations::Once)?;
        let options = PriceArgs {
            price: None,
            prices: args.prices.clone(),
            provider: args.provider.clone(),
            region: args.region.clone(),
            instance_type: args.instance_type.clone(),
            plan: None,
        };
        let mut pricing = metering::pricing(&options, &Attributes::new(), manager)?;
        let gpus = measured.map_or(1, |report| u32::try_from(report.gpus.len()).unwrap_or(1));
        let gpu = GpuOfModel { model: Some(&model), rank: 0, gpus };
        let price = pricing.at(&gpu, now(), now()).price.ok();
        for pricer in pricing.pricers() {
            if let Some(error) = &pricer.error {
                warn!("policy {}: {error}", pricer.name);
            }
        }
        // Without a quote it is the list price.
        let is_quoted = |price: &Price| {
            pricing
                .pricers()
                .iter()
                .any(|pricer| price.source.ends_with(&format!("quoted by {}", pricer.name)))
        };
        Ok(price.filter(is_quoted))
    }

    /// The price on demand: given, else quoted, else of the report, else of the book if a model or an
    /// instance type is known.
    pub(super) fn on_demand(
        &mut self,
        args: &PlanPriceArgs,
        model: Option<&str>,
        measured: Option<&Measured>,
    ) -> Result<Option<Rate>, CommandError> {
        if let Some(price) = self.quoted(args, model, measured)? {
            self.note("quoted price", &price);
            return Ok(Some(price.rate));
        }
        self.unquoted(args, model, measured)
    }

    /// The same without pricing policies.
    pub(super) fn unquoted(
        &mut self,
        args: &PlanPriceArgs,
        model: Option<&str>,
        measured: Option<&Measured>,
    ) -> Result<Option<Rate>, CommandError> {
        if let Some(rate) = args.price {
            return Ok(Some(rate));
        }
        let of_report = measured.and_then(|it| it.price.as_ref());
        let of_report =
            of_report.filter(|it| it.plan.is_none_or(|plan| plan == PaymentPlan::OnDemand));
        if let Some(price) = of_report
            && args.instance_type.is_none()
        {
            self.note("price on demand", price);
            return Ok(Some(price.rate));
        }
        let model = model.or_else(|| measured?.model());
        let price = self.listed(args, model, PaymentPlan::OnDemand, "--price")?;
        Ok(price.map(|price| {
            self.note("price on demand", &price);
            price.rate
        }))
    }

    /// The price of the book; `None` if neither model nor instance type is known.
    pub(super) fn listed(
        &self,
        args: &PlanPriceArgs,
        model: Option<&str>,
        plan: PaymentPlan,
        option: &'static str,
    ) -> Result<Option<Price>, CommandError> {
        if model.is_none() && args.instance_type.is_none() {
            return Ok(None);
        }
        let price = self.book.price(&Query {
            model,
            provider: args.provider.as_deref(),
            region: args.region.as_deref(),
            instance_type: args.instance_type.as_deref(),
            plan: Some(plan),
        });
        price.map(Some).map_err(|unpriced| CommandError::Unpriced(unpriced, option))
    }

    /// The price of the book for another plan at this place, if a provider or an instance type is known.
    pub(super) fn beside(
        &mut self,
        place: &PlanPriceArgs,
        model: Option<&str>,
        plan: PaymentPlan,
    ) -> Option<Rate> {
        let is_known = place.provider.is_some() || place.instance_type.is_some();
        let price = self.listed(place, model, plan, "").ok().flatten().filter(|_| is_known)?;
        self.note(&format!("{} price", plan.as_str().replace('_', " ")), &price);
        Some(price.rate)
    }

    /// The GPU of an instance type.
    pub(super) fn gpu_of(&self, instance_type: Option<&str>) -> Option<String> {
        self.book.gpu_of(instance_type?).map(str::to_owned)
    }

    /// Adds the provenance of a price.
    pub(super) fn note(&mut self, purpose: &str, price: &Price) {
        self.used.push(PlanPrice::of(purpose, price, self.today));
    }
}
