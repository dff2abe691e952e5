//! Any bytes as files that commands read, and as lines of the work socket.

use std::io::Cursor;

use phasemeter_bill::dimension::Dimension;
use phasemeter_bill::invoice::Invoice;
use phasemeter_bill::overlay::Profile;
use phasemeter_bill::read;
use phasemeter_bill::status::Summary;
use phasemeter_bill::trial::Record;
use phasemeter_claims::{Content, InstantFormat, Restored, State};
use phasemeter_meter::date::Date;
use phasemeter_meter::price::{PriceBook, user_book};
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_price_import::{FileFormat, Imported};
use phasemeter_sources::mapping::{MappingFile, Mappings};
use phasemeter_work::mapping::WorkMappings;
use phasemeter_work::message::{LineBuffer, MAX_LINE};

/// A report is rejected, or read the same again; `status` shows it or rejects it.
pub(crate) fn report(bytes: &[u8]) {
    if let Ok((_, digest)) = read::read("report", bytes) {
        let again = read::read("report", bytes).unwrap().1;
        assert_eq!(digest, again);
    }
    let _ = Summary::parse(bytes);
}

/// A profile is rejected, or read.
pub(crate) fn profile(bytes: &[u8]) {
    let _ = Profile::read("profile", bytes);
}

/// A price file is rejected, or its prices are those of instance types that the book has. The first byte chooses the
/// cloud.
pub(crate) fn price_file(bytes: &[u8]) {
    let Some((&cloud, text)) = bytes.split_first() else { return };
    let clouds = [
        (FileFormat::AwsCsv, "aws"),
        (FileFormat::AwsJson, "aws"),
        (FileFormat::Azure, "azure"),
        (FileFormat::Gcp, "gcp"),
    ];
    let (format, provider) = clouds[usize::from(cloud) % clouds.len()];
    let book = PriceBook::built_in();
    let mut imported = Imported::new(&book, provider, "source".to_owned());
    let today = Date::of(Timestamp::EPOCH);
    let _ = format.read("prices", Cursor::new(text), (None, today), &mut imported);
    let is_known = |instance: &str| {
        book.rows().iter().any(|row| row.provider == provider && row.instance_type == instance)
    };
    assert!(imported.rows().all(|row| is_known(&row.instance_type)));
}

/// Lines of the work socket are the same messages however they are divided, as many as there are lines at most.
pub(crate) fn work_message(bytes: &[u8]) {
    let messages = |parts: &mut dyn Iterator<Item = &[u8]>| {
        let (mut buffer, mut messages) = (LineBuffer::default(), Vec::new());
        parts.for_each(|part| buffer.push(part, &mut |message| messages.push(message)));
        buffer.finish(&mut |message| messages.push(message));
        messages
    };
    let whole = messages(&mut std::iter::once(bytes));
    assert_eq!(whole, messages(&mut bytes.chunks(1)));
    assert_eq!(whole, messages(&mut bytes.chunks(MAX_LINE - 1)));
    assert!(whole.len() <= bytes.split(|byte| *byte == b'\n').count());
}

/// A record of a trial is rejected, or survives a round trip.
pub(crate) fn trial(bytes: &[u8]) {
    let again = |record: &Record| Record::parse("record", &record.to_json()).unwrap();
    if let Ok(record) = Record::parse("record", bytes) {
        // Numbers are rounded when they are read.
        assert_eq!(again(&again(&record)), again(&record));
    }
}

/// Claims are rejected, or survive a round trip; and what was stored with a request changes nothing if it is of the same time.
pub(crate) fn claims(bytes: &[u8]) {
    let format = InstantFormat { clock: None, boot_id: None };
    let Some(content) = Content::parse(bytes) else { return };
    let Restored { until, began, newest } =
        content.restore(&format, WallOffset::default()).unwrap();
    let state = State { until, began, wall: WallOffset::default() };
    let text = Content::new(content.instance().map(str::to_owned), &state, &format).to_json();
    let again = Content::parse(&text).unwrap();
    let mut restored = again.restore(&format, WallOffset::default()).unwrap();
    assert_eq!((&restored.until, restored.began, restored.newest), (&state.until, began, newest));
    restored.add(again.restore(&format, WallOffset::default()).unwrap());
    assert_eq!((restored.until, restored.newest), (state.until, newest));
}

/// An invoice is rejected with one line, or is the same in any order of its rows.
pub(crate) fn invoice(bytes: &[u8]) {
    for by in [&[Dimension::Team][..], &[Dimension::Namespace, Dimension::Model]] {
        match Invoice::read("invoice", bytes, by) {
            Ok(invoice) => {
                let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
                let blank = |line: &&[u8]| {
                    String::from_utf8_lossy(line).trim_start_matches('\u{feff}').trim().is_empty()
                };
                let header = lines.iter().position(|line| !blank(line)).unwrap();
                lines[header + 1..].reverse();
                assert_eq!(Invoice::read("invoice", &*lines.join(&b'\n'), by).unwrap(), invoice);
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

/// A file of mappings, of GPUs or of work, is rejected with one line, or is added to those that are built in.
pub(crate) fn mapping(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match MappingFile::parse(&text) {
        Ok(file) => Mappings::built_in().unwrap().replace(file),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    match WorkMappings::parse(&text) {
        Ok(mappings) => WorkMappings::built_in().unwrap().replace(mappings),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// A user's price book is rejected with one line, or has at most a row per line, each once.
pub(crate) fn price_book(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match user_book::parse(&text, "source") {
        Ok(rows) => {
            assert!(rows.len() < text.lines().count());
            assert!(rows.iter().all(|row| !row.instance_type.is_empty()));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
