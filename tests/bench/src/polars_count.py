"""Counts a log's utilization buckets, with first and last time, a GPU each, as polars does it best.

The streaming engine was faster here than the other, integers faster than text that is stripped.
The times are in the result, so that polars has to parse every timestamp.
Prints the rows it counted and the CPU seconds of the query alone, without Python's start.
"""

import sys
import time

import polars as pl

COLUMNS = ["timestamp", "gpu", "utilization", "used", "total", "power", "temperature"]


def count(path):
    utilization = pl.col("utilization")
    return (
        pl.scan_csv(
            path,
            new_columns=COLUMNS,
            schema_overrides={"gpu": pl.UInt8, "utilization": pl.UInt8},
        )
        .select(
            pl.col("timestamp").str.to_datetime("%Y/%m/%d %H:%M:%S%.3f", time_unit="ms"),
            "gpu",
            sum((utilization >= bound).cast(pl.UInt8) for bound in (10, 70, 90)).alias("bucket"),
        )
        .group_by("gpu", "bucket")
        .agg(
            pl.len().alias("rows"),
            pl.col("timestamp").min().alias("first"),
            pl.col("timestamp").max().alias("last"),
        )
        .collect(engine="streaming")
    )


start = time.process_time()
buckets = count(sys.argv[1])
print(buckets["rows"].sum(), time.process_time() - start)
