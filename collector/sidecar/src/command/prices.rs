//! `phasemeter prices`: lists, compares and imports price books.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use phasemeter_engine::pricing::book_file::{self, BookFileError};
use phasemeter_meter::price::{PriceBook, user_book};
use phasemeter_plan::prices::{Filter, age, diff, list, show};
use phasemeter_plan::worksheet::Worksheet;
use tracing::{info, warn};

use super::error::CommandError;
use super::plan;
use super::today::today;
use phasemeter_cli::{BookArgs, Cloud, Format, ImportArgs, ListArgs, PricesCommand};
use phasemeter_price_import::{FileFormat, Imported};

/// The largest file of a cloud that is read: the offer file of a region has hundreds of megabytes.
const MAX_BYTES: u64 = 4 << 30;

/// Instance types without a known GPU that are listed.
const LISTED: usize = 8;

/// Runs the subcommand.
pub(super) fn run(command: PricesCommand) -> Result<(), CommandError> {
    let (question, format, worksheet): (_, Format, Worksheet) = match command {
        PricesCommand::List(args) => {
            let ListArgs { provider, region, book: BookArgs { prices, format } } = args;
            let filter = Filter { provider, region, name: None };
            ("prices list", format, list(&book_file::load(&prices)?, &filter, today())?)
        }
        PricesCommand::Show(args) => {
            let ListArgs { provider, region, book: BookArgs { prices, format } } = args.list;
            let filter = Filter { provider, region, name: Some(args.name) };
            ("prices show", format, show(&book_file::load(&prices)?, &filter, today())?)
        }
        PricesCommand::Age(args) => {
            ("prices age", args.book.format, age(&book_file::load(&args.book.prices)?, today()))
        }
        PricesCommand::Diff(args) => {
            let names = [&args.before, &args.after].map(|path| path.display().to_string());
            let [before, after] =
                [args.before, args.after].map(|path| book_file::load_alone(&path));
            let names = [names[0].as_str(), names[1].as_str()];
            ("prices diff", args.format, diff(names, [&before?, &after?]))
        }
        PricesCommand::Import(args) => return import(&args),
    };
    plan::report(question, worksheet, Vec::new(), format)
}

/// Writes a book of a cloud's prices.
fn import(args: &ImportArgs) -> Result<(), CommandError> {
    let book = book_file::load(&args.prices)?;
    let (provider, source) = match args.cloud {
        Cloud::Aws => ("aws", "AWS price list"),
        Cloud::Azure => ("azure", "Azure retail prices"),
        Cloud::Gcp => ("gcp", "Google Cloud Billing Catalog"),
    };
    let mut imported = Imported::new(&book, provider, source.to_owned());
    for path in &args.files {
        let file = path.display().to_string();
        let unreadable = |source| BookFileError::Unreadable { path: path.clone(), source };
        let opened = File::open(path).map_err(unreadable)?;
        let mut text = BufReader::new(opened.take(MAX_BYTES));
        let first = text.fill_buf().map_err(unreadable)?;
        let is_json = first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let format = match args.cloud {
            Cloud::Aws if is_json => FileFormat::AwsJson,
            Cloud::Aws => FileFormat::AwsCsv,
            Cloud::Azure => FileFormat::Azure,
            Cloud::Gcp => FileFormat::Gcp,
        };
        format.read(&file, text, (args.as_of, today()), &mut imported)?;
    }
    summarize(&imported, &book);
    match write(imported) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

fn summarize(imported: &Imported<'_>, book: &PriceBook) {
    let types = book.rows().len();
    info!("{} prices imported, of instance types among {types} known ones", imported.prices);
    if !imported.unknown.is_empty() {
        let listed: Vec<_> = imported.unknown.iter().take(LISTED).map(String::as_str).collect();
        warn!(
            "{} instance types have GPUs of unknown model and are left out: {}; name their GPUs in a \
             price book of your own and add it with --prices",
            imported.unknown.len(),
            listed.join(", ")
        );
    }
}

fn write(imported: Imported<'_>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}", user_book::COLUMNS.join(","))?;
    for row in imported.rows() {
        writeln!(out, "{row}")?;
    }
    out.flush()
}
