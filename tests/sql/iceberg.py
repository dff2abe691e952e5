"""Runs the code of standard input, which adds files to an Iceberg table, in the current directory. Prints the sums of
the table as CSV.

Usage: iceberg.py
"""

import csv
import os
import sys
from collections import defaultdict
from decimal import Decimal

os.environ.update(
    PYICEBERG_CATALOG__DEFAULT__TYPE="sql",
    PYICEBERG_CATALOG__DEFAULT__URI="sqlite:///catalog.db",
    PYICEBERG_CATALOG__DEFAULT__WAREHOUSE=f"file://{os.getcwd()}/warehouse",
)
names = {}
exec(sys.stdin.read(), names)

try:
    names["table"].add_files(names["files"][:1])
    sys.exit("a file was added twice")
except ValueError as error:
    assert "already referenced" in str(error), error

sums = defaultdict(lambda: [Decimal(0), Decimal(0)])
for row in names["table"].scan().to_arrow().to_pylist():
    team = dict(row["Tags"]).get("team", "(untagged)")
    day = row["ChargePeriodStart"].date().isoformat()
    for place, column in enumerate(["EffectiveCost", "x_WasteCost"]):
        sums[team, day][place] += row[column]
writer = csv.writer(sys.stdout, lineterminator="\n")
for (team, day), costs in sorted(sums.items()):
    writer.writerow([team, day, *(format(cost, "f") for cost in costs)])
