//! Any bytes as files that commands read, and as lines of the work socket.

use std::io::Cursor;

use phasemeter_bill::overlay::Profile;
use phasemeter_bill::read;
use phasemeter_bill::status::Summary;
use phasemeter_meter::date::Date;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::units::Timestamp;
use phasemeter_price_import::{FileFormat, Imported};
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
