//! Detects where a workload runs, from variables and files of this machine: OpenTelemetry's resource
//! conventions for containers, clouds and Kubernetes. Nothing is requested from a network.
//!
//! What cannot be known for certain is left out. Given attributes take precedence; those that contradict
//! what was detected exclude all that its detector found.

mod cloud;
mod container;
mod kubernetes;
mod mounts;

use std::path::Path;

use phasemeter_files::read_text;
use phasemeter_otlp::experiment::Attributes;

use self::mounts::Mounts;

/// The maximum size of a file that is read: hosts with thousands of mounts have long tables.
const MAX_BYTES: u64 = 1 << 20;

/// Whose container and pod this process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// The workload's: it is this process's command.
    Workload,
    /// Perhaps another one's: a sidecar has a container of its own, and an agent of a node a pod.
    Own,
}

/// The source of variables and files.
pub struct System<'a> {
    /// The value of a variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file; `None` if it cannot be read.
    pub file: &'a dyn Fn(&str) -> Option<String>,
    /// The host name.
    pub host_name: String,
}

impl System<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn is_set(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    /// The text of a file without blanks around it, unless it is empty.
    fn text(&self, path: &str) -> Option<String> {
        let text = (self.file)(path)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// Adds what is detected of this machine.
pub fn add(attributes: &mut Attributes, container: Container) {
    add_from(&own(), attributes, container);
}

/// Whether this process is in a pod.
#[must_use]
pub fn in_pod() -> bool {
    let system = own();
    kubernetes::is_kubernetes(&system, &mounts(&system))
}

/// The system of this process.
fn own() -> System<'static> {
    System {
        variable: &|name| std::env::var(name).ok(),
        file: &|path| read_text(Path::new(path), MAX_BYTES).ok(),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

fn mounts(system: &System<'_>) -> Mounts {
    Mounts::parse(&(system.file)(mounts::PATH).unwrap_or_default())
}

/// Adds what is detected of a system.
pub fn add_from(system: &System<'_>, attributes: &mut Attributes, container: Container) {
    let mounts = mounts(system);
    let is_kubernetes = kubernetes::is_kubernetes(system, &mounts);
    let mut detected = Vec::new();
    if is_kubernetes {
        detected.push(kubernetes::detect(system, &mounts, container));
    }
    if container == Container::Workload {
        detected.push(container::detect(system, &mounts, is_kubernetes));
    }
    detected.push(cloud::detect(system, is_kubernetes));
    for found in detected {
        let contradicts = |(key, value): (&&str, &String)| {
            attributes.get(*key).is_some_and(|given| given != value)
        };
        if !found.iter().any(contradicts) {
            for (key, value) in found {
                attributes.entry(key.to_owned()).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
