//! Options of alerts.

use clap::Args;
use phasemeter_alerts::Setting;

/// Alerts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Alerts")]
pub struct AlertArgs {
    /// Rules to evaluate each minute: those of a profile (analytics, optimization or right-sizing), or
    /// of a TOML file. Repeatable.
    #[arg(long, value_name = "PROFILE|FILE")]
    pub alerts: Vec<String>,

    /// Set a value of a rule: its threshold (in percent or degrees), window, for, or enabled, like
    /// high_memory.for=10m. Repeatable.
    #[arg(long, value_name = "[RULE.]KEY=VALUE", requires = "alerts")]
    pub alert_set: Vec<Setting>,
}
