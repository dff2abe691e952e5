//! The rules of `--alerts`: built-in profiles and files, with their settings.

use std::io;
use std::path::{Path, PathBuf};

use phasemeter_alerts::{
    MAX_FILE_BYTES, MAX_RULES, ProfileError, Profiles, RuleDefinition, Selection, SettingError,
};
use phasemeter_engine::alert_rules::{AlertRules, SkippedRule};
use phasemeter_files::read_file;

use super::exit_status::{EX_CONFIG, EX_NOINPUT, EX_USAGE};
use phasemeter_cli::AlertArgs;

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AlertsError {
    /// It is neither a profile nor a file that can be read.
    #[error("--alerts {name}: cannot be read; expected a profile ({profiles}) or a file")]
    Unreadable {
        /// As given.
        name: String,
        /// The built-in profiles.
        profiles: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// It is not a file of rules.
    #[error("--alerts {name}: larger than 256 KiB; expected a TOML file of rules")]
    TooLarge {
        /// The file.
        name: String,
    },
    /// It is not UTF-8.
    #[error("--alerts {name}: not UTF-8; expected a TOML file of rules")]
    NotText {
        /// The file.
        name: String,
    },
    /// A rule is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Two rules have one ID.
    #[error("--alerts: rule {id} is defined twice; rename one")]
    Twice {
        /// The ID.
        id: String,
    },
    /// There are too many.
    #[error("--alerts: more than {MAX_RULES} rules; use fewer")]
    TooMany,
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl AlertsError {
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } => EX_NOINPUT,
            Self::Setting(_) | Self::Twice { .. } | Self::TooMany => EX_USAGE,
            Self::TooLarge { .. } | Self::NotText { .. } | Self::Profile(_) => EX_CONFIG,
        }
    }
}

/// Reads the rules of these options.
pub(super) fn select(args: &AlertArgs) -> Result<AlertRules, AlertsError> {
    let built_in = Profiles::built_in();
    let mut definitions: Vec<RuleDefinition> = Vec::new();
    for name in &args.alerts {
        for rule in rules(name, &built_in)? {
            if definitions.iter().any(|known| known.id() == rule.id()) {
                return Err(AlertsError::Twice { id: rule.id() });
            }
            definitions.push(rule);
        }
    }
    if definitions.len() > MAX_RULES {
        return Err(AlertsError::TooMany);
    }
    let Selection { active, skipped } = Selection::of(definitions, &args.alert_set)?;
    let (rules, briefs): (Vec<_>, _) =
        active.into_iter().map(|active| (active.rule, active.brief)).unzip();
    let skipped = skipped.into_iter();
    let skipped = skipped.map(|rule| SkippedRule { id: rule.id, reason: rule.reason }).collect();
    Ok(AlertRules { rules: rules.into(), briefs, skipped, ..AlertRules::default() })
}

/// The files of these options.
pub(super) fn files(args: &AlertArgs) -> impl Iterator<Item = PathBuf> {
    let built_in = Profiles::built_in();
    let files = args.alerts.iter().filter(move |name| built_in.profile(name).is_none());
    files.map(PathBuf::from)
}

fn rules(name: &str, built_in: &Profiles) -> Result<Vec<RuleDefinition>, AlertsError> {
    if let Some(rules) = built_in.profile(name) {
        return Ok(rules);
    }
    let bytes = read_file(Path::new(name), MAX_FILE_BYTES).map_err(|source| {
        if source.kind() == io::ErrorKind::FileTooLarge {
            return AlertsError::TooLarge { name: name.to_owned() };
        }
        let profiles: Vec<_> = built_in.names().map(|(name, _)| name).collect();
        AlertsError::Unreadable { name: name.to_owned(), profiles: profiles.join(", "), source }
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| AlertsError::NotText { name: name.to_owned() })?;
    Ok(Profiles::parse(name, &text)?.rules().to_vec())
}
