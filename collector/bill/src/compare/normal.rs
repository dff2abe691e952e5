//! Quantiles of Student's t distribution.

/// The two-sided quantile of Student's t for a confidence level between 0 and 1.
///
/// The normal quantile is Acklam's approximation; the expansion in 1 ÷ degrees of freedom is that of
/// Cornish and Fisher, exact to 1% from 5 degrees on.
pub(super) fn t_quantile(level: f64, degrees: f64) -> f64 {
    let z = normal_quantile(f64::midpoint(1.0, level));
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * degrees)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * degrees.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * degrees.powi(3))
}

/// The quantile of the normal distribution for a probability from 0.5 to below 1.
fn normal_quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -54.476_098_798_224_06,
        161.585_836_858_040_9,
        -155.698_979_859_886_6,
        66.801_311_887_719_72,
        -13.280_681_552_885_72,
    ];
    const C: [f64; 6] = [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        0.007_784_695_709_041_462,
        0.322_467_129_070_039_8,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let polynomial =
        |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, it| sum * x + it);
    if probability <= 0.975_75 {
        let q = probability - 0.5;
        let r = q * q;
        return polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0);
    }
    let q = (-2.0 * (1.0 - probability).ln()).sqrt();
    -polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_tables() {
        for (level, degrees, expected) in [
            (0.95, 1e9, 1.959_964),
            (0.99, 1e9, 2.575_829),
            (0.95, 5.0, 2.571),
            (0.95, 10.0, 2.228),
            (0.99, 10.0, 3.169),
            (0.90, 30.0, 1.697),
        ] {
            let found = t_quantile(level, degrees);
            assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
        }
    }
}
