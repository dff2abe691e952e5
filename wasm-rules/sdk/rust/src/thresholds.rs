//! The bounds of phases, by which accounts, waste and hours of the week were divided.

use crate::Window;

/// Upper bound of the phase `idle` in the contract, for a window that has none.
const IDLE: f64 = 0.1;

/// Lower bound of the phase `productive`.
const PRODUCTIVE: f64 = 0.7;

/// Lower bound of the phase `compute_bound`.
const COMPUTE_BOUND: f64 = 0.9;

/// Utilization from which a GPU is in a phase, 0–1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Idle below this.
    pub idle: f64,
    /// Underutilized below this, productive from here on.
    pub productive: f64,
    /// Compute-bound from here on.
    pub compute_bound: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { idle: IDLE, productive: PRODUCTIVE, compute_bound: COMPUTE_BOUND }
    }
}

impl Window {
    /// Returns a metric of the window.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Returns the bounds of phases of this window.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        let default = Thresholds::default();
        Thresholds {
            idle: self.metric("threshold.idle").unwrap_or(default.idle),
            productive: self.metric("threshold.productive").unwrap_or(default.productive),
            compute_bound: self.metric("threshold.compute_bound").unwrap_or(default.compute_bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{steady, window};

    #[test]
    fn bounds_are_those_of_the_window_or_of_the_contract() {
        let mut window = window(vec![steady(60, 0.5)]);
        assert_eq!(window.thresholds(), Thresholds::default());
        window.metrics = vec![("threshold.idle".to_owned(), 0.05)];
        assert_eq!(window.thresholds(), Thresholds { idle: 0.05, ..Thresholds::default() });
    }
}
