//! Notes on steps of the clock and suspensions during a run.

use tracing::warn;

/// The maximum number of notes in a report.
const MAX_NOTES: usize = 10;

/// What happened to the clocks, each a sentence without its full stop.
#[derive(Debug, Default)]
pub struct ClockNotes {
    notes: Vec<String>,
    further: usize,
}

impl ClockNotes {
    /// Logs a note, and keeps it if there are few.
    pub fn push(&mut self, note: String) {
        warn!("{note}");
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        } else {
            self.further += 1;
        }
    }

    /// The notes, and the number of those that were not kept.
    pub fn take(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.further > 0 {
            notes.push(format!("{} further changes of the system clock", self.further));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_notes_are_kept_and_others_counted() {
        let mut notes = ClockNotes::default();
        assert!(notes.take().is_empty());
        (0..MAX_NOTES + 2).for_each(|step| notes.push(format!("step {step}")));
        let kept = notes.take();
        assert_eq!(kept.len(), MAX_NOTES + 1);
        assert_eq!(kept[MAX_NOTES], "2 further changes of the system clock");
    }
}
