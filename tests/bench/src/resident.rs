//! What of a process is resident, by what it is mapped from.

use std::fs;
use std::path::Path;

use crate::BenchError;

/// Bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// What counts as resident.
    pub(crate) all: u64,
    /// The same, pages that several processes use divided among them.
    pub(crate) proportional: u64,
    /// What the process has written: heap, stacks, relocated data.
    pub(crate) anonymous: u64,
    /// Unchanged pages of the program's file, which the kernel can drop.
    pub(crate) program: u64,
    /// Unchanged pages of the driver's library.
    pub(crate) driver: u64,
}

impl Resident {
    /// Of a running process.
    pub(crate) fn of(process: u32) -> Result<Self, BenchError> {
        let path = format!("/proc/{process}/smaps");
        let text = fs::read_to_string(&path).map_err(BenchError::at(Path::new(&path)))?;
        let exe = format!("/proc/{process}/exe");
        let exe = fs::read_link(&exe).map_err(BenchError::at(Path::new(&exe)))?;
        Ok(Self::read(&text, &exe))
    }

    /// Adds up the mappings of `smaps`.
    fn read(smaps: &str, program: &Path) -> Self {
        let (mut sum, mut file, mut clean) = (Self::default(), Path::new(""), 0);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if !first.ends_with(':') {
                // Addresses, permissions, offset, device, inode, and the file.
                file = Path::new(words.nth(4).unwrap_or_default());
                continue;
            }
            let kibibytes = words.next().and_then(|it| it.parse::<u64>().ok()).unwrap_or_default();
            let bytes = kibibytes * 1_024;
            match first {
                "Rss:" => {
                    sum.all += bytes;
                    clean = bytes;
                }
                "Pss:" => sum.proportional += bytes,
                "Anonymous:" => {
                    sum.anonymous += bytes;
                    clean = clean.saturating_sub(bytes);
                    if file == program {
                        sum.program += clean;
                    } else if file.ends_with("libnvidia-ml.so.1") {
                        sum.driver += clean;
                    }
                }
                _ => {}
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_add_up_by_file() {
        let mapping = |file: &str, [all, proportional, anonymous]: [u64; 3]| {
            format!(
                "55d0-55d1 r--p 00000000 fe:00 42   {file}\nSize: 999 kB\nRss: {all} kB\nPss: {proportional} kB\n\
                 Pss_Dirty: 7 kB\nAnonymous: {anonymous} kB\nVmFlags: rd ex mr mw me\n"
            )
        };
        let smaps = [
            mapping("/bin/phasemeter", [100, 60, 30]),
            mapping("/driver/libnvidia-ml.so.1", [20, 10, 4]),
            mapping("/lib/libc.so.6", [8, 1, 2]),
            mapping("", [40, 40, 40]),
        ];
        let expected = Resident {
            all: 168 << 10,
            proportional: 111 << 10,
            anonymous: 76 << 10,
            program: 70 << 10,
            driver: 16 << 10,
        };
        assert_eq!(Resident::read(&smaps.concat(), Path::new("/bin/phasemeter")), expected);
    }
}
