#!/usr/bin/env python3
"""Writes seeds/job: one file for each form of job that matters to the reader.

The files are kept in the repository; run this again after adding a form. Needs the
msgpack module (Debian: python3-msgpack).
"""

import pathlib
import struct

import msgpack

FOLDER = pathlib.Path(__file__).parent / "seeds" / "job"
SANDBOX = {"provider": "docker", "id": "box"}
BASE = {"v": 1, "id": "job-1", "op": "attach", "sandbox": SANDBOX, "execution_id": "run-1"}
FULL = {
    **BASE,
    "sandbox": {**SANDBOX, "user": "app", "port": 22, "tls": True, "none": None},
    "remote_dir": "/srv/app",
    "termination_grace_ms": 2500.5,
    "wake": True,
    "reply_to": "svc.a",
    "deadline_ms": 1700000000000,
    "timeout_ms": 1000,
    "max_attempts": 3,
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "read": {"stdout": 0, "stderr": 7, "max_bytes": 65536},
}


def job(**changes):
    """The base job with keys changed, as bytes."""
    return msgpack.packb({**BASE, **changes})


def extension(kind, data):
    """The base job with an extension for its deadline (the module refuses negative kinds)."""
    base = job()
    head = b"\xc7" + bytes([len(data), kind & 0xFF])
    return bytes([base[0] + 1]) + msgpack.packb("deadline_ms") + head + data + base[1:]


SEEDS = {
    "base": job(),
    "full": msgpack.packb(FULL),
    "full-as-bin": msgpack.packb(FULL, use_bin_type=False),
    "status": job(op="status"),
    "info": job(op="info", execution_id=None),
    "read-output": job(op="read_output", stream="stderr", offset=5, max_bytes=10),
    "newer-version": job(v=2),
    "unknown-operation": job(op="teleport"),
    "numeric-id": job(id=86699530287996692),
    "integral-floats": job(v=1.0, timeout_ms=1000.0, max_attempts=3.0),
    "fraction": job(timeout_ms=1.5),
    "nan-grace": job(termination_grace_ms=float("nan")),
    "infinite-grace": job(termination_grace_ms=float("inf")),
    "timestamp-32": extension(-1, struct.pack(">I", 1700000000)),
    "timestamp-64": extension(-1, struct.pack(">Q", 500000000 << 34 | 1700000000)),
    "timestamp-96": extension(-1, struct.pack(">Iq", 500000000, -1)),
    "timestamp-7-bytes": extension(-1, bytes(7)),
    "extension-13": extension(13, struct.pack(">d", 1.7e12)),
    "keys-no-text": msgpack.packb({1: "x", None: 2, **BASE}),
    "sandbox-keys-no-text": job(sandbox={**SANDBOX, 1: "x"}),
    "sandbox-many-keys": job(sandbox={**SANDBOX, **{f"k{i}": i for i in range(33)}}),
    "top-many-keys": job(**{f"k{i}": i for i in range(40)}),
    "key-twice": b"\x82\xa2id\xa1a\xc4\x02id\xa1b",
    "not-utf8": job(remote_dir=b"\xc3\x28"),
    "nul": job(remote_dir="/srv\0/app"),
    "array-of-96-gb": b"\xdd\xff\x00\x00\x00",
    "map-of-everything": b"\xdf\xff\xff\xff\xff",
    "bin-of-4-gb": b"\xc6\xff\xff\xff\xff",
    "depth-16": b"\x91" * 15 + b"\x90",
    "depth-33": b"\x91" * 32 + b"\x90",
    "headers-only": b"\xdc\xff\xff" * 400,
    "unused-byte": b"\xc1",
    "cut": b"\x82\xa1k\x01\xa1",
    "empty": b"",
    "trailing": job() + b"\x00",
    "every-format": bytes.fromhex(
        "81a178dc001a007fe0ffccffcdffffceffffffffcf7fffffffffffffffd080d18000"
        "d280000000d38000000000000000ca3fc00000cb3ff8000000000000c0c2c3d40501"
        "d5050102d60501020304d905616263646500c40100c70005de000090"
    ),
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
