//! The time zone of hours of the week: given, or that of this machine.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use phasemeter_logs::nvidia_smi::UtcOffset;

/// The zone of a machine on which `TZ` is not set.
const LOCALTIME: &str = "/etc/localtime";

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocalZone {
    /// A constant offset, in seconds east of UTC.
    Given(i32),
    /// That of this machine, by name. The offset changes with daylight saving time.
    Machine(String),
    /// None is configured: UTC.
    Unknown,
}

impl LocalZone {
    /// The given offset, else the zone in `TZ` or `/etc/localtime`.
    pub(super) fn of(
        given: Option<UtcOffset>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        match given {
            Some(given) => Self::Given(given.seconds()),
            None => Self::configured(environment("TZ"), Path::new(LOCALTIME)),
        }
    }

    fn configured(variable: Option<String>, localtime: &Path) -> Self {
        match variable {
            // As the C library reads it: an empty variable is UTC, and a colon precedes a file.
            Some(name) if !name.is_empty() => {
                Self::Machine(zone_name(name.trim_start_matches(':')))
            }
            Some(_) => Self::Machine("UTC".to_owned()),
            None if localtime.exists() => {
                let target = fs::canonicalize(localtime).unwrap_or_default();
                Self::Machine(zone_name(&target.to_string_lossy()))
            }
            None => Self::Unknown,
        }
    }

    /// Seconds east of UTC, now; `None` if unknown.
    pub(super) fn offset(&self) -> Option<i32> {
        match self {
            Self::Given(offset) => Some(*offset),
            Self::Machine(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
                phasemeter_process::utc_offset(i64::try_from(now.as_secs()).ok()?)
            }
            Self::Unknown => None,
        }
    }

    /// A sentence without its full stop, for the report.
    pub(super) fn describe(&self) -> String {
        let utc = |offset: i32| {
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
            format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        };
        match (self, self.offset()) {
            (Self::Given(offset), _) => {
                format!("hours of the week are in {}, as given", utc(*offset))
            }
            (Self::Machine(name), Some(offset)) => {
                format!("hours of the week are in the time zone {name} ({})", utc(offset))
            }
            _ => "no time zone is configured: hours of the week are in UTC".to_owned(),
        }
    }
}

/// The name of a zone in the database, such as `Europe/Berlin`, else the file or rule itself.
fn zone_name(zone: &str) -> String {
    zone.split_once("zoneinfo/").map_or(zone, |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: Option<&str>, variable: Option<&str>) -> LocalZone {
        let variable = variable.map(str::to_owned);
        LocalZone::of(given.map(|given| given.parse().unwrap()), |_| variable.clone())
    }

    #[test]
    fn given_offset_precedes_the_variable() {
        let given = of(Some("-03:30"), Some("Europe/Berlin"));
        assert_eq!((given.offset(), &given), (Some(-12_600), &LocalZone::Given(-12_600)));
        assert_eq!(given.describe(), "hours of the week are in UTC-03:30, as given");
        assert_eq!(of(None, Some(":Asia/Kolkata")), LocalZone::Machine("Asia/Kolkata".to_owned()));
        assert_eq!(of(None, Some("")), LocalZone::Machine("UTC".to_owned()));
    }

    #[test]
    fn machine_without_a_zone_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("localtime");
        let missing = LocalZone::configured(None, &path);
        assert_eq!((missing.offset(), &missing), (None, &LocalZone::Unknown));
        assert!(missing.describe().starts_with("no time zone is configured"));
        let database = dir.path().join("zoneinfo/Europe");
        fs::create_dir_all(&database).unwrap();
        fs::write(database.join("Berlin"), "TZif").unwrap();
        std::os::unix::fs::symlink(database.join("Berlin"), &path).unwrap();
        let linked = LocalZone::configured(None, &path);
        assert_eq!(linked, LocalZone::Machine("Europe/Berlin".to_owned()));
    }
}
