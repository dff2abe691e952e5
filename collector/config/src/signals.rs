//! The providers of traces, metrics and logs: the first OTLP exporter of each is used.

use phasemeter_otlp::{ExporterList, Signal};

use crate::exporter;
use crate::node::Node;
use crate::reader::Reader;

/// Where the exporters of a signal are.
pub(crate) struct Provider {
    pub(crate) signal: Signal,
    pub(crate) key: &'static str,
    pub(crate) list: &'static str,
    pub(crate) kinds: &'static [&'static str],
}

pub(crate) const PROVIDERS: [Provider; 3] = [
    Provider {
        signal: Signal::Traces,
        key: "tracer_provider",
        list: "processors",
        kinds: &["batch", "simple"],
    },
    Provider {
        signal: Signal::Metrics,
        key: "meter_provider",
        list: "readers",
        kinds: &["periodic"],
    },
    Provider {
        signal: Signal::Logs,
        key: "logger_provider",
        list: "processors",
        kinds: &["batch", "simple"],
    },
];

/// The interval of a periodic reader.
pub(crate) const INTERVAL: (&str, &str) = ("interval", "OTEL_METRIC_EXPORT_INTERVAL");

pub(crate) fn read(reader: &mut Reader, root: &Node) {
    for provider in &PROVIDERS {
        let items = root.get(provider.key).and_then(|node| node.get(provider.list));
        let items = items.map(Node::items).unwrap_or_default();
        let of_item = |(index, item)| {
            let kind = provider.kinds.iter().find(|kind| Node::get(item, kind).is_some())?;
            let path = format!("{}.{}[{index}].{kind}", provider.key, provider.list);
            Some((item.get(kind)?, path))
        };
        let exporters = items.iter().enumerate().filter_map(of_item);
        let first = exporters.into_iter().find(|(kind, _)| exporter::is_otlp(kind));
        let variable = ExporterList::variable(provider.signal);
        let Some((kind, path)) = first else {
            reader.set(&variable, "none".to_owned(), provider.key, root.line);
            continue;
        };
        reader.set(&variable, "otlp".to_owned(), &path, kind.line);
        if provider.signal == Signal::Metrics {
            interval(reader, kind, &path);
        }
        exporter::read(reader, kind, &path, provider.signal);
    }
}

/// Zero has no effect.
fn interval(reader: &mut Reader, periodic: &Node, path: &str) {
    let (key, variable) = INTERVAL;
    let Some(node) = periodic.get(key) else { return };
    match node.text() {
        Some(text) if text == "0" => {}
        Some(text) => {
            reader.take(node);
            reader.set(variable, text, &format!("{path}.{key}"), node.line);
        }
        None => reader.take(node),
    }
}
