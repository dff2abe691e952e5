//! `phasemeter record`: what the driver says, as a log that can be audited.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::Nanos;
use phasemeter_sources::nvidia_smi::recording;
use phasemeter_sources::nvml::{Driver, Observation, Observed};
use tracing::{info, warn};

use super::Failure;
use super::gpus;
use super::wakes::Wakes;
use crate::cli::RecordArgs;
use crate::sampler::{Sampler, SamplerConfig};

/// What was observed is fetched so often, and hanging calls are found out.
const ROUND: Duration = Duration::from_millis(250);

/// Rows are written so often: what a crash may lose.
const FLUSH: Duration = Duration::from_secs(1);

/// A call that does not come back is given up after so long at the end.
const GRACE: Duration = Duration::from_secs(1);

/// Records until it is told to end, or its time is over.
pub(super) fn run(args: &RecordArgs) -> Result<(), Failure> {
    let discovery = Driver::installed().discover()?;
    let (selection, gpus) = gpus::choose(&args.gpus, &discovery)?;
    let refused = |what| move |source| Failure::System { what, source };
    let wakes = Wakes::listen(false).map_err(refused("signals cannot be received"))?;
    // Where the file cannot be made, nothing was begun.
    let unwritten = |source| Failure::Write { path: shown(&args.file).into(), source };
    let mut log = Log::create(&args.file, &gpus).map_err(unwritten)?;
    let config = SamplerConfig { tick: args.interval, stale_after: Nanos::SECOND };
    let mut sampler = Sampler::start(discovery, &selection.gpus, config)
        .map_err(refused("the threads that ask the driver cannot be started"))?;

    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    match record(&mut sampler, &mut log, &wakes, until) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        recorded => recorded.map_err(unwritten)?,
    }
    let (rows, gpus, file) = (log.written, gpus.len(), shown(&args.file));
    info!(rows, gpus, "{rows} readings of {gpus} GPUs are in {}", file.display());
    match sampler.stats().dropped() {
        0 => {}
        lost => warn!(lost, "{lost} more were lost: the log is written too slowly"),
    }
    Ok(())
}

fn record(
    sampler: &mut Sampler,
    log: &mut Log<'_>,
    wakes: &Wakes,
    until: Option<Instant>,
) -> io::Result<()> {
    let mut flushed = Instant::now();
    loop {
        let left = until.map_or(ROUND, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() || wakes.next(left.min(ROUND)).is_some() {
            break;
        }
        sampler.drain(|observation| log.take(observation));
        if flushed.elapsed() >= FLUSH {
            log.flush()?;
            flushed = Instant::now();
        }
    }
    for place in sampler.stop(GRACE) {
        let name = log.gpus.get(place).map_or("", |gpu| &gpu.name);
        warn!(gpu = name, "{name} does not answer; its last reading is missing");
    }
    sampler.drain(|observation| log.take(observation));
    log.finish()
}

/// A log that is being written. Only whole rows reach the file.
struct Log<'a> {
    out: Output,
    gpus: &'a [GpuIdentity],
    /// Not written yet.
    readings: Vec<(usize, Reading)>,
    written: usize,
}

impl<'a> Log<'a> {
    fn create(path: &Path, gpus: &'a [GpuIdentity]) -> io::Result<Self> {
        let mut out = Output::create(path)?;
        let mut header = Vec::new();
        recording::write_header(&mut header)?;
        out.write(&header)?;
        Ok(Self { out, gpus, readings: Vec::new(), written: 0 })
    }

    /// Keeps a reading. A log has no place for the rest.
    fn take(&mut self, observation: Observation) {
        if let Observed::Reading(reading) = observation.what {
            self.readings.push((observation.gpu, reading));
        }
    }

    /// Writes what there is, in the order of time over all GPUs.
    fn flush(&mut self) -> io::Result<()> {
        self.readings.sort_by_key(|(gpu, reading)| (reading.at, *gpu));
        let mut rows = Vec::new();
        for (place, reading) in self.readings.drain(..) {
            if let Some(gpu) = self.gpus.get(place) {
                recording::write_row(&mut rows, gpu, &reading)?;
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

/// Where a log goes.
enum Output {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<File>),
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Plain(Box::new(io::stdout())));
        }
        let file = File::create(path)?;
        Ok(match path.extension() {
            Some(extension) if extension == "gz" => {
                Self::Gzip(GzEncoder::new(file, Compression::default()))
            }
            _ => Self::Plain(Box::new(file)),
        })
    }

    /// Writes, and keeps nothing back: what is written can be read, and is there after a crash.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let out: &mut dyn Write = match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
        };
        out.write_all(bytes)?;
        out.flush()
    }

    /// Nothing follows.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(out) => out.try_finish(),
        }
    }
}

/// The file in messages.
fn shown(file: &Path) -> &Path {
    if file.as_os_str() == "-" { Path::new("standard output") } else { file }
}
