//! The question of `phasemeter plan batching`.

use phasemeter_plan::batching::Request;

use crate::cli::BatchingArgs;

pub(super) fn request(args: &BatchingArgs) -> Request {
    Request {
        arrivals: args.rate,
        budget: args.budget,
        batch_time: args.batch_time,
        item_time: args.item_time,
        wait: args.wait,
        max_batch: args.max_batch,
        wanted_batch: args.wanted_batch,
        seed: args.seed,
    }
}
