//! `phasemeter overlay`: a JSON report as tracks in a file of PyTorch's profiler.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use phasemeter_bill::error::BillError;
use phasemeter_bill::overlay::{self, Overlay, OverlayError, Profile};
use phasemeter_bill::report::Report;
use phasemeter_cli::OverlayArgs;
use phasemeter_logs::log::decode;
use phasemeter_terminal::duration::seconds;
use phasemeter_terminal::money::amount;
use phasemeter_terminal::number::counted;
use tracing::{info, warn};

use super::bill;
use super::error::CommandError;
use super::files::ReplacedFile;
use super::output_files::OutputFiles;

/// Reads both, and writes the profile with the tracks of the report.
pub(super) fn run(args: &OverlayArgs) -> Result<(), CommandError> {
    let mut files = OutputFiles::default();
    files.add_input(&args.profile);
    files.add_input(&args.report);
    let output = args.output.as_deref().map(|path| {
        files.add_output("--output", path)?;
        Ok::<_, CommandError>((ReplacedFile::at(path)?, path))
    });
    let output = output.transpose()?;
    let report = bill::open(&args.report, &args.report.display().to_string());
    let (report, _) = report.map_err(BillError::from)?;
    let input = Input { path: &args.profile, name: args.profile.display().to_string() };
    let profile = Profile::read(&input.name, input.open()?)?;
    let laid = match output {
        Some((file, path)) => file.write_with(|out| {
            let out = BufWriter::new(out);
            let laid = if is_gzip(path) {
                input.lay(&report, &profile, GzEncoder::new(out, Compression::default()))
            } else {
                input.lay(&report, &profile, out)
            };
            laid.map_err(|error| match error {
                OverlayError::Output(source) => file.error(source),
                error => error.into(),
            })
        })?,
        None => match input.lay(&report, &profile, BufWriter::new(io::stdout().lock())) {
            // A closed pipe is not an error.
            Err(OverlayError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(());
            }
            laid => laid?,
        },
    };
    tell(&laid, &profile);
    Ok(())
}

/// The profile, which is read twice.
struct Input<'a> {
    path: &'a Path,
    name: String,
}

impl Input<'_> {
    /// Its text, decompressed.
    fn open(&self) -> Result<Box<dyn Read + Send>, OverlayError> {
        let unreadable = OverlayError::unreadable(&self.name);
        if !fs::metadata(self.path).map_err(&unreadable)?.is_file() {
            let problem = "is not a regular file, and has to be read twice".to_owned();
            return Err(OverlayError::NotAProfile { file: self.name.clone(), problem });
        }
        File::open(self.path).and_then(|file| decode(Box::new(file))).map_err(unreadable)
    }

    fn lay(
        &self,
        report: &Report,
        profile: &Profile,
        out: impl Write,
    ) -> Result<Overlay, OverlayError> {
        overlay::write(&self.name, profile, report, self.open()?, out)
    }
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// Says what was laid over the profile, and how fine it is.
fn tell(laid: &Overlay, profile: &Profile) {
    let gpus = counted(laid.gpus as u64, "GPU");
    let cost = laid.cost.map_or_else(|| "no price".to_owned(), |cost| amount(cost, 6));
    let [metered, length] = [laid.metered, profile.length()].map(seconds);
    info!("{gpus}, metered for {metered} of the profile's {length}: {cost}");
    match laid.step.map(|step| (step, seconds(step))) {
        None => warn!("the report has no utilization over time, so all of it is unobserved"),
        Some((step, text)) if step > profile.length() => warn!(
            "phases are those of {text} each, which is longer than the profile: the mean of more than it shows; a \
             report of a shorter run has shorter steps"
        ),
        Some(_) => {}
    }
}
