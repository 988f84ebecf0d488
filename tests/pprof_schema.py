"""The messages of pprof's profile.proto for Python: github.com/google/pprof, `proto/profile.proto`.

The package `pprof` of PyPI does not read such files. This is the published schema as data, so that
protobuf's own decoder reads them, and no compiler is needed.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "perftools.profiles"

MESSAGES = {
    "Profile": """repeated ValueType sample_type = 1, repeated Sample sample = 2,
        repeated Mapping mapping = 3, repeated Location location = 4,
        repeated Function function = 5, repeated string string_table = 6,
        int64 drop_frames = 7, int64 keep_frames = 8, int64 time_nanos = 9,
        int64 duration_nanos = 10, ValueType period_type = 11,
        int64 period = 12, repeated int64 comment = 13, int64 default_sample_type = 14""",
    "ValueType": "int64 type = 1, int64 unit = 2",
    "Sample": "repeated uint64 location_id = 1, repeated int64 value = 2, repeated Label label = 3",
    "Label": "int64 key = 1, int64 str = 2, int64 num = 3, int64 num_unit = 4",
    "Mapping": """uint64 id = 1, uint64 memory_start = 2, uint64 memory_limit = 3,
        uint64 file_offset = 4, int64 filename = 5, int64 build_id = 6, bool has_functions = 7,
        bool has_filenames = 8, bool has_line_numbers = 9, bool has_inline_frames = 10""",
    "Location": """uint64 id = 1, uint64 mapping_id = 2, uint64 address = 3, repeated Line line = 4,
        bool is_folded = 5""",
    "Line": "uint64 function_id = 1, int64 line = 2, int64 column = 3",
    "Function": """uint64 id = 1, int64 name = 2, int64 system_name = 3, int64 filename = 4,
        int64 start_line = 5""",
}


def _schema() -> descriptor_pb2.FileDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto
    types = {
        "string": field.TYPE_STRING,
        "int64": field.TYPE_INT64,
        "uint64": field.TYPE_UINT64,
        "bool": field.TYPE_BOOL,
    }
    schema = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = schema.message_type.add(name=name)
        for text in fields.split(","):
            words = text.split()
            is_repeated = words[0] == "repeated"
            kind, label, _, number = words[is_repeated:]
            one = message.field.add(name=label, number=int(number))
            one.label = field.LABEL_REPEATED if is_repeated else field.LABEL_OPTIONAL
            one.type = types.get(kind, field.TYPE_MESSAGE)
            if kind not in types:
                one.type_name = f".{PACKAGE}.{kind}"
    return schema


def read(file: Path) -> Any:
    """The `Profile` of a compressed file; raises protobuf's `DecodeError` for other bytes."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_schema())
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Profile"))()
    profile.ParseFromString(gzip.decompress(file.read_bytes()))
    return profile
