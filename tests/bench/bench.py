#!/usr/bin/python3
"""Measures attachd beside what its parts can do at best, and prints both with the targets.

  bench.py BUILD_DIR [--jobs N] [--attaches N] [--in-flight N] [--rounds N]

Everything runs on this machine: a private redis-server on a Unix socket, attachd, and the
programs of tests/bench. The figures of a row come from the same run, one right after the other.
"""
import argparse
import contextlib
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import msgpack
import redis

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KEY = "attachd:{bench}:"
TICK = os.sysconf("SC_CLK_TCK")
WAIT_S = 300


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def wait_until(what, condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited too long for {what}")
        time.sleep(0.02)


class Bench:
    def __init__(self, build, directory):
        self.build = build
        self.directory = pathlib.Path(directory)
        self.socket = str(self.directory / "redis.sock")
        self.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--dir", directory], stdout=subprocess.DEVNULL)
        wait_until("redis", lambda: os.path.exists(self.socket))
        self.redis = redis.Redis(unix_socket_path=self.socket)

    def close(self):
        self.redis.close()
        self.server.kill()
        self.server.wait()

    def load(self, count, job):
        """An empty queue with `count` jobs in it."""
        self.redis.flushall()
        self.redis.xgroup_create(KEY + "jobs", "workers", "0", mkstream=True)
        pipe = self.redis.pipeline(transaction=False)
        for i in range(count):
            pipe.xadd(KEY + "jobs", {"job": msgpack.packb(job(i))})
            if i % 1000 == 999:
                pipe.execute()
        pipe.execute()

    @contextlib.contextmanager
    def worker(self, slots, **settings):
        env = dict(os.environ, ATTACHD_REDIS_URL=f"unix://{self.socket}", ATTACHD_QUEUE="bench",
                   ATTACHD_SLOTS=str(slots), ATTACHD_REPLY_MAXLEN="100000000",
                   ATTACHD_LEASE_MS="600000", **settings)
        with open(self.directory / "worker.log", "wb") as log:
            process = subprocess.Popen([self.build / "attachd"], env=env, stderr=log)
            try:
                yield process
            finally:
                process.terminate()
                process.wait()

    def drained(self):
        return self.redis.xlen(KEY + "jobs") == 0

    def rate(self):
        """Replies a second, by the clock of Redis in the entries' ids."""
        info = self.redis.xinfo_stream(KEY + "replies")
        first, last = (int(info[name][0].split(b"-")[0]) for name in ("first-entry", "last-entry"))
        return info["length"] / max(0.001, (last - first) / 1000)

    def queue_path(self, count):
        job = lambda i: {"v": 1, "id": f"b{i}", "op": "attach", "execution_id": "run-1",
                         "sandbox": {"provider": "cua-fleet", "id": f"desk-{i}"}}
        self.load(count, job)
        with self.worker(256) as process:
            wait_until("the jobs", self.drained)
            cpu = cpu_seconds(process.pid)
        rate = self.rate()
        assert self.redis.xlen(KEY + "replies") == count
        reply = self.redis.xrevrange(KEY + "replies", count=1)[0][1][b"reply"]
        best, best_at = 0, 0
        for at_once in (16, 64, 256):
            self.load(count, job)
            subprocess.run([self.build / "tests/bench/queue_ceiling", self.socket, "bench",
                            str(count), str(len(reply)), str(at_once)], check=True,
                           stdout=subprocess.DEVNULL)
            if self.rate() > best:
                best, best_at = self.rate(), at_once
        return rate, best, best_at, cpu / count * 1000

    def execution(self, sandbox):
        remote = self.directory / "root" / sandbox / "mastra-app"
        remote.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([SOURCE / "tests/fixtures/start-execution", remote, "run-1", "sleep", "600"],
                       check=True)
        return int((remote / ".mastra/executions/run-1/pid").read_text())

    def attach_job(self, i, **more):
        return {"v": 1, "id": f"a{i}", "op": "attach", "execution_id": "run-1", "timeout_ms": 600000,
                "sandbox": {"provider": "local", "id": "box"}, **more}

    def script(self):
        """The script of an attach, as a shell was really given it."""
        config = self.hold_config()
        self.load(1, lambda i: self.attach_job(i, read={"stdout": 0}))
        with self.worker(1, **config) as process:
            children = []
            wait_until("a held attach", lambda: children.extend(
                self.held_shells(process.pid)) or children)
            words = pathlib.Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")
            self.let_go()
        # The same script with no output asked for: the last four arguments are the outputs'.
        head, rest = words[2].split(b"\n", 1)
        arguments = head.split(b" ")
        arguments[-4:] = [b"''"] * 4
        path = self.directory / "attach.script"
        path.write_bytes(b" ".join(arguments) + b"\n" + rest)
        return path

    def held_shells(self, pid):
        found = []
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            try:
                found += (task / "children").read_text().split()
            except OSError:
                continue
        return found

    def hold_config(self):
        bin_directory = self.directory / "bin"
        bin_directory.mkdir(exist_ok=True)
        hold = bin_directory / "wc"
        gate = bin_directory / "wc.gate"
        if not hold.exists():
            hold.write_bytes((self.build / "tests/bench/hold").read_bytes())
            hold.chmod(0o755)
            os.mkfifo(gate)
        return {"ATTACHD_LOCAL_ROOT": str(self.directory / "root"),
                "PATH": f"{bin_directory}:{os.environ['PATH']}"}

    def let_go(self):
        wait_until("the held jobs", lambda: self.open_gate() or self.drained())

    def open_gate(self):
        with contextlib.suppress(OSError):
            os.close(os.open(self.directory / "bin/wc.gate", os.O_WRONLY | os.O_NONBLOCK))

    def attach_path(self, count):
        script = self.script()
        self.load(count, self.attach_job)
        with self.worker(16, ATTACHD_LOCAL_ROOT=str(self.directory / "root")) as process:
            wait_until("the attaches", self.drained)
            cpu = cpu_seconds(process.pid)
        rate = self.rate()
        ok = {fields[b"ok"] for _, fields in self.redis.xrange(KEY + "replies")}
        assert ok == {b"1"}, ok
        rates = {}
        for at_once in (1, 2, 4):
            done = subprocess.run([self.build / "tests/bench/spawn_ceiling", script,
                                   self.directory / "root/box", str(count), str(at_once)],
                                  check=True, capture_output=True, text=True)
            rates[at_once] = float(done.stdout)
        return rate, rates, cpu / count * 1000

    def memory(self, in_flight):
        config = self.hold_config()
        self.load(0, None)
        with self.worker(in_flight, **config) as process:
            wait_until("the consumer", lambda: self.redis.xinfo_consumers(KEY + "jobs", "workers"))
            idle = rss_kib(process.pid)
            pipe = self.redis.pipeline(transaction=False)
            for i in range(in_flight):
                pipe.xadd(KEY + "jobs", {"job": msgpack.packb(
                    self.attach_job(i, read={"stdout": 0}))})
            pipe.execute()
            pending = lambda: self.redis.xpending(KEY + "jobs", "workers")["pending"]
            wait_until("all in flight", lambda: pending() == in_flight and
                       len(self.held_shells(process.pid)) >= in_flight)
            busy = rss_kib(process.pid)
            self.let_go()
        return idle, (busy - idle) / in_flight


def verdict(reached, wanted, at_least=True):
    good = reached >= wanted if at_least else reached <= wanted
    return "reached" if good else "MISSED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=50000)
    parser.add_argument("--attaches", type=int, default=1500)
    parser.add_argument("--in-flight", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="attachd-bench-") as directory:
        bench = Bench(options.build.resolve(), directory)
        held = []
        try:
            rows = [bench.queue_path(options.jobs) for _ in range(options.rounds)]
            rate, best, at_once, cpu = sorted(rows)[len(rows) // 2]
            ratio = statistics.median(row[0] / row[1] for row in rows)
            print(f"queue path   {rate:9.0f} jobs/s   bare pipeline {best:9.0f} (COUNT {at_once})"
                  f"   {ratio:6.1%}   target 70%   {verdict(ratio, 0.7)}")
            print(f"             {cpu:9.4f} CPU seconds of attachd per 1,000 jobs")
            held.append(bench.execution("box"))
            rows = [bench.attach_path(options.attaches) for _ in range(options.rounds)]
            rate, rates, cpu = sorted(rows, key=lambda row: row[0])[len(rows) // 2]
            ratio = statistics.median(row[0] / max(row[1].values()) for row in rows)
            shown = ", ".join(f"{value:.0f} with {key}" for key, value in rates.items())
            print(f"attach local {rate:9.1f} jobs/s   bare posix_spawn loops: {shown} at once"
                  f"   {ratio:6.1%} of the best   target 70%   {verdict(ratio, 0.7)}")
            print(f"             {cpu:9.4f} CPU seconds of attachd per 1,000 jobs, its children "
                  f"not counted")
            idle, each = bench.memory(options.in_flight)
            print(f"memory       {idle / 1024:9.1f} MiB idle   target 12   "
                  f"{verdict(idle / 1024, 12, False)}")
            print(f"             {each:9.1f} KiB a job, {options.in_flight} in flight   target 20   "
                  f"{verdict(each, 20, False)}")
        finally:
            for pid in held:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, 9)
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
