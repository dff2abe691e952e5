//! Meters a source, exports and reports it, and checks the accounts.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;
use std::thread;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Finished, Pipeline, RequestSink, Settings};
use phasemeter_engine::policies::{PolicyResults, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_logs::log::Input;
use phasemeter_logs::nvidia_smi::{LogOptions, Logs};
use phasemeter_logs::{Source, SourceError};
use phasemeter_meter::alert::{Condition, Metric, Rule};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::HolderAccount;
use phasemeter_meter::holders::HolderAccounts;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::{Account, Thresholds};
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_otlp::OtlpFile;
use phasemeter_otlp::encode::ExportSettings;
use phasemeter_otlp::experiment::ExperimentRequest;
use phasemeter_report::bar::Bars;
use phasemeter_report::{Provenance, Report};

static BOOK: LazyLock<PriceBook> = LazyLock::new(PriceBook::built_in);

/// A temporary file, in memory if possible.
pub(super) struct LogFile(pub(super) PathBuf);

impl LogFile {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
        let name = format!("phasemeter-{}-{:?}", process::id(), thread::current().id());
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

pub(super) fn audit(path: &Path, options: &LogOptions) {
    match Logs::open(&[Input::File(path.to_owned())], options) {
        Ok(source) => meter(source, |source| source.rejected().total),
        Err(SourceError::Log(why)) => assert!(!why.to_string().contains('\n')),
        Err(other) => panic!("cannot read the file: {other}"),
    }
}

/// Meters a source, exports and reports it, and checks the accounts.
pub(super) fn meter<S: Source>(mut source: S, rejected: fn(&S) -> u64) {
    let mut file = OtlpFile::new(io::sink());
    let sink: RequestSink<'_> =
        Box::new(move |outgoing| outgoing.requests.iter().try_for_each(|it| file.write(it)));
    let rate = Rate::new(3_300_000_001).unwrap();
    let settings = Settings {
        meter: MeterConfig::default(),
        pricing: Pricing::new(
            PriceOptions { given: Some(rate), ..PriceOptions::default() },
            Quotes::default(),
            BOOK.clone(),
        ),
        alerts: alert_rules(),
        work: BTreeMap::from([("samples".to_owned(), 3)]),
        export: Some((ExportSettings::default(), sink)),
    };
    let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
    pipeline.run(&mut source, |_| {}).expect("damaged rows are not fatal");
    let run = pipeline.finish(source.gpus(), |_| PolicyResults::default()).unwrap();
    assert_eq!(run.gpus.len(), source.gpus().len());
    accounts_sum_to_bill(&run, rate);
    can_be_rendered(&source, &run, rejected(&source));
}

/// What was observed of each GPU, by name: time and cost of each account, waste, energy and statistics. Not
/// its span, which ends with that of the log.
pub(super) fn observed<S: Source>(mut source: S) -> BTreeMap<String, String> {
    let settings = Settings {
        meter: MeterConfig::default(),
        pricing: Pricing::new(
            PriceOptions { given: Rate::new(3_600_000_000), ..PriceOptions::default() },
            Quotes::default(),
            BOOK.clone(),
        ),
        alerts: AlertRules::default(),
        work: BTreeMap::new(),
        export: None,
    };
    let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
    pipeline.run(&mut source, |_| {}).expect("damaged rows are not fatal");
    let run = pipeline.finish(source.gpus(), |_| PolicyResults::default()).unwrap();
    let gpus = source.gpus().iter().zip(&run.gpus);
    let observed = gpus.map(|(identity, gpu)| {
        let summary = gpu.meter.summary();
        let accounts = Account::ALL.into_iter().filter(|account| *account != Account::Unobserved);
        let accounts: Vec<_> = accounts.map(|account| summary.accounts[account]).collect();
        let statistics = (summary.utilization_p50, summary.utilization_p95, summary.memory_peak);
        let (waste, energy) = (summary.waste, summary.energy.joules());
        let text = format!("{:?} {accounts:?} {waste:?} {energy:?} {statistics:?}", identity.model);
        (identity.name.clone(), text)
    });
    observed.collect()
}

/// A rule of each kind.
fn alert_rules() -> AlertRules {
    let rule = |quantity, condition| {
        let metric = Metric::of(quantity).unwrap();
        let minute = Nanos::from_secs(60);
        Rule::new(metric.name().to_owned(), metric, condition, minute, minute).unwrap()
    };
    let rules = [
        rule(Quantity::Utilization, Condition::Below(500_000)),
        rule(Quantity::MemoryUsed, Condition::Above(500_000)),
        rule(Quantity::Power, Condition::Above(500_000)),
        rule(Quantity::Temperature, Condition::Above(50_000_000)),
    ];
    AlertRules { rules: rules.into(), ..AlertRules::default() }
}

/// The accounts of every GPU sum to its bill.
fn accounts_sum_to_bill(run: &Finished, rate: Rate) {
    for gpu in &run.gpus {
        let summary = gpu.meter.summary();
        let accounts = summary.accounts;
        let exact = u128::from(rate.nano_usd_per_hour()) * u128::from(summary.length().0);
        let exact = i128::try_from(exact / u128::from(NANOS_PER_HOUR)).unwrap();
        assert_eq!(accounts.all().time, summary.length());
        assert_eq!(accounts.all().cost, NanoUsd(exact));
        assert_eq!(accounts.utilized_cost() + accounts.waste(), accounts.observed().cost);
        let waste = summary.waste;
        assert_eq!(waste.starvation + waste.idle + waste.underload, accounts.waste());
        let missing: Nanos = summary.unobserved.missing.into_iter().sum();
        assert_eq!(missing + summary.unobserved.no_reading, accounts[Account::Unobserved].time);
        accounts_by_holder_sum_to_accounts(&gpu.meter);
    }
}

fn accounts_by_holder_sum_to_accounts(gpu: &GpuMeter) {
    let holders = gpu.holders();
    for account in Account::ALL.into_iter().filter(|_| !holders.is_empty()) {
        let kept = holders.iter().map(|(_, accounts)| accounts);
        let all = kept.chain(holders.earlier().map(|it| it.accounts));
        let of =
            |accounts: &HolderAccounts| HolderAccount::ALL.map(|of| accounts.balance(of, account));
        let mut sum = holders.nobody(account);
        all.flat_map(of).for_each(|balance| sum += balance);
        assert_eq!(sum, gpu.accounts()[account]);
    }
}

fn can_be_rendered(source: &impl Source, run: &Finished, rejected_total: u64) {
    let title = "train.csv".to_owned();
    let provenance = Provenance { title, rejected_total, ..Provenance::default() };
    let input = phasemeter_report::Input::of(run, source.gpus(), Thresholds::default(), provenance);
    let report = Report::build(&input);
    phasemeter_report::json::write(&report, io::sink()).unwrap();
    let page = phasemeter_report::text::render(
        &report,
        &Bars::of(&input),
        &phasemeter_report::text::TextOptions::default(),
    );
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
}
