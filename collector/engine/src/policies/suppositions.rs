//! Adds to the results of each policy what it recommends under suppositions.

use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::Recommendation;
use phasemeter_rules::suppositions::conditional;
use phasemeter_rules::window::Window;

use super::result::PolicyResult;

/// Adds to the results of each policy for a window what it recommends under suppositions; `evaluated` is told of each
/// further evaluation. A policy that failed is not asked again.
pub(super) fn add(
    window: &Window,
    each: &mut [PolicyResult],
    evaluated: impl Fn(&Policy, &PolicyResult),
) {
    let given = each.iter().map(|it| it.result.iter().flat_map(|it| &it.recommendations).collect());
    let given: Vec<Vec<&Recommendation>> = given.collect();
    let advise = |supposed: &Window| {
        let again = each.iter().map(|before| {
            let result =
                before.result.is_ok().then(|| PolicyResult::evaluate(&before.policy, supposed));
            let Some(result) = result.flatten() else { return Vec::new() };
            evaluated(&result.policy, &result);
            result.result.map_or_else(|_| Vec::new(), |response| response.recommendations)
        });
        again.collect()
    };
    let more = conditional(window, &given, advise);
    for (result, more) in each.iter_mut().zip(more) {
        if let Ok(response) = &mut result.result {
            response.recommendations.extend(more);
        }
    }
}
