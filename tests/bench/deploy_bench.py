#!/usr/bin/python3
"""Measures deploys on provider local beside tar, and prints both with the targets.

  deploy_bench.py BUILD_DIR [--mib N] [--deploys N]

A deploy's time is from the job's XADD to its reply, with the whole of it in between: checking,
upload, extraction, launch, and a program that runs. tar -xzf of the same file, with a fresh
directory each time, stands beside it; one follows the other, and the medians are compared.
"""
import argparse
import contextlib
import functools
import hashlib
import http.server
import io
import pathlib
import random
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import threading
import time

import msgpack

from bench import KEY, Bench, WAIT_S, rss_kib

RUN = b"#!/bin/sh\nexec sleep 600\n"


def add(tar, name, content, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def pack(path, mib):
    """An archive of about so many MiB. Half of what is in it does not compress, as programs
    and pictures do not; the rest does, as texts do, so that it holds about twice as much."""
    noise = random.Random(1)
    with tarfile.open(path, "w:gz", compresslevel=6) as tar:
        add(tar, "run.sh", RUN, 0o755)
        for i in range(mib * 8):
            plain = noise.randbytes(128 * 1024)
            add(tar, f"lib/{i}.bin", plain)
            add(tar, f"lib/{i}.js", plain[:1024].hex().encode() * 64)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Most:
    """The most resident memory of a process, looked at every few milliseconds."""

    def __init__(self, pid):
        self.pid = pid
        self.idle = self.most = rss_kib(pid)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        while not self._end.wait(0.005):
            self.most = max(self.most, rss_kib(self.pid))

    def rise(self):
        self._end.set()
        self._thread.join()
        return self.most - self.idle


class DeployBench(Bench):
    def __init__(self, build, directory, mib):
        super().__init__(build, directory)
        self.artifacts = self.directory / "artifacts"
        (self.artifacts / "app").mkdir(parents=True)
        self.root = self.directory / "root"
        self.root.mkdir()
        self.archive = self.artifacts / "app.tgz"
        pack(self.archive, mib)
        subprocess.run(["tar", "-xzf", self.archive, "-C", self.artifacts / "app"], check=True)
        self.http = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Quiet, directory=str(self.artifacts)))
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.count = 0

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        super().close()

    def settings(self):
        return {"ATTACHD_LOCAL_ROOT": str(self.root),
                "ATTACHD_ARTIFACT_ROOT": str(self.artifacts),
                "ATTACHD_ARTIFACT_HOSTS": f"http://127.0.0.1:{self.http.server_port}"}

    def kinds(self):
        data = self.archive.read_bytes()
        return {
            "data": {"data": data},
            "dir": {"dir": "app"},
            "url": {"url": f"http://127.0.0.1:{self.http.server_port}/app.tgz",
                    "sha256": hashlib.sha256(data).hexdigest()},
        }

    def extract(self):
        """Seconds that tar takes."""
        directory = self.directory / "beside"
        directory.mkdir()
        began = time.monotonic()
        subprocess.run(["tar", "-xzf", self.archive, "-C", directory], check=True)
        taken = time.monotonic() - began
        shutil.rmtree(directory)
        return taken

    def run(self, job):
        """Seconds until the reply, and the reply."""
        self.count += 1
        job = {"v": 1, "id": f"d{self.count}", "timeout_ms": WAIT_S * 1000, **job}
        body = msgpack.packb(job)
        last = "0-0"
        newest = self.redis.xrevrange(KEY + "replies", count=1)
        if newest:
            last = newest[0][0]
        began = time.monotonic()
        self.redis.xadd(KEY + "jobs", {"job": body})
        ((_, entries),) = self.redis.xread({KEY + "replies": last}, block=WAIT_S * 1000)
        taken = time.monotonic() - began
        reply = msgpack.unpackb(entries[0][1][b"reply"])
        if reply["id"] != job["id"] or not reply["ok"]:
            raise RuntimeError(f"the reply is {reply}")
        return taken, reply

    def deploy(self, artifact):
        """Into a new sandbox, which is destroyed afterwards."""
        (self.root / "box").mkdir()
        sandbox = {"provider": "local", "id": "box"}
        taken, reply = self.run({"op": "deploy", "sandbox": sandbox, "execution_id": "e",
                                 "command": "./run.sh", "artifact": artifact})
        self.run({"op": "destroy", "sandbox": sandbox})
        return taken, reply["execs"]


def verdict(reached):
    return "reached" if reached else "MISSED"


def measure(bench, deploys):
    small = io.BytesIO()
    with tarfile.open(fileobj=small, mode="w:gz") as tar:
        add(tar, "run.sh", RUN, 0o755)
    with bench.worker(4, **bench.settings()):
        times = [bench.deploy({"data": small.getvalue()}) for _ in range(deploys)]
        execs = max(execs for _, execs in times)
        print(f"small artifact: median {statistics.median(t for t, _ in times) * 1000:.0f} ms, "
              f"execs {execs} (4 or less: {verdict(execs <= 4)})", flush=True)
    size = bench.archive.stat().st_size / 2**20
    for kind, artifact in bench.kinds().items():
        with bench.worker(4, **bench.settings()) as process:
            bench.deploy({"data": small.getvalue()})  # what is loaded once is loaded
            memory = Most(process.pid)
            deployed, extracted = [], []
            for _ in range(deploys):
                extracted.append(bench.extract())
                deployed.append(bench.deploy(artifact)[0])
            rise = memory.rise() / 1024
        taken, beside = statistics.median(deployed), statistics.median(extracted)
        memory_verdict = "" if kind == "data" else f" (2 or less: {verdict(rise <= 2)})"
        print(f"{size:.1f} MiB by {kind}: median {taken * 1000:.0f} ms, tar -xzf "
              f"{beside * 1000:.0f} ms: {taken / beside:.2f} times "
              f"(1.5 or less: {verdict(taken / beside <= 1.5)}); "
              f"memory +{rise:.1f} MiB{memory_verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--deploys", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attachd-bench-") as directory:
        with contextlib.closing(
                DeployBench(options.build.resolve(), directory, options.mib)) as bench:
            measure(bench, options.deploys)


if __name__ == "__main__":
    main()
