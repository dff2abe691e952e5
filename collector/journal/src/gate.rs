//! What a run exports waits until what it was made from is durable in the journal: what a backend has, no later run makes
//! otherwise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use phasemeter_engine::pipeline::RequestSink;
use phasemeter_otlp::encode::Outgoing;

/// The gate before the sink of a run. Clones are the same one.
#[derive(Clone)]
pub struct Gate(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    sink: Option<RequestSink<'static>>,
    /// What waits: its number, and that of the entry that must be durable.
    waiting: VecDeque<(u64, u64, Outgoing)>,
    /// The number of the entry in progress.
    entry: u64,
    /// How many were made, and how many have left.
    made: u64,
    left: u64,
    is_open: bool,
}

impl Gate {
    /// A gate. Of the requests that are made, so many have left before.
    pub fn new(left: u64) -> Self {
        Self(Rc::new(RefCell::new(State { left, ..State::default() })))
    }

    /// The sink that passes the gate.
    pub fn before(&self, sink: RequestSink<'static>) -> RequestSink<'static> {
        self.0.borrow_mut().sink = Some(sink);
        let state = Rc::clone(&self.0);
        Box::new(move |outgoing| state.borrow_mut().take(outgoing))
    }

    /// So many were made that are not made again.
    pub(crate) fn skip(&self, requests: u64) {
        self.0.borrow_mut().made += requests;
    }

    /// The entry with this number is in progress.
    pub(crate) fn set_entry(&self, entry: u64) {
        self.0.borrow_mut().entry = entry;
    }

    /// Whether something waits that was made from a later entry.
    pub(crate) fn waits_beyond(&self, entry: u64) -> bool {
        self.0.borrow().waiting.back().is_some_and(|(_, made_from, _)| *made_from > entry)
    }

    /// Lets leave what was made from entries up to this one.
    pub(crate) fn release(&self, durable: u64) -> io::Result<()> {
        self.0.borrow_mut().release(durable)
    }

    /// Lets everything leave from now on.
    ///
    /// # Errors
    /// Returns an error if the sink does.
    pub fn open(&self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.is_open = true;
        state.release(u64::MAX)
    }

    /// How many were made.
    pub(crate) fn made(&self) -> u64 {
        self.0.borrow().made
    }

    /// How many have left.
    pub(crate) fn left(&self) -> u64 {
        self.0.borrow().left
    }
}

impl State {
    fn take(&mut self, outgoing: Outgoing) -> io::Result<()> {
        self.made += 1;
        if self.made > self.left {
            self.waiting.push_back((self.made, self.entry, outgoing));
        }
        if self.is_open { self.release(u64::MAX) } else { Ok(()) }
    }

    fn release(&mut self, durable: u64) -> io::Result<()> {
        while let Some((number, _, outgoing)) =
            self.waiting.pop_front_if(|(_, entry, _)| *entry <= durable)
        {
            self.left = number;
            if let Some(sink) = &mut self.sink {
                sink(outgoing)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_otlp::encode::Outgoing;

    use super::*;

    fn outgoing() -> Outgoing {
        Outgoing { requests: Vec::new(), claims: None }
    }

    /// Guarantee: nothing leaves before its entry is written, nothing that had left leaves again, and nothing that is not
    /// made again is counted as another one.
    #[test]
    fn requests_leave_once_their_entries_are_written() {
        let passed = Rc::new(RefCell::new(0));
        let sink = |passed: &Rc<RefCell<i32>>| -> RequestSink<'static> {
            let passed = Rc::clone(passed);
            Box::new(move |_| {
                *passed.borrow_mut() += 1;
                Ok(())
            })
        };
        let gate = Gate::new(0);
        let mut before = gate.before(sink(&passed));
        gate.set_entry(2);
        before(outgoing()).unwrap();
        gate.set_entry(3);
        before(outgoing()).unwrap();
        gate.release(1).unwrap();
        assert_eq!((*passed.borrow(), gate.left()), (0, 0));
        gate.release(2).unwrap();
        assert_eq!((*passed.borrow(), gate.left()), (1, 1));
        // Killed, and made again: the first and the third had left, of which the third is not made again.
        let again = Gate::new(3);
        let mut before = again.before(sink(&passed));
        before(outgoing()).unwrap();
        before(outgoing()).unwrap();
        again.skip(1);
        before(outgoing()).unwrap();
        again.release(u64::MAX).unwrap();
        assert_eq!((*passed.borrow(), again.left()), (2, 4));
        again.open().unwrap();
        before(outgoing()).unwrap();
        assert_eq!((*passed.borrow(), again.left()), (3, 5));
    }
}
