//! Work done: a unit and a count.

use phasemeter_meter::work_unit::WorkUnit;

pub(super) fn work(text: &str) -> Result<(WorkUnit, u64), String> {
    let expected = "expected a unit (samples, requests, tokens, epochs or steps) and a count above 0, \
                    like samples=200000";
    let (unit, count) = text.split_once('=').ok_or(expected)?;
    let unit = WorkUnit::from_any_case(unit).ok_or(expected)?;
    match count.parse() {
        Ok(count) if count > 0 => Ok((unit, count)),
        _ => Err(expected.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_parses_unit_and_count() {
        assert_eq!(work("samples=200000"), Ok((WorkUnit::Samples, 200_000)));
        for text in ["samples", "samples=0", "=5", "cats=5", "samples=-1"] {
            assert!(work(text).is_err(), "{text:?} was accepted");
        }
    }
}
