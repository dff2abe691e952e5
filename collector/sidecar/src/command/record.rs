//! `phasemeter record`: writes readings of the driver as a log for a later audit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use phasemeter_engine::sampler::{Sampler, SamplerConfig};
use phasemeter_logs::Counts;
use phasemeter_logs::nvidia_smi::csv_writer;
use phasemeter_meter::device_meter::DeviceMeter;
use phasemeter_meter::device_totals::Totals;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{Event, Observation, Observed, discover};
use tracing::{info, warn};

use super::driver;
use super::error::CommandError;
use super::files;
use super::gpu_selection;
use super::listing::counted;
use super::live_error::LiveError;
use super::output_files::OutputFiles;
use super::signals::{HangUp, SignalListener};
use crate::standard_error;
use phasemeter_cli::RecordArgs;

/// Interval of draining observations and detecting hung calls.
const DRAIN_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of writing rows: a crash loses at most this much.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Records until a signal, or until its duration is over.
pub(super) fn run(args: &RecordArgs) -> Result<(), CommandError> {
    let mut files = OutputFiles::default();
    files.add_stream(standard_error::stream(), "standard error");
    files.add_output("FILE", &args.file)?;
    if !args.overwrite && is_log(&args.file) {
        return Err(CommandError::Exists { path: args.file.clone() });
    }
    let signals = SignalListener::start(false, HangUp::Ends)?;
    let discovery = discover(driver::installed()).map_err(LiveError::from)?;
    let (selection, gpus) = gpu_selection::choose(&args.gpus, &discovery)?;
    // Created before sampling starts, so that an error has no side effects.
    let write_error = CommandError::write(display(&args.file));
    let mut log = Log::create(&args.file, gpus).map_err(&write_error)?;
    let config = SamplerConfig { tick: args.interval, stale_after: Nanos::SECOND };
    let clock = Clock::start();
    let mut sampler = Sampler::start(discovery, &selection.gpus, config, clock)
        .map_err(CommandError::system("cannot start the sampler threads"))?;

    signals.ready();
    // Rows on a terminal, or in a pipe, show it themselves.
    if args.file.as_os_str() != "-" {
        let seconds = args.interval.as_secs_f64();
        let end = args.duration.map(|duration| format!("for {} s", duration.as_secs_f64()));
        let end = end.unwrap_or_else(|| "until SIGINT (Ctrl-C) or SIGTERM".to_owned());
        let (gpus, file) = (counted(log.gpus.len() as u64, "GPU"), args.file.display());
        info!("recording {gpus} every {seconds} s to {file}, {end}");
    }
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    if let Err(error) = record(&mut sampler, &mut log, &signals, clock, until) {
        log.out.remove_incomplete();
        return match error.kind() {
            // The reader has closed the pipe.
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(write_error(error)),
        };
    }
    let (rows, gpus, file) = (log.written, log.gpus.len(), display(&args.file));
    info!(rows, gpus, "wrote {rows} readings of {gpus} GPUs to {}", file.display());
    let left: u64 = log.states.iter().flat_map(|state| state.xids.values()).sum();
    if left > 0 {
        warn!(left, "{left} XID errors are not in the log: a reading has one at most");
    }
    match sampler.stats().dropped() {
        0 => {}
        lost => warn!(lost, "{lost} observations dropped: the log is written too slowly"),
    }
    Ok(())
}

fn record(
    sampler: &mut Sampler,
    log: &mut Log,
    signals: &SignalListener,
    clock: Clock,
    until: Option<Instant>,
) -> io::Result<()> {
    let mut flushed = Instant::now();
    let mut watch = clock.watch();
    loop {
        if let Some(step) = watch.check().step {
            warn!("{step}; the log continues with the time that it began with");
        }
        let left =
            until.map_or(DRAIN_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() || signals.next(left.min(DRAIN_INTERVAL)).is_some() {
            break;
        }
        sampler.drain(|observation| log.buffer(observation));
        if flushed.elapsed() >= FLUSH_INTERVAL {
            log.flush()?;
            flushed = Instant::now();
        }
    }
    let end = clock.now();
    for index in sampler.stop(Sampler::GRACE) {
        let name = log.gpus.get(index).map_or("", |gpu| &gpu.name);
        warn!(gpu = name, "{name} does not respond; its last reading is missing");
    }
    sampler.drain(|observation| log.buffer(observation));
    log.end_at(end);
    log.finish()
}

/// A log under construction. Only complete rows reach the file.
struct Log {
    out: Output,
    /// The GPUs, as known now.
    gpus: Vec<GpuIdentity>,
    /// Not written yet.
    readings: Vec<(usize, Reading, Counts)>,
    states: Vec<GpuState>,
    written: usize,
}

/// What is recorded of a GPU with its next reading.
#[derive(Default)]
struct GpuState {
    /// The time of its last reading.
    last: Timestamp,
    /// Its device metrics.
    device: DeviceMeter,
    /// The times of the measurements of traffic that are recorded, over PCIe and NVLink.
    recorded: [Timestamp; 2],
    /// Numbers of errors by code that are not recorded yet: a row has one.
    xids: BTreeMap<u64, u64>,
}

impl GpuState {
    /// What was counted and is not recorded yet. Traffic is recorded once per measurement, near its time.
    fn counts(&mut self) -> Counts {
        let Totals { pcie, nvlink, .. } = self.device.totals.all();
        let mut bytes =
            [pcie, nvlink].into_iter().zip(&mut self.recorded).map(|(link, recorded)| {
                let (at, bytes) = link.measured().filter(|(at, _)| *at > *recorded)?;
                *recorded = at;
                Some(bytes)
            });
        let [pcie, nvlink] = [(); 2].map(|()| bytes.next().flatten());
        let xid = take_one(&mut self.xids).and_then(|code| u32::try_from(code).ok());
        Counts { xid, pcie, nvlink }
    }
}

/// Takes one error of those left.
fn take_one(xids: &mut BTreeMap<u64, u64>) -> Option<u64> {
    let mut first = xids.first_entry()?;
    let code = *first.key();
    match first.get() {
        0 | 1 => drop(first.remove()),
        _ => *first.get_mut() -= 1,
    }
    Some(code)
}

impl Log {
    fn create(path: &Path, gpus: Vec<GpuIdentity>) -> io::Result<Self> {
        let mut out = Output::create(path)?;
        let mut header = Vec::new();
        csv_writer::write_header(&mut header)?;
        out.write(&header)?;
        let states = gpus.iter().map(|_| GpuState::default()).collect();
        Ok(Self { out, gpus, readings: Vec::new(), states, written: 0 })
    }

    /// Buffers a reading, with the device metrics and errors before it. The format has no columns for
    /// other observations.
    fn buffer(&mut self, Observation { gpu, observed }: Observation) {
        let Some(state) = self.states.get_mut(gpu) else { return };
        match observed {
            Observed::Reading(mut reading) => {
                state.device.complete(&mut reading);
                self.readings.push((gpu, reading, state.counts()));
                state.last = reading.at;
            }
            Observed::Activity(activity) => {
                activity.device_metrics().for_each(|metric| state.device.measure(&metric));
            }
            Observed::DeviceMetric(metric) => {
                state.device.measure(&metric);
            }
            Observed::Event(Event::Xid { code, count }) => {
                *state.xids.entry(code).or_default() += count;
            }
            Observed::MigMode(enabled) => {
                if let Some(identity) = self.gpus.get_mut(gpu) {
                    identity.set_mig_mode(enabled);
                }
            }
            Observed::Interval(_)
            | Observed::Process(_)
            | Observed::ProcessUse(_)
            | Observed::MigInstance(_)
            | Observed::Event(_) => {}
        }
    }

    /// Ends the log of every GPU at `end`: a row without values ends one that was not read until then.
    fn end_at(&mut self, end: Timestamp) {
        let silent = self.states.iter_mut().enumerate().filter(|(_, state)| state.last < end);
        let rows = silent.map(|(gpu, state)| (gpu, Reading::at(end), state.counts()));
        self.readings.extend(rows);
    }

    /// Writes buffered readings of all GPUs in time order.
    fn flush(&mut self) -> io::Result<()> {
        self.readings.sort_by_key(|(gpu, reading, _)| (reading.at, *gpu));
        let mut rows = Vec::new();
        for (index, reading, counts) in self.readings.drain(..) {
            if let Some(gpu) = self.gpus.get(index) {
                csv_writer::write_row(&mut rows, gpu, &reading, &counts)?;
                self.written += 1;
            }
        }
        self.out.write(&rows)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.out.finish()
    }
}

/// The output of a log.
struct Output {
    format: Format,
    /// `None` if it is not a regular file, but a pipe for example.
    file: Option<File>,
    /// The length of the file after the last complete write.
    complete: u64,
}

enum Format {
    Plain(File),
    Gzip(GzEncoder<File>),
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let file = match path.as_os_str() == "-" {
            true => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            false => open(path)?,
        };
        let (out, status) = (file.try_clone()?, file.metadata()?);
        let format = match path.extension() {
            Some(extension) if extension == "gz" => {
                Format::Gzip(GzEncoder::new(out, Compression::default()))
            }
            _ => Format::Plain(out),
        };
        Ok(Self { format, complete: status.len(), file: status.is_file().then_some(file) })
    }

    /// Writes and flushes, so that the data survives a crash.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let out: &mut dyn Write = match &mut self.format {
            Format::Plain(out) => out,
            Format::Gzip(out) => out,
        };
        out.write_all(bytes)?;
        out.flush()?;
        if let Some(file) = &self.file {
            self.complete = file.metadata()?.len();
        }
        Ok(())
    }

    /// Completes the output.
    fn finish(&mut self) -> io::Result<()> {
        match &mut self.format {
            Format::Plain(_) => Ok(()),
            Format::Gzip(out) => out.try_finish(),
        }
    }

    /// Removes what a failed write has left, which may end within a row.
    fn remove_incomplete(self) {
        let Self { format, file, complete } = self;
        // An encoder writes when it is dropped.
        drop(format);
        if let Some(Err(error)) = file.map(|file| file.set_len(complete)) {
            warn!("the last row of the log may be incomplete: {error}");
        }
    }
}

/// Whether a file has data that an earlier run may have recorded.
fn is_log(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0)
}

/// Opens a file, or waits for the reader of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let is_fifo = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
    match is_fifo {
        true => File::options().write(true).open(path),
        false => files::open_empty(path, files::PUBLIC),
    }
}

/// The path in messages.
fn display(file: &Path) -> &Path {
    if file.as_os_str() == "-" { Path::new("standard output") } else { file }
}
