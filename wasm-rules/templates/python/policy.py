"""Advises what to do with GPUs that are idle most of the time."""

import json

from wit_world import exports
from wit_world.exports.policy import Manifest
from wit_world.exports.recommender import Gpu, Recommendation, Saving, Target, Window

# GPUs that are idle for less of their observed time than this are left alone.
least_idle = 0.5


class Policy(exports.Policy):
    def describe(self) -> Manifest:
        return Manifest(
            name="my-policy",
            version="0.1.0",
            summary="Advises what to do with GPUs that are idle most of the time.",
            settings_schema=json.dumps({
                "type": "object",
                "properties": {
                    "least_idle": {
                        "description": "GPUs that are idle for less of their observed time than "
                        "this are left alone.",
                        "type": "number",
                        "default": 0.5,
                        "minimum": 0,
                        "maximum": 1,
                    },
                },
                "additionalProperties": False,
            }),
        )

    def configure(self, settings) -> None:
        """Called once in every fresh instance. The host has checked the settings by the schema."""
        global least_idle
        for path, value in settings:
            if path == "least_idle":
                least_idle = value.value


class Recommender(exports.Recommender):
    def recommend(self, window: Window) -> list[Recommendation]:
        advice = (advise(gpu) for gpu in window.gpus)
        return [recommendation for recommendation in advice if recommendation]


def advise(gpu: Gpu) -> Recommendation | None:
    of = gpu.accounts
    idle = of.idle_held.seconds + of.idle_free.seconds + of.idle_unknown.seconds
    busy = of.underutilized.seconds + of.productive.seconds + of.compute_bound.seconds
    share = idle / (idle + busy) if idle + busy > 0 else 0.0
    # Nothing is lost where it waits for its input, nor known where nobody knows its price.
    if share < least_idle or gpu.waste.idle == 0:
        return None
    lost = gpu.waste.idle / sum(account.cost for account in vars(of).values())
    if of.idle_held.seconds > of.idle_free.seconds:
        lever, title = "bin_pack", "Share this GPU"
        action = "Place a second job on it: what holds it hardly computes."
        why = "held by a process for most of that"
    else:
        lever, title = "schedule", "Switch this GPU off"
        action = "Stop its node while nothing runs on it."
        why = "free for most of that"
    return Recommendation(
        code=f"idle.{lever}",
        target=Target.IDLE,
        lever=lever,
        title=title,
        action=action,
        rationale=f"It was idle for {int(share * 100)} % of its time, and {why}.",
        saving=Saving(low=lost * 0.5, expected=lost * 0.75, high=lost),
        confidence=0.75,
        evidence=[("idle.share", share), ("lost.share", lost)],
        gpus=[gpu.id],
    )
