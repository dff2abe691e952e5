//! A configuration file that changes while a run goes on: prices, policies, alerts and the level of the log are applied;
//! what else has changed is logged. A file that cannot be used changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use phasemeter_cli::{Cli, Command, MeteringArgs, NodeArgs, PolicyArgs, PriceArgs};
use phasemeter_config::{ConfigurationFile, Reread};
use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::Pipeline;
use phasemeter_engine::policies::{PolicyChange, PolicyManager, Quotes};
use phasemeter_engine::pricing::book_file;
use phasemeter_files::FileStamp;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::experiment::Attributes;
use tracing::{error, info, warn};

use super::alerts;
use super::error::CommandError;
use super::metering;
use super::node_price::NodePrice;
use super::policies::{self, Evaluations};
use super::window_scheduler::WindowScheduler;
use crate::log;
use crate::variables::variable;

/// How often the files are looked at. A change counts once it has rested as long.
const INTERVAL: Duration = Duration::from_secs(1);

/// Options that are applied, by what they are about.
const PRICES: [&str; 7] =
    ["price", "prices", "provider", "region", "instance-type", "plan", "price-label"];
const POLICIES: [&str; 8] = [
    "policy",
    "policies",
    "policy-settings",
    "no-default-policies",
    "policy-key",
    "policy-limit",
    "policy-stub-imports",
    "policy-cache",
];
const ALERTS: [&str; 2] = ["alerts", "alert-set"];
const LOG: [&str; 1] = ["log-level"];

/// Reads the configuration file of a run again when it changes.
pub(super) struct Reload {
    file: Option<ConfigurationFile>,
    /// The files that are in force, as they were before they were read.
    used: Stamps,
    /// The same, as they were seen last.
    seen: Stamps,
    /// The same, as they were when they were read again last.
    tried: Stamps,
    next: Instant,
    /// The attributes of the resource that prices follow.
    attributes: Attributes,
    manager: Option<Arc<PolicyManager>>,
    price: PriceArgs,
    /// What prices are to follow from now on, if it is not applied yet: pricers may be loading.
    repricing: Option<Repricing>,
    /// Ends when other policies are loaded, and whether there were pricers before.
    loading: Option<(JoinHandle<()>, bool)>,
}

/// Files, and by what each is found to have changed.
type Stamps = BTreeMap<PathBuf, FileStamp>;

/// What a file is applied to.
pub(super) struct Target<'a> {
    pub(super) pipeline: &'a mut Pipeline<'static>,
    pub(super) scheduler: &'a mut WindowScheduler,
    pub(super) node_price: Option<&'a mut NodePrice>,
    /// The present.
    pub(super) now: Timestamp,
}

/// That prices follow from the options anew, with another price book if there is one.
#[derive(Default)]
struct Repricing {
    book: Option<PriceBook>,
}

/// What is applied, all of it valid.
#[derive(Default)]
struct Prepared {
    prices: Option<PriceBook>,
    alerts: Option<AlertRules>,
    policies: Option<PolicyChange>,
}

impl Reload {
    /// Whether this process has a file.
    pub(super) fn is_possible() -> bool {
        ConfigurationFile::of_process().is_some()
    }

    /// Follows the file of this process, if it has one, in a run with these options.
    pub(super) fn start(
        args: &MeteringArgs,
        attributes: Attributes,
        manager: Option<Arc<PolicyManager>>,
    ) -> Self {
        let file = ConfigurationFile::of_process().cloned();
        let paths = file.as_ref().map(|file| files(file.path(), args)).unwrap_or_default();
        let mut used: Stamps =
            paths.into_iter().map(|path| (path.clone(), FileStamp::of(&path))).collect();
        // It may have changed since it was read.
        used.extend(file.iter().map(|file| (file.path().to_owned(), file.stamp())));
        Self {
            file,
            seen: used.clone(),
            tried: used.clone(),
            used,
            next: Instant::now() + INTERVAL,
            attributes,
            manager,
            price: args.price.clone(),
            repricing: None,
            loading: None,
        }
    }

    /// Reads the file again if it has changed, or if that `is_requested`, and applies what waited.
    pub(super) fn step(&mut self, is_requested: bool, mut target: Target<'_>) {
        if (self.has_changed() || is_requested)
            && let Some(mut file) = self.file.take()
        {
            // Before they are read: a change during that is another one.
            self.tried = self.look();
            match file.read(|cli: &Cli| cli.strict) {
                Ok(read) => self.take(&mut file, read, &mut target),
                Err(reasons) => reject(file.path(), &reasons),
            }
            self.file = Some(file);
        }
        let loaded = self.loading.take_if(|(thread, _)| thread.is_finished());
        if loaded.is_some_and(|(_, had_pricers)| had_pricers || self.has_pricers()) {
            self.repricing.get_or_insert_default();
        }
        if let Some(Repricing { book }) = &self.repricing {
            let options = match &target.node_price {
                Some(price) => price.options(),
                None => metering::price_options(&self.price, &self.attributes),
            };
            if target.pipeline.change_prices(&options, book.as_ref(), target.now) {
                self.repricing = None;
            }
        }
    }

    fn has_pricers(&self) -> bool {
        Quotes::of(self.manager.clone()).has_pricers()
    }

    /// Whether a file has changed and come to rest.
    fn has_changed(&mut self) -> bool {
        let now = Instant::now();
        if self.file.is_none() || now < self.next {
            return false;
        }
        self.next = now + INTERVAL;
        let seen = self.look();
        let before = std::mem::replace(&mut self.seen, seen);
        // What was rejected is not tried again.
        self.seen != self.tried && self.seen == before
    }

    fn look(&self) -> Stamps {
        self.used.keys().map(|path| (path.clone(), FileStamp::of(path))).collect()
    }

    /// Applies a file, or nothing of it.
    fn take(&mut self, file: &mut ConfigurationFile, read: Reread<Cli>, target: &mut Target<'_>) {
        let Some((args, node)) = metered(&read.cli) else { return };
        let prepared = match self.prepare(args, &read) {
            Ok(prepared) => prepared,
            Err(error) => return reject(file.path(), &error.in_one_line()),
        };
        let path = file.path().display();
        let mut applied = Vec::new();
        if let Some(rules) = &prepared.alerts {
            if !target.pipeline.change_alerts(rules) {
                return reject(file.path(), "too many rules for alerts in one run; restart");
            }
            applied.push("alerts");
        }
        if prepared.prices.is_some() {
            if let (Some(price), Some(node)) = (&mut target.node_price, node) {
                price.change(node, &args.price);
            }
            self.price.clone_from(&args.price);
            self.repricing = Some(Repricing { book: prepared.prices });
            applied.push("prices");
        }
        if let (Some(change), Some(manager)) = (prepared.policies, &self.manager) {
            let had_pricers = self.has_pricers();
            match manager.change(change) {
                Ok(thread) => self.loading = Some((thread, had_pricers)),
                Err(error) => warn!("policies are not loaded: {error}"),
            }
            target.scheduler.watch(manager);
            applied.push("policies");
        }
        if is_changed(&read, &LOG) {
            log::change_level(read.cli.log, variable);
            applied.push("log level");
        }
        for warning in &read.warnings {
            warn!("{warning}");
        }
        for change in &read.changes {
            let is_applied = |option| match self.manager {
                _ if PRICES.contains(&option) || ALERTS.contains(&option) => true,
                None if POLICIES.contains(&option) => false,
                _ => POLICIES.contains(&option) || LOG.contains(&option),
            };
            if !change.option.is_some_and(is_applied) {
                warn!("{path}:{change}: needs a restart; what was configured remains");
            }
        }
        match applied.as_slice() {
            [] => info!("{path}: read again; nothing to apply"),
            applied => info!("{path}: read again; applied: {}", applied.join(", ")),
        }
        let stamp = |path: PathBuf| {
            let seen = self.tried.get(&path).copied();
            (path.clone(), seen.unwrap_or_else(|| FileStamp::of(&path)))
        };
        self.used = files(file.path(), args).into_iter().map(stamp).collect();
        (self.seen, self.tried) = (self.used.clone(), self.used.clone());
        file.accept(read);
    }

    /// Reads what the changes name.
    fn prepare(&self, args: &MeteringArgs, read: &Reread<Cli>) -> Result<Prepared, CommandError> {
        let is_new = |path: &PathBuf| {
            !self.used.contains_key(path) || self.used.get(path) != self.tried.get(path)
        };
        let mut prepared = Prepared::default();
        if is_changed(read, &PRICES) || args.price.prices.iter().any(is_new) {
            prepared.prices = Some(book_file::load(&args.price.prices)?);
        }
        if is_changed(read, &ALERTS) || alerts::files(&args.alerts).any(|path| is_new(&path)) {
            prepared.alerts = Some(alerts::select(&args.alerts)?);
        }
        let of_policies = policy_files(&args.policies);
        let has_other = is_changed(read, &POLICIES) || of_policies.iter().any(is_new);
        if has_other && self.manager.is_some() {
            let config = policies::config(&args.policies, Evaluations::Periodic)?;
            prepared.policies = Some(PolicyChange::new(&config)?);
        }
        Ok(prepared)
    }
}

fn reject(path: &Path, reasons: &str) {
    let path = path.display();
    error!("{path}: not applied, what was configured remains: {reasons}");
}

fn is_changed(read: &Reread<Cli>, options: &[&str]) -> bool {
    read.changes.iter().filter_map(|change| change.option).any(|it| options.contains(&it))
}

/// The options of a command that goes on.
fn metered(cli: &Cli) -> Option<(&MeteringArgs, Option<&NodeArgs>)> {
    match &cli.command {
        Command::Run(args) => Some((&args.machine.live.metering, None)),
        Command::Agent(args) => Some((&args.machine.live.metering, Some(&args.node))),
        Command::Gateway(args) => Some((&args.live.metering, None)),
        _ => None,
    }
}

/// The file of the configuration, and those that it names.
fn files(file: &Path, args: &MeteringArgs) -> Vec<PathBuf> {
    let named = args.price.prices.iter().cloned().chain(alerts::files(&args.alerts));
    named.chain(policy_files(&args.policies)).chain([file.to_owned()]).collect()
}

/// The files of policies. Their directory is watched by itself.
fn policy_files(args: &PolicyArgs) -> Vec<PathBuf> {
    policies::inputs(&PolicyArgs { dir: None, ..args.clone() }).collect()
}
