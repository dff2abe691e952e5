//! `phasemeter top`: the GPUs of a run in progress, live in the terminal.

mod terminal;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use phasemeter_bill::status::{Key, Screen, Summary};
use phasemeter_meter::units::Nanos;
use phasemeter_process::die_by;
use phasemeter_report::text::use_color;

use self::terminal::FullScreen;
use super::error::CommandError;
use super::signals::{HangUp, SignalEvent, SignalListener};
use super::status;
use super::status_error::StatusError;
use phasemeter_cli::TopArgs;

/// How long a key waits until it is followed, and a signal until it ends the view.
const STEP: Duration = Duration::from_millis(50);

/// How often the screen is drawn without a key, since its size may have changed: once per so many steps.
const REDRAW: u32 = 10;

/// Shows the view until q is pressed or a signal is received. Without a terminal, prints the page once.
pub(super) fn run(args: &TopArgs) -> Result<(), CommandError> {
    let first = status::ask(&args.at.address)?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return status::print_page(&first);
    }
    // Signals are received by a thread, so that the terminal is restored before they end this process.
    let signals = SignalListener::start(false, HangUp::Ends)?;
    let reports = poll(args.at.address.clone(), args.interval)?;
    let mut screen = Screen::new(use_color(true, std::env::var_os("NO_COLOR").as_deref()));
    screen.update(first);
    let failed = CommandError::system("cannot use the terminal");
    let terminal = FullScreen::enter().map_err(&failed)?;
    signals.ready();
    let shown = show(&terminal, &mut screen, &signals, &reports);
    drop(terminal);
    shown.map_err(failed)?.into_iter().for_each(die_by);
    Ok(())
}

/// Draws and follows keys. Returns the signal that ends the view, if one does.
fn show(
    terminal: &FullScreen,
    screen: &mut Screen,
    signals: &SignalListener,
    reports: &Receiver<Result<Summary, StatusError>>,
) -> io::Result<Option<i32>> {
    let mut steps = 0;
    loop {
        let mut has_changed = steps % REDRAW == 0;
        loop {
            match reports.try_recv() {
                Ok(Ok(report)) => screen.update(report),
                Ok(Err(error)) => screen.fail(error.to_string()),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
            has_changed = true;
        }
        if has_changed {
            let (rows, columns) = terminal.size();
            terminal.draw(&screen.lines(rows, columns))?;
        }
        if let Some(SignalEvent::Signal(signal)) = signals.next(Duration::ZERO) {
            return Ok(Some(signal.number));
        }
        let Some(bytes) = terminal.read(STEP)? else { return Ok(None) };
        let keys = Key::of(&bytes);
        if !keys.iter().all(|key| screen.press(*key)) {
            return Ok(None);
        }
        steps = if keys.is_empty() { steps + 1 } else { 0 };
    }
}

/// Asks for reports on a thread, so that keys do not wait for answers.
fn poll(
    address: String,
    every: Nanos,
) -> Result<Receiver<Result<Summary, StatusError>>, CommandError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let every = Duration::from_nanos(every.0);
    let poll = move || {
        loop {
            thread::sleep(every);
            if sender.send(status::ask(&address)).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("status".to_owned()).spawn(poll);
    started.map_err(CommandError::system("cannot start a thread"))?;
    Ok(receiver)
}
