//! Series in JSON, each with all of its points: answers of Prometheus to queries, and exports of
//! VictoriaMetrics.
//!
//! Each series is in time order, but a log has one after another. So all points of the metrics that are used
//! are kept, 16 bytes each, and merged.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use phasemeter_meter::units::Timestamp;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::LineError;
use super::prometheus;
use super::sample::Sample;

/// The label with the name of a metric.
const NAME: &str = "__name__";

/// The most points that are kept: 1 GiB.
pub(super) const MAX_POINTS: usize = 64 << 20;

/// The last second that a timestamp may have.
const LAST_SECOND: f64 = 1e11;

/// An answer, its data, or a line of an export.
#[derive(Deserialize)]
struct Document {
    status: Option<String>,
    data: Option<Data>,
    result: Option<Vec<SeriesTable>>,
    metric: Option<BTreeMap<String, String>>,
    values: Option<Vec<Item>>,
    value: Option<Item>,
    timestamps: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct Data {
    result: Option<Vec<SeriesTable>>,
}

#[derive(Deserialize)]
struct SeriesTable {
    metric: Option<BTreeMap<String, String>>,
    values: Option<Vec<Item>>,
    value: Option<Item>,
    timestamps: Option<Vec<u64>>,
}

/// A value, with its time if it is a pair of both.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Item {
    at: Option<Timestamp>,
    number: f64,
}

/// A series of which points are left.
struct Series {
    line: u64,
    metric: String,
    labels: Vec<(String, String)>,
    /// The next one last.
    points: Vec<(Timestamp, f64)>,
}

/// All series of a log.
#[derive(Default)]
pub(super) struct SeriesStore {
    series: Vec<Series>,
    points: usize,
    /// The next time of each series that has points left.
    next: Option<BinaryHeap<Reverse<(Timestamp, usize)>>>,
}

impl SeriesStore {
    /// Adds the series of a document that begins at or before this line. Those of other metrics than
    /// `is_used` are not kept.
    pub(super) fn add(
        &mut self,
        document: &str,
        line: u64,
        is_used: impl Fn(&str) -> bool,
    ) -> Result<(), LineError> {
        if document.trim().is_empty() {
            return Ok(());
        }
        let Document { status, data, result, metric, values, value, timestamps } =
            serde_json::from_str(document).map_err(|_| LineError::SeriesJson)?;
        if status.as_deref() == Some("error") {
            return Err(LineError::Query);
        }
        let series = SeriesTable { metric, values, value, timestamps };
        let answer = data.and_then(|data| data.result).or(result).into_iter().flatten();
        answer.chain([series]).try_for_each(|table| self.add_series(table, line, &is_used))
    }

    fn add_series(
        &mut self,
        table: SeriesTable,
        line: u64,
        is_used: impl Fn(&str) -> bool,
    ) -> Result<(), LineError> {
        let SeriesTable { metric, values, value, timestamps } = table;
        let items = values.or(value.map(|value| vec![value])).unwrap_or_default();
        let Some(mut labels) = metric.filter(|_| !items.is_empty()) else { return Ok(()) };
        let metric = labels.remove(NAME).ok_or(LineError::NoMetricName)?;
        if !is_used(&metric) {
            return Ok(());
        }
        if labels.len() > prometheus::MAX_LABELS {
            return Err(LineError::TooManyLabels(prometheus::MAX_LABELS));
        }
        if timestamps.as_ref().is_some_and(|times| times.len() != items.len()) {
            return Err(LineError::SeriesJson);
        }
        let times = timestamps.into_iter().flatten().map(Timestamp::from_millis);
        let times = times.map(Some).chain(std::iter::repeat(None));
        let mut points = Vec::with_capacity(items.len());
        for (Item { at, number }, time) in items.into_iter().zip(times) {
            points.push((time.unwrap_or(at).ok_or(LineError::Time)?, number));
        }
        self.points += points.len();
        if self.points > MAX_POINTS {
            self.points -= points.len();
            return Err(LineError::TooManyPoints(MAX_POINTS));
        }
        points.sort_by_key(|(at, _)| Reverse(*at));
        self.series.push(Series { line, metric, labels: labels.into_iter().collect(), points });
        Ok(())
    }

    /// Takes the samples of the next instant, each with its line, once all documents are added. There are
    /// none at the end.
    pub(super) fn take_instant(&mut self) -> Vec<(u64, Sample<'_>)> {
        let Self { series, next, .. } = self;
        let next = next.get_or_insert_with(|| {
            let times = series.iter().enumerate();
            times.filter_map(|(index, it)| Some(Reverse((it.points.last()?.0, index)))).collect()
        });
        let instant = next.peek().map(|Reverse((at, _))| *at);
        let mut taken = Vec::new();
        while let Some(Reverse((at, index))) = next.peek().copied()
            && Some(at) == instant
        {
            next.pop();
            let point = series.get_mut(index).and_then(|it| it.points.pop());
            taken.extend(point.map(|(_, number)| (index, number)));
            let following = series.get(index).and_then(|it| it.points.last());
            next.extend(following.map(|(at, _)| Reverse((*at, index))));
        }
        let samples = taken.into_iter().filter_map(|(index, number)| {
            let Series { line, metric, labels, .. } = self.series.get(index)?;
            let labels = labels.iter();
            let labels =
                labels.map(|(key, value)| (Cow::Borrowed(&**key), Cow::Borrowed(&**value)));
            let metric = Cow::Borrowed(&**metric);
            Some((*line, Sample::undeclared(metric, labels.collect(), instant, number)))
        });
        samples.collect()
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a pair of seconds and a number")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Item, E> {
        Ok(Item { at: None, number })
    }

    #[expect(clippy::cast_precision_loss, reason = "counters of 2^53 and more are sentinels")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Item, E> {
        self.visit_f64(number as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "counters of 2^53 and more are sentinels")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Item, E> {
        self.visit_f64(number as f64)
    }

    /// Numbers that JSON does not have are text.
    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        let number = prometheus::number(text).ok_or_else(|| E::custom("expected a number"))?;
        self.visit_f64(number)
    }

    /// The end of a series.
    fn visit_unit<E: Error>(self) -> Result<Item, E> {
        self.visit_f64(f64::NAN)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Item, A::Error> {
        let expected = || A::Error::custom("expected a pair of seconds and a number");
        let seconds: f64 = pair.next_element()?.ok_or_else(expected)?;
        let Item { number, .. } = pair.next_element()?.ok_or_else(expected)?;
        Ok(Item { at: instant(seconds), number })
    }
}

/// Seconds to the millisecond, as both programs store times.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1e14")]
fn instant(seconds: f64) -> Option<Timestamp> {
    let is_valid = (0.0..LAST_SECOND).contains(&seconds);
    is_valid.then(|| Timestamp::from_millis((seconds * 1e3).round() as u64))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(store: &mut SeriesStore, document: &str) -> Result<(), LineError> {
        store.add(document, 1, |metric| metric == "util")
    }

    /// Milliseconds, GPU and number of all samples.
    fn samples(mut store: SeriesStore) -> Vec<(u64, String, f64)> {
        let mut all = Vec::new();
        loop {
            let instant = store.take_instant();
            if instant.is_empty() {
                return all;
            }
            all.extend(instant.into_iter().map(|(_, sample)| {
                let at = sample.at.unwrap().as_nanos() / 1_000_000;
                (at, sample.label("gpu").unwrap().to_owned(), sample.number)
            }));
        }
    }

    #[test]
    fn series_are_merged_in_time_order() {
        let mut store = SeriesStore::default();
        add(
            &mut store,
            r#"{"status":"success","data":{"resultType":"matrix","result":[
                {"metric":{"__name__":"util","gpu":"0"},"values":[[1785110400.25,"1"],[1785110415.25,"2.5"]]},
                {"metric":{"__name__":"up","gpu":"0"},"values":[[1785110400.25,"1"]]},
                {"metric":{"__name__":"util","gpu":"1"},"values":[[1785110400.25,"3"],[1785110401,"NaN"]]}]}}"#,
        )
        .unwrap();
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"util","gpu":"2"},"value":[1785110402,"7"]}]}}"#;
        add(&mut store, vector).unwrap();
        let export = r#"{"metric":{"__name__":"util","gpu":"3"},"values":[9,8,null],
            "timestamps":[1785110410000,1785110405000,1785110420000]}"#;
        add(&mut store, export).unwrap();
        add(&mut store, "").unwrap();
        let found = samples(store);
        let (missing, found): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(.., number)| number.is_nan());
        let second =
            |second: u64, gpu: &str, number| (1_785_110_400_000 + second, gpu.to_owned(), number);
        assert_eq!(
            found,
            [
                second(250, "0", 1.0),
                second(250, "1", 3.0),
                second(2_000, "2", 7.0),
                second(5_000, "3", 8.0),
                second(10_000, "3", 9.0),
                second(15_250, "0", 2.5),
            ]
        );
        assert_eq!(missing.len(), 2);
    }

    #[test]
    fn document_without_series_is_rejected_with_its_reason() {
        let mut store = SeriesStore::default();
        for (document, expected) in [
            ("{", LineError::SeriesJson),
            (
                r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#,
                LineError::Query,
            ),
            (
                r#"{"data":{"result":[{"metric":{"gpu":"0"},"values":[[1785110400,"1"]]}]}}"#,
                LineError::NoMetricName,
            ),
            (
                r#"{"metric":{"__name__":"util"},"values":[1,2],"timestamps":[1785110400000]}"#,
                LineError::SeriesJson,
            ),
            (r#"{"metric":{"__name__":"util"},"values":[1,2]}"#, LineError::Time),
            (r#"{"metric":{"__name__":"util"},"values":[[-1,"1"]]}"#, LineError::Time),
            (
                r#"{"metric":{"__name__":"util"},"values":[[1785110400,"x"]]}"#,
                LineError::SeriesJson,
            ),
        ] {
            assert_eq!(add(&mut store, document), Err(expected), "{document}");
        }
        assert_eq!(add(&mut store, r#"{"status":"success","data":{"result":[]}}"#), Ok(()));
        assert!(store.take_instant().is_empty());
    }
}
