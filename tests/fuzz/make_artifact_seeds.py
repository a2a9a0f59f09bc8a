#!/usr/bin/env python3
"""Writes seeds for fuzz_artifact: tests/fuzz/make_artifact_seeds.py FOLDER.

The first byte of each says how the rest is read: below 0x80 a tar archive in pieces of that
many bytes (0: 512), else a gzip file."""
import gzip
import io
import os
import sys
import tarfile


def entry(archive, name, kind=tarfile.REGTYPE, link="", data=b"", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.size = len(data)
    info.mode = mode
    archive.addfile(info, io.BytesIO(data))


def archive(form, fill):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as made:
        fill(made)
    # The padding to 10 KiB teaches nothing.
    return stream.getvalue().rstrip(b"\0") + bytes(1024 + 511)


def plain(made):
    entry(made, "./", tarfile.DIRTYPE)
    entry(made, "./package.json", data=b"{}")
    entry(made, "./yarn.lock", data=b"y")
    entry(made, "./d/file", data=b"x" * 700)
    entry(made, "./d/link", tarfile.SYMTYPE, "../package.json")
    entry(made, "./hard", tarfile.LNKTYPE, "./d/file")


def long_names(made):
    entry(made, "./" + "n" * 120 + "/" + "m" * 180, data=b"x")
    entry(made, "./link", tarfile.SYMTYPE, "t" * 200)


def through_links(made):
    entry(made, "a", tarfile.SYMTYPE, "d")
    entry(made, "b", tarfile.SYMTYPE, "a")
    entry(made, "b/x", data=b"x")


def outside(made):
    entry(made, "../x")


def device(made):
    entry(made, "dev", tarfile.CHRTYPE)


def set_id(made):
    entry(made, "s", mode=0o4755)


def hidden_state(made):
    entry(made, "./.mastra/executions/a/status", data=b"running|a")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    seeds = {}
    for fill in plain, long_names, through_links, outside, device, set_id, hidden_state:
        name = fill.__name__.replace("_", "-")
        seeds[name + "-gnu"] = b"\0" + archive(tarfile.GNU_FORMAT, fill)
        seeds[name + "-pax"] = b"\x07" + archive(tarfile.PAX_FORMAT, fill)
    packed = gzip.compress(archive(tarfile.GNU_FORMAT, plain), mtime=0)
    seeds["gzip"] = b"\x80" + packed
    seeds["gzip-cut"] = b"\x80" + packed[:-3]
    seeds["gzip-twice"] = b"\x80" + packed + packed
    seeds["gzip-padded"] = b"\x80" + packed + bytes(16)
    for name, data in seeds.items():
        # Whole blocks for the tar, as read from byte 1.
        if not name.startswith("gzip"):
            data = data[: 1 + (len(data) - 1) // 512 * 512]
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


main()
