"""Recommends sharing or switching off GPUs that are mostly idle."""

import json

from wit_world import exports
from wit_world.exports.policy import Manifest
from wit_world.exports.recommender import (
    Effort,
    Evidence,
    Gpu,
    Recommendation,
    RecommendationKind,
    Response,
    Saving,
    Target,
    Window,
)

# Minimum idle share of observed time.
min_idle = 0.5


class Policy(exports.Policy):
    def describe(self) -> Manifest:
        return Manifest(
            name="my-policy",
            version="0.1.0",
            summary="Recommends sharing or switching off GPUs that are mostly idle.",
            settings_schema=json.dumps({
                "type": "object",
                "properties": {
                    "min_idle": {
                        "description": "Minimum idle share of observed time.",
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
        """Called once in every fresh instance, with settings that the host has validated."""
        global min_idle
        for path, value in settings:
            if path == "min_idle":
                min_idle = value.value


class Recommender(exports.Recommender):
    def recommend(self, window: Window) -> Response:
        results = (recommend(gpu) for gpu in window.gpus)
        recommendations = [recommendation for recommendation in results if recommendation]
        return Response(recommendations=recommendations, needs=[])


def recommend(gpu: Gpu) -> Recommendation | None:
    of = gpu.accounts
    idle = of.idle_held.seconds + of.idle_free.seconds + of.idle_unknown.seconds
    busy = of.underutilized.seconds + of.productive.seconds + of.compute_bound.seconds
    share = idle / (idle + busy) if idle + busy > 0 else 0.0
    # There is no idle waste if the GPU waits for input, or if its price is unknown.
    if share < min_idle or gpu.waste.idle == 0:
        return None
    lost = gpu.waste.idle / sum(account.cost for account in vars(of).values())
    if of.idle_held.seconds > of.idle_free.seconds:
        # Other jobs use the capacity; the bill stays the same.
        kind = RecommendationKind.CAPACITY
        lever, title = "bin_pack", "Share this GPU"
        action = "Place a second job on it. The process that holds it is mostly idle."
        state = "mostly held by a process"
    else:
        kind = RecommendationKind.SAVING
        lever, title = "schedule", "Switch this GPU off"
        action = "Stop its node while nothing runs on it."
        state = "mostly free"
    return Recommendation(
        code=f"idle.{lever}",
        target=Target.IDLE,
        lever=lever,
        title=title,
        action=action,
        rationale=f"The GPU was idle {int(share * 100)}% of the time, {state}.",
        # Nothing is saved for certain: sharing needs another job, and switching off needs a schedule.
        saving=Saving(low=0.0, expected=lost * 0.5, high=lost),
        confidence=0.75,
        evidence=[
            Evidence(name="idle.share", value=share, unit="1"),
            Evidence(name="lost.share", value=lost, unit="1"),
        ],
        gpus=[gpu.id],
        kind=kind,
        effort=Effort.LOW,
        reversible=True,
        remediation=None,
    )
