"""Prices GPUs at a discount on the list price."""

import json

from wit_world import exports
from wit_world.exports.policy import Manifest
from wit_world.exports.pricer import Quote, QuoteRequest
from wit_world.imports.types import Plan

# Discount, as a share of the list price.
discount = 0.1


class Policy(exports.Policy):
    def describe(self) -> Manifest:
        return Manifest(
            name="my-policy",
            version="0.1.0",
            summary="Prices GPUs at a discount on the list price.",
            settings_schema=json.dumps({
                "type": "object",
                "properties": {
                    "discount": {
                        "description": "Discount, as a share of the list price.",
                        "type": "number",
                        "default": 0.1,
                        "minimum": 0,
                        "maximum": 1,
                    },
                },
                "additionalProperties": False,
            }),
        )

    def configure(self, settings) -> None:
        """Called once in every fresh instance, with settings that the host has validated."""
        global discount
        for path, value in settings:
            if path == "discount":
                discount = value.value


class Pricer(exports.Pricer):
    def quote_price(self, request: QuoteRequest) -> Quote | None:
        """Returns None for GPUs that the contract does not cover: the next pricer is queried, and at last
        the list price applies."""
        listed = request.listed
        # The discount is on the hourly price. `request.attributes` are those of the run: a price may depend
        # on the team. With `request.is_offer` the GPUs are only compared with those in use.
        hourly = (None, Plan.ON_DEMAND)
        if listed is None or request.plan not in hourly or listed.plan not in hourly:
            return None
        return Quote(
            nano_usd_per_gpu_hour=int(listed.nano_usd_per_gpu_hour * (1 - discount) + 0.5),
            plan=Plan.ON_DEMAND,
            source=f"my contract: {round(discount * 100)}% off list price",
            as_of=listed.as_of or "2026-01-01",
            valid_from=None,
            valid_until=None,
            gpus=None,
        )
