"""A client without a schema. It queries a server on a Unix socket by reflection and calls its
service. Prints one JSON object."""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PATIENCE_S = 10
TELEMETRY = "covalent.telemetry.v1.Telemetry"
# The two versions of the protocol differ only in their names. Clients of a few years ago use the
# first.
REFLECTION = ["grpc.reflection.v1alpha", "grpc.reflection.v1"]


def reflection_schema(package):
    """The part of the reflection protocol that is used here. Debian's packages lack it."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="reflection.proto", package=package, syntax="proto3"
    )

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, label, kind, called, of in fields:
            made.field.add(
                name=called,
                number=number,
                label=label,
                type=kind,
                type_name=f".{package}.{of}" if of else None,
            )

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    text, octets, inner = field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE
    message(
        "Request",
        (4, one, text, "file_containing_symbol", None),
        (7, one, text, "list_services", None),
    )
    message("Files", (1, many, octets, "file_descriptor_proto", None))
    message("Service", (1, one, text, "name", None))
    message("Services", (1, many, inner, "service", "Service"))
    message(
        "Response",
        (4, one, inner, "file_descriptor_response", "Files"),
        (6, one, inner, "list_services_response", "Services"),
    )
    return file


class Pool:
    """Known descriptors, and the message types made of them."""

    def __init__(self):
        self.pool = descriptor_pool.DescriptorPool()
        self.factory = message_factory.MessageFactory(self.pool)

    def type(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))


def ask_reflection(channel, package=REFLECTION[0], **request):
    pool = Pool()
    pool.pool.Add(reflection_schema(package))
    question, answer = pool.type(f"{package}.Request"), pool.type(f"{package}.Response")
    call = channel.stream_stream(
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=question.SerializeToString,
        response_deserializer=answer.FromString,
    )
    return next(call(iter([question(**request)]), timeout=PATIENCE_S))


def known_by_reflection(channel):
    """The files of the service in an order in which each file follows its imports."""
    answer = ask_reflection(channel, file_containing_symbol=TELEMETRY)
    files = {}
    for octets in answer.file_descriptor_response.file_descriptor_proto:
        file = descriptor_pb2.FileDescriptorProto.FromString(octets)
        files[file.name] = file
    pool = Pool()

    def add(file):
        for needed in file.dependency:
            if needed not in files:
                more = ask_reflection(channel, file_containing_symbol="google.protobuf.Struct")
                for octets in more.file_descriptor_response.file_descriptor_proto:
                    other = descriptor_pb2.FileDescriptorProto.FromString(octets)
                    files.setdefault(other.name, other)
            add(files[needed])
        pool.pool.Add(file)

    add(next(file for file in files.values() if file.package == "covalent.telemetry.v1"))
    return pool


def main():
    channel = grpc.insecure_channel(f"unix:{sys.argv[1]}")
    grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
    services = set()
    for package in REFLECTION:
        answer = ask_reflection(channel, package, list_services="*")
        services |= {service.name for service in answer.list_services_response.service}
    pool = known_by_reflection(channel)
    service = pool.pool.FindServiceByName(TELEMETRY)

    def call(name, **request):
        method = service.FindMethodByName(name)
        made = pool.factory.GetPrototype(method.input_type)
        answer = pool.factory.GetPrototype(method.output_type)
        streams = name in ("Watch", "Events")
        kind = channel.unary_stream if streams else channel.unary_unary
        started = kind(
            f"/{TELEMETRY}/{name}",
            request_serializer=made.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return started(made(**request), timeout=PATIENCE_S)

    sample = call("Get", filter={"families": ["covalent_port_rx_packets_total"], "labels": {"port": "p0"}})
    (family,) = sample.families
    (series,) = family.series
    numbers = []
    watching = call("Watch", interval_ms=100)
    for sample in watching:
        numbers.append(sample.number)
        if len(numbers) == 3:
            watching.cancel()
            break
    event = next(call("Events"))
    try:
        call("Get", filter={"families": ["nonsense"]})
        refused = None
    except grpc.RpcError as problem:
        refused = problem.code().name
    print(
        json.dumps(
            {
                "services": sorted(services),
                "methods": [method.name for method in service.methods],
                "rx_packets": series.number,
                "numbers": numbers,
                "event": {"kind": event.kind, "peer_name": event.details.fields["peer_name"].string_value},
                "refused": refused,
            }
        )
    )


main()
