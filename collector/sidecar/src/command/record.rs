//! `phasemeter record`: writes readings of the driver as a log for a later audit.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use phasemeter_meter::device_tracker::DeviceTracker;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::nvidia_smi::csv_writer;
use phasemeter_sources::nvml::{Driver, Observation, Observed};
use tracing::{info, warn};

use super::error::CommandError;
use super::gpus;
use super::live_error::LiveError;
use super::output_files::OutputFiles;
use super::signals::SignalListener;
use crate::cli::RecordArgs;
use crate::sampler::{Sampler, SamplerConfig};

/// Interval of draining observations and detecting hung calls.
const DRAIN_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of writing rows: a crash loses at most this much.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait at the end for calls that have not returned.
const GRACE: Duration = Duration::from_secs(1);

/// Records until a signal, or until its duration is over.
pub(super) fn run(args: &RecordArgs) -> Result<(), CommandError> {
    let mut files = OutputFiles::default();
    files.add_stream(io::stderr(), "standard error");
    files.add_output("FILE", &args.file)?;
    let failed = |what| move |source| CommandError::System { what, source };
    let signals = SignalListener::start(false).map_err(failed("cannot listen for signals"))?;
    let discovery = Driver::installed().discover().map_err(LiveError::from)?;
    let (selection, gpus) = gpus::choose(&args.gpus, &discovery)?;
    // Created before sampling starts, so that an error has no side effects.
    let write_error = |source| CommandError::Write { path: display(&args.file).into(), source };
    let mut log = Log::create(&args.file, &gpus).map_err(write_error)?;
    let config = SamplerConfig { tick: args.interval, stale_after: Nanos::SECOND };
    let clock = Clock::start();
    let mut sampler = Sampler::start(discovery, &selection.gpus, config, clock)
        .map_err(failed("cannot start the sampler threads"))?;

    signals.ready();
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    if let Err(error) = record(&mut sampler, &mut log, &signals, clock, until) {
        log.out.remove_incomplete();
        return match error.kind() {
            // The reader has closed the pipe.
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(write_error(error)),
        };
    }
    let (rows, gpus, file) = (log.written, gpus.len(), display(&args.file));
    info!(rows, gpus, "wrote {rows} readings of {gpus} GPUs to {}", file.display());
    match sampler.stats().dropped() {
        0 => {}
        lost => warn!(lost, "{lost} observations dropped: the log is written too slowly"),
    }
    Ok(())
}

fn record(
    sampler: &mut Sampler,
    log: &mut Log<'_>,
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
    for index in sampler.stop(GRACE) {
        let name = log.gpus.get(index).map_or("", |gpu| &gpu.name);
        warn!(gpu = name, "{name} does not respond; its last reading is missing");
    }
    sampler.drain(|observation| log.buffer(observation));
    log.end_at(end);
    log.finish()
}

/// A log under construction. Only complete rows reach the file.
struct Log<'a> {
    out: Output,
    gpus: &'a [GpuIdentity],
    /// Not written yet.
    readings: Vec<(usize, Reading)>,
    /// The time of the last reading of each GPU.
    last: Vec<Timestamp>,
    /// The last device metrics of each GPU.
    trackers: Vec<DeviceTracker>,
    written: usize,
}

impl<'a> Log<'a> {
    fn create(path: &Path, gpus: &'a [GpuIdentity]) -> io::Result<Self> {
        let mut out = Output::create(path)?;
        let mut header = Vec::new();
        csv_writer::write_header(&mut header)?;
        out.write(&header)?;
        let last = vec![Timestamp::EPOCH; gpus.len()];
        let trackers = vec![DeviceTracker::default(); gpus.len()];
        Ok(Self { out, gpus, readings: Vec::new(), last, trackers, written: 0 })
    }

    /// Buffers a reading, with the device metrics before it. The format has no columns for other
    /// observations.
    fn buffer(&mut self, Observation { gpu, observed }: Observation) {
        let (Some(last), Some(tracker)) = (self.last.get_mut(gpu), self.trackers.get_mut(gpu))
        else {
            return;
        };
        match observed {
            Observed::Reading(mut reading) => {
                reading.device = reading.device.or(&tracker.state(reading.at));
                self.readings.push((gpu, reading));
                *last = reading.at;
            }
            Observed::Activity(activity) => {
                activity.device_metrics().for_each(|metric| tracker.record(&metric));
            }
            Observed::DeviceMetric(metric) => tracker.record(&metric),
            Observed::Interval(_) | Observed::Process(_) | Observed::Event(_) => {}
        }
    }

    /// Ends the log of every GPU at `end`: a row without values ends one that was not read until then.
    fn end_at(&mut self, end: Timestamp) {
        let silent = self.last.iter().enumerate().filter(|(_, last)| **last < end);
        self.readings.extend(silent.map(|(gpu, _)| (gpu, Reading::at(end))));
    }

    /// Writes buffered readings of all GPUs in time order.
    fn flush(&mut self) -> io::Result<()> {
        self.readings.sort_by_key(|(gpu, reading)| (reading.at, *gpu));
        let mut rows = Vec::new();
        for (index, reading) in self.readings.drain(..) {
            if let Some(gpu) = self.gpus.get(index) {
                csv_writer::write_row(&mut rows, gpu, &reading)?;
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
            false => File::create(path)?,
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

/// The path in messages.
fn display(file: &Path) -> &Path {
    if file.as_os_str() == "-" { Path::new("standard output") } else { file }
}
