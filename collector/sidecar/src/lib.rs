//! Phasemeter's shell: everything that may wait or fail. It brings readings in, and carries phases,
//! dollars and advice out; what they mean is decided in `phasemeter-meter`.

pub mod otlp;
