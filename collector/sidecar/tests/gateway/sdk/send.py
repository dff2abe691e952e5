"""Sends the same traces, metrics and logs of the OpenTelemetry SDK to each endpoint.

Usage: send.py PROTOCOL ENDPOINT..., with protocols as in OTEL_EXPORTER_OTLP_PROTOCOL. The endpoint
`environment` is what the SDK reads of its environment.
"""

import importlib
import logging
import sys

from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

MODULES = {"grpc": "proto.grpc", "http/protobuf": "proto.http", "http/json": "json.http"}

RESOURCE = Resource.create({"service.name": "train", "host.name": "node-1", "ranks": [0, 1]})


def traces():
    """Nested spans with events, links, errors and values of every type."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("train", "1.2", attributes={"scope": True})
    with tracer.start_as_current_span("epoch", kind=SpanKind.SERVER) as epoch:
        for step in range(50):
            links = [Link(epoch.get_span_context(), {"why": "parent"})]
            with tracer.start_as_current_span(f"train_step {step} ✓", links=links) as span:
                span.set_attributes({"step": step, "loss": 1.5 / (step + 1), "last": step == 49})
                span.set_attributes({"texts": ["a", "b"], "numbers": [1, 2], "none": []})
                span.add_event("batch", {"size": 32})
                if step % 7 == 0:
                    span.record_exception(ValueError("no \"batch\"\n"))
                    span.set_status(Status(StatusCode.ERROR, "failed"))
    return exporter.get_finished_spans()


def metrics():
    """Every instrument, with attributes."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], resource=RESOURCE).get_meter("train", "1.2")
    samples = meter.create_counter("samples", "{sample}", "Samples")
    queue = meter.create_up_down_counter("queue")
    latency = meter.create_histogram("latency", "s")
    temperature = meter.create_gauge("temperature", "Cel")
    meter.create_observable_counter("tokens", [lambda _: []])
    for value in range(40):
        samples.add(value, {"rank": value % 2})
        queue.add(-value)
        latency.record(value / 7, {"route": "/a"})
        temperature.set(value - 20.5)
    return reader.get_metrics_data()


def logs():
    """Records of the standard library's logger."""
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logging.getLogger("train")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for number in range(30):
        logger.warning("step %d of %s", number, "π", extra={"loss": number / 3})
    return exporter.get_finished_logs()


def main():
    destinations = list(zip(sys.argv[1::2], sys.argv[2::2]))
    signals = [
        ("trace_exporter", "OTLPSpanExporter", "v1/traces", traces()),
        ("metric_exporter", "OTLPMetricExporter", "v1/metrics", metrics()),
        ("_log_exporter", "OTLPLogExporter", "v1/logs", logs()),
    ]
    for file, name, path, data in signals:
        for protocol, endpoint in destinations:
            module = f"opentelemetry.exporter.otlp.{MODULES[protocol]}.{file}"
            module = importlib.import_module(module)
            if endpoint == "environment":
                exporter = getattr(module, name)()
            elif protocol == "grpc":
                exporter = getattr(module, name)(endpoint=endpoint, insecure=True)
            else:
                exporter = getattr(module, name)(endpoint=f"{endpoint}/{path}")
            result = exporter.export(data)
            assert result.name == "SUCCESS", f"{name} to {endpoint}: {result}"
            exporter.shutdown()
    print("sent everything")


main()
