//! Decodes the lines of a log, in any of its formats.

use phasemeter_meter::units::Timestamp;

use super::dmon::{DmonDecoder, DmonTimes};
use super::documents::{Completed, Documents};
use super::error::LineError;
use super::format::Format;
use super::sample::Sample;
use super::series::SeriesStore;
use super::{otlp_json, prometheus};
use crate::log::lines::MAX_ROW;

/// Maximum length of a line with an OTLP request: the largest that a gRPC server accepts by default, as
/// JSON.
const MAX_REQUEST: usize = 16 << 20;

/// Maximum length of a document of series.
const MAX_SERIES: usize = 128 << 20;

/// Decodes the lines of a log.
pub(super) enum Decoder {
    /// With the time of the page.
    Prometheus(Option<Timestamp>),
    Dmon(DmonDecoder),
    OtlpJson(Documents),
    /// All of it is read before the first value.
    Series(Documents, SeriesStore),
}

/// The samples of a line, and the error in this line or one before it.
#[derive(Default)]
pub(super) struct Decoded<'a> {
    pub(super) samples: Vec<Sample<'a>>,
    pub(super) problem: Option<(u64, LineError)>,
}

impl Decoder {
    /// The decoder of a format, and the most bytes of a line. `head` is the beginning of the text.
    pub(super) fn of(format: Format, times: Option<DmonTimes>, head: &str) -> (Self, usize) {
        match format {
            Format::Prometheus => (Self::Prometheus(None), MAX_ROW),
            Format::Dmon => (Self::Dmon(DmonDecoder::new(times, head)), MAX_ROW),
            Format::OtlpJson => (Self::OtlpJson(Documents::new(MAX_REQUEST)), MAX_REQUEST),
            Format::Series => {
                (Self::Series(Documents::new(MAX_SERIES), SeriesStore::default()), MAX_SERIES)
            }
        }
    }

    /// The samples of a line, each with a time. Series of metrics that are not `is_used` are left out.
    pub(super) fn samples<'a>(
        &'a mut self,
        line: &'a str,
        number: u64,
        is_used: impl Fn(&str) -> bool,
    ) -> Decoded<'a> {
        let of_line = match self {
            Self::Prometheus(page) => page_sample(page, line),
            Self::Dmon(decoder) => decoder.line(line),
            Self::OtlpJson(documents) => {
                let Completed { cut_off, document } = documents.add(line, number);
                let decoded = document.map_or_else(|| Ok(Vec::new()), otlp_json::line);
                return Decoded::from_document(cut_off, number, decoded);
            }
            Self::Series(documents, series) => {
                let Completed { cut_off, document } = documents.add(line, number);
                let added = document.map_or(Ok(()), |text| series.add(text, number, is_used));
                return Decoded::from_document(cut_off, number, added.map(|()| Vec::new()));
            }
        };
        Decoded::from_document(None, number, of_line)
    }

    /// The first line of a document that is cut off at the end of the log.
    pub(super) fn finish(&mut self) -> Option<u64> {
        match self {
            Self::OtlpJson(documents) | Self::Series(documents, _) => documents.finish(),
            Self::Prometheus(_) | Self::Dmon(_) => None,
        }
    }

    /// Takes the samples of the next instant of series, each with its line, once all lines are read. There are
    /// none at the end, nor of other formats.
    pub(super) fn take_instant(&mut self) -> Vec<(u64, Sample<'_>)> {
        match self {
            Self::Series(_, series) => series.take_instant(),
            _ => Vec::new(),
        }
    }
}

impl<'a> Decoded<'a> {
    /// `cut_off` is the first line of the document before, if that is not complete.
    fn from_document(
        cut_off: Option<u64>,
        number: u64,
        decoded: Result<Vec<Sample<'a>>, LineError>,
    ) -> Self {
        let cut_off = cut_off.map(|line| (line, LineError::CutOff));
        match decoded {
            Ok(samples) => Self { samples, problem: cut_off },
            Err(error) => Self { samples: Vec::new(), problem: cut_off.or(Some((number, error))) },
        }
    }
}

/// The sample of a line, with the time of its page if it has none of its own.
fn page_sample<'a>(
    page: &mut Option<Timestamp>,
    line: &'a str,
) -> Result<Vec<Sample<'a>>, LineError> {
    Ok(match prometheus::line(line)? {
        prometheus::Line::Nothing => Vec::new(),
        prometheus::Line::Page(at) => {
            *page = Some(at);
            Vec::new()
        }
        prometheus::Line::Sample(sample) => {
            let at = sample.at.or(*page).ok_or(LineError::NoPageTime)?;
            vec![Sample { at: Some(at), ..sample }]
        }
    })
}
