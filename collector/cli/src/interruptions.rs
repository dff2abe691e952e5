//! Options for notices that the cloud will interrupt the machine.

use clap::Args;
use http::Uri;
use http::uri::Scheme;
use phasemeter_work::interruption::Cloud;
use rustix::process::Signal;

/// Signals by name. Stops and faults are left out.
const SIGNALS: [(&str, Signal); 8] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
];

/// Notices of interruptions.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Interruptions")]
pub struct InterruptionArgs {
    /// Watch for notices that the cloud will interrupt this machine: aws (spot interruptions and
    /// rebalance recommendations), gcp (preemptions) or azure (scheduled events). Sends requests to the
    /// link-local address of its metadata service.
    #[arg(long, value_name = "CLOUD", value_parser = cloud)]
    pub interruptions: Option<Cloud>,

    /// Signal to send to the command, once, if the machine is to be interrupted, like USR1.
    #[arg(
        long,
        value_name = "SIGNAL",
        requires = "interruptions",
        requires = "command",
        value_parser = signal
    )]
    pub interruption_signal: Option<CommandSignal>,

    /// Address of the metadata service, for a proxy or a test [default: http://169.254.169.254].
    #[arg(long, value_name = "URL", requires = "interruptions", value_parser = service)]
    pub metadata_service: Option<String>,
}

/// A signal for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSignal {
    /// Its name, like `SIGUSR1`.
    pub name: &'static str,
    /// Its number.
    pub number: i32,
}

fn cloud(text: &str) -> Result<Cloud, String> {
    text.parse().map_err(|error: phasemeter_work::interruption::ParseCloudError| error.to_string())
}

fn signal(text: &str) -> Result<CommandSignal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = SIGNALS.into_iter().find(|(known, _)| *known == name);
    let found = found.map(|(name, signal)| CommandSignal { name, number: signal.as_raw() });
    let names = || SIGNALS.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("expected one of {}", names()))
}

/// `http://HOST` or `http://HOST:PORT`.
fn service(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let is_service = |uri: &Uri| {
        let has_path = uri.path_and_query().is_some_and(|path| path.as_str() != "/");
        uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some() && !has_path
    };
    let uri = text.parse::<Uri>().ok().filter(is_service);
    uri.map(|_| text.to_owned())
        .ok_or_else(|| "expected a URL like http://127.0.0.1:1338".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_exactly_or_rejected() {
        let user = Ok(CommandSignal { name: "USR1", number: Signal::USR1.as_raw() });
        for text in ["USR1", "SIGUSR1", "usr1"] {
            assert_eq!(signal(text), user, "{text}");
        }
        for text in ["", "SIG", "STOP", "99", "USR3"] {
            assert!(signal(text).unwrap_err().starts_with("expected one of HUP"), "{text}");
        }
        assert_eq!(cloud("gcp"), Ok(Cloud::Gcp));
        assert_eq!(cloud("GCP"), Err("expected aws, gcp or azure".to_owned()));
        for text in ["http://127.0.0.1:1338", "http://[fd00:ec2::254]", "http://metadata/"] {
            assert_eq!(service(text).as_deref(), Ok(text.trim_end_matches('/')));
        }
        for text in ["", "127.0.0.1:80", "https://host", "http://host/path", "http://"] {
            assert!(service(text).is_err(), "{text:?} was accepted");
        }
    }
}
