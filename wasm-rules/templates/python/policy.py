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

# Mean utilization of a step below which nothing ran.
QUIET = 0.01


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
        # GPUs of a node are rented and given back together.
        nodes: dict[str, list[Gpu]] = {}
        for gpu in window.gpus:
            nodes.setdefault(node_of(gpu), []).append(gpu)
        results = (recommend(node) for node in nodes.values())
        recommendations = [recommendation for recommendation in results if recommendation]
        return Response(recommendations=recommendations, needs=[])


def node_of(gpu: Gpu) -> str:
    attributes = dict(gpu.attributes)
    return attributes.get("host.name", attributes.get("log.file.name", ""))


def bill(gpus: list[Gpu]) -> int:
    return sum(account.cost for gpu in gpus for account in vars(gpu.accounts).values())


def utilized(gpus: list[Gpu]) -> int:
    return sum(account.utilized_cost for gpu in gpus for account in vars(gpu.accounts).values())


def is_idle(gpu: Gpu) -> bool:
    of = gpu.accounts
    idle = of.idle_held.seconds + of.idle_free.seconds + of.idle_unknown.seconds
    busy = of.underutilized.seconds + of.productive.seconds + of.compute_bound.seconds
    # There is no idle waste if the GPU waits for input, or if its price is unknown.
    return gpu.waste.idle > 0 and idle / (idle + busy) >= min_idle


def free_share(node: list[Gpu]) -> float:
    """The share of the time in which no GPU of a node works. Unobserved steps are NaN, and count as work."""
    steps = list(zip(*(gpu.utilization for gpu in node)))
    free = sum(all(mean < QUIET for mean in step) for step in steps)
    return free / max(len(steps), 1)


def recommend(node: list[Gpu]) -> Recommendation | None:
    idle = [gpu for gpu in node if is_idle(gpu)]
    if not idle:
        return None
    lost = sum(gpu.waste.idle for gpu in idle) / bill(idle)
    free = free_share(node)
    counted = f"{len(idle)} of {len(node)} GPUs"
    percent = int(free * 100)
    if free >= min_idle:
        lever, kind = "schedule", RecommendationKind.SAVING
        title = f"{counted} free {percent}% of the time"
        action = "Stop their node while nothing runs on it, if it has no other GPUs."
        rationale = "No GPU of the node worked then. How much of it a schedule finds is not known."
        # Nothing is saved for certain: switching off needs a schedule.
        high = min(lost, free)
        expected = high * 0.5
    else:
        # Other jobs use the capacity; the bill stays the same.
        lever, kind = "bin_pack", RecommendationKind.CAPACITY
        title = f"{counted} mostly idle"
        action = "Place other jobs on them."
        rationale = f"Their node was free {percent}% of the time, which is too little to stop it."
        # Sharing needs other jobs: expect at most as much work again as the node does now.
        high = lost
        expected = min(utilized(node) / bill(node), lost * 0.5)
    return Recommendation(
        code=f"idle.{lever}",
        target=Target.IDLE,
        lever=lever,
        title=title,
        action=action,
        rationale=rationale,
        saving=Saving(low=0.0, expected=expected, high=high),
        confidence=0.5,
        evidence=[
            Evidence(name="free.share", value=free, unit="1"),
            Evidence(name="lost.share", value=lost, unit="1"),
        ],
        gpus=[gpu.id for gpu in idle],
        kind=kind,
        effort=Effort.LOW,
        reversible=True,
        remediation=None,
    )
