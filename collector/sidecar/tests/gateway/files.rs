//! Files that others may have written: those that never end or never begin are rejected at once, by their name, and no
//! text in them moves a cursor.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::process::rejection;

/// A FIFO without a writer, and a file that is too large for any option.
fn hostile(directory: &Path) -> [String; 3] {
    let at = |name: &str| directory.join(name).display().to_string();
    let (fifo, large) = (at("fifo"), at("large"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    ["/dev/zero".to_owned(), fifo, large]
}

#[test]
fn file_without_an_end_is_rejected_by_every_option() {
    let directory = tempfile::tempdir().unwrap();
    for path in hostile(directory.path()) {
        let settings = format!("sizing={path}");
        for options in [
            &["--mapping", &path][..],
            &["--work-mapping", &path],
            &["--token-file", &path],
            &["--tls-certificate", &path, "--tls-key", &path],
            &["--policy-key", &path],
            &["--policy-settings", &settings],
            &["--alerts", &path],
        ] {
            let (status, log) = rejection("http://127.0.0.1:1", options);
            assert!(status.is_some_and(|status| status > 0), "{options:?}: {status:?} {log}");
            assert!(log.contains(&path), "{options:?}: {log}");
        }
    }
}

#[test]
fn record_that_is_none_of_a_trial_is_rejected_before_anything_is_received() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("workers.trial.json"), "{}").unwrap();
    let trials = directory.path().display().to_string();
    let (status, log) = rejection("http://127.0.0.1:1", &["--trials", &trials]);
    assert_eq!(status, Some(65), "{log}");
    assert!(log.contains("workers.trial.json: not a record of a trial"), "{log}");
}

/// Scenario: control characters and a reversal of direction in each text of a mapping, a mapping of work, alert
/// profiles, a price file and a report, valid or not.
/// Guarantee: none of them is printed.
#[test]
fn text_of_files_is_printed_without_control_characters() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text.replace('#', "x\\u001b[2J\\u202e")).unwrap();
        path.display().to_string()
    };
    let mapping =
        write("mapping.toml", "[identity]\nuuid=[\"#\"]\n[[metric]]\nname=\"#\"\nis=\"#\"");
    let work = write("work.toml", "reported_by=\"#\"\n[[counter]]\nname=\"#\"\nunit=\"#\"");
    let alerts = write("alerts.toml", "\"#\" = \"#\"\n[\"#\"]\n\"#\" = 1");
    for options in [["--mapping", &mapping], ["--work-mapping", &work], ["--alerts", &alerts]] {
        let (_, log) = rejection("", &[&["--listen", "127.0.0.1:0"], &options[..]].concat());
        assert_clean(&options.join(" "), &log);
    }
    let log =
        write("log.csv", "timestamp,index,utilization.gpu\n1785110400,0,50\n1785110401,0,50\n");
    let columns = "provider,region,instance_type,gpu_model,gpu_count,on_demand_usd_per_hour,\
                   spot_usd_per_hour,reserved_1y_usd_per_hour,reserved_3y_usd_per_hour,as_of,source";
    let hostile = "x\u{1b}[2J\u{202e}";
    let row = |price: &str| {
        format!("{columns}\n{hostile},{hostile},{hostile},L4,1,{price},,,,2026-07-01,{hostile}\n")
    };
    let (prices, invalid) = (write("prices.csv", &row("2.5")), write("invalid.csv", &row(hostile)));
    let report = write("report.json", r##"{"schema":"#","title":"#","#":"#"}"##);
    for arguments in [
        &["audit", "--prices", &prices, "--gpu-model", "L4", &log][..],
        &["audit", "--prices", &invalid, &log],
        &["bill", &report],
        &["compare", &report, &report],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        let output = command.env_clear().args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert_clean(&arguments.join(" "), &String::from_utf8(text).unwrap());
    }
}

fn assert_clean(what: &str, text: &str) {
    assert!(!text.is_empty(), "{what}");
    let is_odd = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
    assert!(!text.contains(is_odd), "{what}: {text:?}");
}
