#!/usr/bin/env python3
"""Reads the counters and the ring of a daemon from shared memory, using only docs/counters.md.

    counters.py /run/covalent/counters [/run/covalent/counters.ring]

prints a line of JSON for each sample, and for each record of the ring.
"""
import json
import mmap
import struct
import sys
import time

COUNT, NANOSECONDS, GAUGE, INFO, BUCKET, SUM, TOTAL = range(1, 8)
SUFFIX = {BUCKET: "_bucket", SUM: "_sum", TOTAL: "_count"}


def mapped(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def word(memory, at, index=0):
    return struct.unpack_from("=Q", memory, at + 8 * index)[0]


def text(memory, at, length):
    return bytes(memory[at : at + length]).split(b"\0")[0].decode()


def writer_set(memory, at):
    """A consistent copy of the fields and tables of the writer whose record is at `at`."""
    for _ in range(1000):
        before = word(memory, at)
        if before % 2 == 0:
            fields = []
            for number in range(word(memory, at, 6)):
                field = word(memory, at, 4) + 128 * number
                both = word(memory, field)
                fields.append((both & 0xFFFFFFFF, both >> 32, text(memory, field + 16, 112)))
            tables = []
            for number in range(word(memory, at, 7)):
                table = at + 128 + 96 * number
                offset, stride, _, used, text_bytes = (word(memory, table, 3 + i) for i in range(5))
                objects = []
                for slot in range(used):
                    place = offset + stride * slot
                    generation, shape, length = (word(memory, place, i) for i in range(3))
                    if generation == 0:
                        continue
                    first, count = shape & 0xFFFFFFFF, shape >> 32
                    lines = bytes(memory[place + 32 : place + 32 + length]).decode().split("\n")
                    values = [word(memory, place + 32 + text_bytes, i) for i in range(count)]
                    objects.append((slot, generation, lines, fields[first : first + count], values))
                tables.append((text(memory, table, 24), objects))
            if word(memory, at) == before:
                return text(memory, at + 64, 32), tables
        time.sleep(0.001)
    raise SystemExit("a writer did not finish, or died while it wrote")


def counters(path):
    memory = mapped(path)
    if memory[:8] != b"COVCOUNT" or word(memory, 0, 1) != 1 or word(memory, 0, 2) != len(memory):
        raise SystemExit("no file of counters of version 1")
    families = []
    for number in range(word(memory, 0, 11)):
        family = word(memory, 0, 10) + 640 * number
        families.append(text(memory, family + 32, 96))
    for number in range(word(memory, 0, 13)):
        name, tables = writer_set(memory, word(memory, 0, 12) + 1024 * number)
        for table, objects in tables:
            for slot, _, lines, fields, values in objects:
                for (family, kind, further), value in zip(fields, values):
                    if kind == INFO:
                        further, value = lines[value], 1
                    elif kind == GAUGE:
                        value = struct.unpack("=d", struct.pack("=Q", value))[0]
                        if value != value:
                            continue
                    elif kind in (NANOSECONDS, SUM):
                        value /= 1e9
                    labels = ",".join(part for part in (lines[0], further) if part)
                    series = families[family] + SUFFIX.get(kind, "")
                    yield {"writer": name, "table": table, "slot": slot, "series": series, "labels": labels, "value": value}


def ring(path):
    """The current records, and the number of records lost during the read."""
    memory = mapped(path)
    if memory[:8] != b"COVRING\0" or word(memory, 0, 1) != 1:
        raise SystemExit("no ring of version 1")
    begin, capacity = word(memory, 0, 9), word(memory, 0, 10)
    position, expected = word(memory, 0, 18), None
    while position < word(memory, 0, 17):
        at = begin + position % capacity
        both = word(memory, at)
        length, kind = both & 0xFFFFFFFF, both >> 32
        record = bytes(memory[at : at + length])
        if word(memory, 0, 16) > position + capacity:
            # The writer overwrote the record during the copy: discard it.
            position = word(memory, 0, 18)
            continue
        position += length
        if kind == 0:
            continue
        sequence, realtime, monotonic = struct.unpack_from("=QQQ", record, 8)
        lost = sequence - expected if expected is not None else 0
        expected = sequence + 1
        record_of = {"sequence": sequence, "lost": lost, "realtime_ns": realtime, "monotonic_ns": monotonic}
        if kind == 1:
            size = word(record, 32)
            record_of["event"] = json.loads(record[40 : 40 + size])
        elif kind == 2:
            place, generation, shape = struct.unpack_from("=QQQ", record, 32)
            record_of["writer"], record_of["table"], record_of["slot"] = place & 0xFFFF, place >> 16 & 0xFFFF, place >> 32
            record_of["generation"], record_of["first"] = generation, shape & 0xFFFFFFFF
            record_of["values"] = list(struct.unpack_from("=%dQ" % (shape >> 32), record, 56))
        yield record_of


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    for record_of in counters(sys.argv[1]):
        print(json.dumps(record_of))
    if len(sys.argv) == 3:
        for record_of in ring(sys.argv[2]):
            print(json.dumps(record_of))
