"""Runs the SQL of standard input in the current directory and prints the rows as CSV.

Usage: query.py duckdb|clickhouse|spark
"""

import csv
import sys
from decimal import Decimal


def duckdb(sql):
    import duckdb

    return duckdb.connect().execute(sql).fetchall()


def clickhouse(sql):
    import chdb

    return csv.reader(str(chdb.query(sql, "CSV")).splitlines())


def spark(sql):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").getOrCreate()
    *settings, query = (part for part in sql.split(";") if part.strip())
    for setting in settings:
        session.sql(setting)
    return [tuple(row) for row in session.sql(query).collect()]


engine = {"duckdb": duckdb, "clickhouse": clickhouse, "spark": spark}[sys.argv[1]]
writer = csv.writer(sys.stdout, lineterminator="\n")
for row in engine(sys.stdin.read()):
    # Not as `0E-9`.
    writer.writerow(format(cell, "f") if isinstance(cell, Decimal) else cell for cell in row)
