"""What the integration tests stand on: a private redis-server, attachd processes whose log
can be waited for, sandboxes of provider local whose commands can be held in mid-job, and a
test case that proves at its end that nothing is left: no job, no process, no sanitizer's
report.

Nothing here sleeps in place of an event. What Redis offers no event for (a pending list that
becomes empty) is looked at again and again until a deadline. Deadlines are generous: they
only bound a test that has failed anyway.
"""

import collections
import contextlib
import ctypes
import fcntl
import io
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

import msgpack
import redis

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ATTACHD_BUILD_DIR", os.path.join(PROJECT, "build", "dev"))
ATTACHD = os.path.join(BUILD, "attachd")
DEADLINE_S = float(os.environ.get("ATTACHD_TEST_DEADLINE_S", "60"))
GROUP = "workers"

# attachd's own settings must come from the test alone.
CLEAN_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("ATTACHD_")
}

REPORTS = re.compile(
    r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|MemorySanitizer|runtime error:"
    r"|Assertion .* failed|==\d+==ERROR"
)
# A sanitizer says this about ucontext and means no fault.
HARMLESS = re.compile(r"ASan doesn't fully support makecontext/swapcontext")

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    """What a killed attachd leaves behind becomes our child, so that it is seen."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


become_subreaper()


def wait_until(is_so, what, deadline_s=DEADLINE_S):
    """Looks until is_so() gives something true, and returns that."""
    end = time.monotonic() + deadline_s
    while True:
        found = is_so()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(0.02)


def children():
    """Pid and command line of every child of this process; a zombie's line is empty."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found[int(name)] = file.read().replace(b"\0", b" ").decode(errors="replace")
    return found


def processes_below(directory):
    """Pids of live processes whose working directory is in there."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/cwd").startswith(directory):
                    found.append(int(name))
    return found


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def files_below(directory):
    """Every path below, with what tells a change of it."""
    found = {}
    for parent, directories, files in os.walk(directory):
        for name in directories + files:
            path = os.path.join(parent, name)
            entry = os.lstat(path)
            found[path] = (entry.st_mode, entry.st_size, entry.st_mtime_ns, entry.st_ino)
    return found


LOGFMT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


def parse_logfmt(line):
    """The fields of a log line. Quotes go; escapes stay, no test looks at them."""
    return {key: value.strip('"') for key, value in LOGFMT.findall(line)}


class Lines:
    """The lines of a pipe, collected by a thread, and what waits for them."""

    def __init__(self, pipe):
        self.lines = []
        self.ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        self._thread.start()

    def _collect(self, pipe):
        with pipe:
            for line in pipe:
                with self._changed:
                    self.lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait(self, is_wanted, what, count=1, deadline_s=DEADLINE_S):
        """The first `count` lines that are wanted."""

        def wanted():
            return [line for line in self.lines if is_wanted(line)]

        with self._changed:
            self._changed.wait_for(
                lambda: len(wanted()) >= count or self.ended, timeout=deadline_s
            )
            found = wanted()
        if len(found) < count:
            raise AssertionError(
                f"{len(found)} of {count} log lines: {what}; the log:\n" + "\n".join(self.lines)
            )
        return found[:count]

    def join(self):
        self._thread.join(DEADLINE_S)


class Server:
    """A redis-server of the test's own on a socket in its directory; on a loopback port of
    the kernel's choice too where a test asks for it."""

    def __init__(self, directory, append_only=False, with_port=False, arguments=()):
        self.directory = directory
        self.socket = os.path.join(directory, "redis.sock")
        self.url = f"unix://{self.socket}"
        self.port = None
        self.append_only = append_only
        self.with_port = with_port
        self.arguments = list(arguments)
        self.process = None
        self.client = None

    def _command(self):
        persistence = (
            ["--appendonly", "yes", "--appendfsync", "always"]
            if self.append_only
            else ["--appendonly", "no"]
        )
        return [
            "redis-server",
            *("--unixsocket", self.socket, "--port", str(self.port or 0)),
            *("--bind", "127.0.0.1", "--dir", self.directory, "--save", ""),
            *("--logfile", "", "--daemonize", "no"),
            *persistence,
            *self.arguments,
        ]

    def start(self):
        # Between the choice of a port and its use another process may take it: try again.
        for _ in range(20):
            if self.with_port and self.port is None:
                self.port = free_port()
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=CLEAN_ENVIRONMENT,
            )
            self.log = Lines(self.process.stdout)
            try:
                self.log.wait(lambda line: "eady to accept connections" in line, "redis is ready")
                break
            except AssertionError:
                self.kill()
                if not self.with_port or not any("in use" in line for line in self.log.lines):
                    raise
                self.port = None
        self.client = self.connect()
        return self

    def connect(self, **options):
        return redis.Redis(unix_socket_path=self.socket, **options)

    def kill(self):
        """As a crash of the machine's OOM killer: no word to anybody."""
        if self.process is None:
            return
        if self.client:
            self.client.close()
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.log.join()
        self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Worker:
    """One attachd. Settings are its environment (slots=2 is ATTACHD_SLOTS=2)."""

    def __init__(self, name, arguments=(), environment=None, **settings):
        self.name = name
        self.log = None
        self.exit_code = None
        own = {f"ATTACHD_{key.upper()}": str(value) for key, value in settings.items()}
        self.environment = {**CLEAN_ENVIRONMENT, **own, **(environment or {})}
        self.process = subprocess.Popen(
            [ATTACHD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
        self.pid = self.process.pid
        self.log = Lines(self.process.stderr)

    def wait_line(self, count=1, deadline_s=DEADLINE_S, **fields):
        """Waits for log lines with these fields; gives the fields of the last one."""

        def is_wanted(line):
            found = parse_logfmt(line)
            return all(found.get(key) == str(value) for key, value in fields.items())

        what = " ".join(f"{key}={value}" for key, value in fields.items())
        return parse_logfmt(self.log.wait(is_wanted, what, count, deadline_s)[-1])

    def wait_text(self, text, count=1, deadline_s=DEADLINE_S):
        return self.log.wait(lambda line: text in line, repr(text), count, deadline_s)[-1]

    def wait_ready(self):
        self.consumer = self.wait_line(msg="ready")["worker"]
        return self

    def has_line(self, text):
        return any(text in line for line in self.log.lines)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, deadline_s=DEADLINE_S):
        """Its exit status, negative for a signal, as soon as it has ended."""
        self.exit_code = self.process.wait(deadline_s)
        self.log.join()
        return self.exit_code

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        """SIGKILL; also where it has ended by itself."""
        if self.process.poll() is None:
            self.process.kill()
        return self.wait()

    @property
    def is_running(self):
        return self.process.poll() is None

    def reports(self):
        return [
            line for line in self.log.lines if REPORTS.search(line) and not HARMLESS.search(line)
        ]


class Gate:
    """Holds commands of sandboxes in mid-job.

    attach.sh runs wc where output is asked for. A wc of ours stands before the real one in
    the sandboxes' PATH: it announces its pid in a FIFO and waits for a shared lock, which
    the test holds exclusively while the gate is closed. Neither can be missed, however late
    anybody comes.
    """

    def __init__(self, directory, ignore_term=False):
        self.bin = os.path.join(directory, "bin")
        os.mkdir(self.bin)
        fifo = os.path.join(directory, "reached")
        lock = os.path.join(directory, "gate")
        os.mkfifo(fifo)
        self._reached = os.open(fifo, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._text = b""
        wrapper = os.path.join(self.bin, "wc")
        with open(wrapper, "w", encoding="utf-8") as file:
            trap = "trap '' TERM\n" if ignore_term else ""
            file.write(
                f"#!/bin/sh\n{trap}echo $$ >'{fifo}'\n"
                f"exec flock --shared '{lock}' /usr/bin/wc \"$@\"\n"
            )
        os.chmod(wrapper, 0o755)

    @property
    def path(self):
        return f"{self.bin}:/usr/bin:/bin"

    def close(self):
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def open(self):
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def wait_reached(self, count=1, deadline_s=DEADLINE_S):
        """The pids of the next `count` commands that have come to the gate."""
        end = time.monotonic() + deadline_s
        while self._text.count(b"\n") < count:
            ready, _, _ = select.select([self._reached], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{self._text!r}: not {count} commands came to the gate")
            self._text += os.read(self._reached, 4096)
        *pids, self._text = self._text.split(b"\n", count)
        return [int(pid) for pid in pids]

    def nobody_came(self):
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._reached, 4096)
        return self._text == b""

    def done(self):
        os.close(self._reached)
        os.close(self._lock)


class Reply(collections.namedtuple("Reply", "entry id ok body")):
    @property
    def result(self):
        return self.body["result"]

    @property
    def error(self):
        return self.body["error"]

    @property
    def code(self):
        return self.body.get("error", {}).get("code")


def read_reply(entry, fields):
    return Reply(
        entry.decode(),
        fields[b"id"].decode(),
        fields[b"ok"] == b"1",
        msgpack.unpackb(fields[b"reply"]),
    )


def capability_job(job_id, **more):
    """Answered with the capability error: the whole way through the queue, no sandbox."""
    return {
        "id": job_id,
        "op": "attach",
        "sandbox": {"provider": "cua-fleet", "id": "vm-1"},
        "execution_id": "attempt-1",
        **more,
    }


def info_job(job_id, **more):
    return {"id": job_id, "op": "info", "sandbox": {"provider": "cua-fleet", "id": "vm-1"}, **more}


def attach_job(job_id, sandbox="box", provider="local", **more):
    """On provider local, with output: what the gate can hold."""
    return {
        "id": job_id,
        "op": "attach",
        "sandbox": {"provider": provider, "id": sandbox},
        "execution_id": "attempt-1",
        "read": {"stdout": 0},
        "timeout_ms": 600_000,
        **more,
    }


CAPABILITY_MESSAGE = (
    'Sandbox provider "cua-fleet" does not support executeCommand, '
    "which is required for worker deploys."
)


def targz(files):
    """An artifact: {name: text or (mode, text)}."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            mode, text = content if isinstance(content, tuple) else (0o644, content)
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            entry.mode = mode
            tar.addfile(entry, io.BytesIO(text))
    return archive.getvalue()


# Notes each start; runs until it is ended.
WORKER_SH = b"""#!/bin/sh
echo "$$" >>starts
echo "hello $GREETING $*"
exec sleep 600
"""


def deploy_job(job_id, execution="e1", sandbox="box", files=None, **more):
    artifact = {"run.sh": (0o755, WORKER_SH)} if files is None else files
    return {
        "v": 1,
        "id": job_id,
        "op": "deploy",
        "sandbox": {"provider": "local", "id": sandbox},
        "execution_id": execution,
        "command": "./run.sh",
        "artifact": {"data": targz(artifact)},
        **more,
    }


class IntegrationTest(unittest.TestCase):
    """A Redis of its own for each test. Class attributes choose what it is like."""

    queue = "test"
    append_only = False
    with_port = False
    redis_arguments = ()
    ignore_term = False  # whether the sandboxes' held commands do
    lease_ms = 30_000  # tests of recovery set a short one

    def setUp(self):
        # A socket's path has at most 107 bytes: TMPDIR may be too deep.
        parent = tempfile.gettempdir()
        self.directory = tempfile.mkdtemp(
            prefix="attachd-test-", dir=parent if len(parent) < 60 else "/tmp"
        )
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.workers = []
        self.own_pids = set()  # children that the test itself knows about
        self.root = os.path.join(self.directory, "root")
        os.mkdir(self.root)
        self.gate = Gate(self.directory, self.ignore_term)
        self.addCleanup(self.gate.done)
        self.server = Server(
            self.directory, self.append_only, self.with_port, self.redis_arguments
        )
        self.addCleanup(self._kill_everything)
        self.server.start()

    def run(self, result=None):
        def bad():
            return len(result.failures) + len(result.errors) if result else 0

        before = bad()
        super().run(result)
        if bad() > before:
            for worker in self.workers:
                print(f"---- log of {worker.name} (exit {worker.exit_code})", file=sys.stderr)
                print("\n".join(worker.log.lines[-200:]), file=sys.stderr)
        return result

    # ---- the end of every test

    def tearDown(self):
        self.gate.open()
        for worker in self.workers:
            if worker.is_running:
                worker.signal(signal.SIGCONT)
                worker.signal(signal.SIGTERM)
        for worker in self.workers:
            if worker.exit_code is None:
                self.assertEqual(0, worker.wait(), f"{worker.name} did not end well")
            self.assertEqual([], worker.reports(), f"{worker.name}: a sanitizer's report")
            self.assertNotIn(
                worker.exit_code, (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS), worker.name
            )
        self.server.kill()
        self.assert_no_children()

    def assert_no_children(self):
        def left():
            found = {}
            for pid, line in children().items():
                if pid in self.own_pids:
                    continue
                with contextlib.suppress(ChildProcessError):
                    if os.waitpid(pid, os.WNOHANG) == (0, 0):
                        found[pid] = line
            return found

        end = time.monotonic() + DEADLINE_S
        while left() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual({}, left(), "processes are left")

    def _kill_everything(self):
        """After a failure: nothing of ours outlives the test. After a success: nothing."""
        for worker in self.workers:
            if worker.exit_code is None:
                worker.kill()
        self.server.kill()
        for pid in children():
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    # ---- workers and sandboxes

    def key(self, rest, queue=None):
        return f"attachd:{{{queue or self.queue}}}:{rest}"

    @property
    def client(self):
        return self.server.client

    def write_config(self, text, name="attachd.ini"):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def local_config(self):
        return self.write_config(
            f"[provider local]\nroot = {self.root}\nenv.PATH = {self.gate.path}\n"
        )

    def launch_worker(self, local=False, arguments=(), environment=None, **settings):
        """Starts one, without waiting for anything."""
        settings = {
            "redis_url": self.server.url,
            "queue": self.queue,
            "lease_ms": self.lease_ms,
            **settings,
        }
        if local:
            arguments = ["--config", self.local_config(), *arguments]
        worker = Worker(f"worker {len(self.workers) + 1}", arguments, environment, **settings)
        self.workers.append(worker)
        return worker

    def start_worker(self, **settings):
        return self.launch_worker(**settings).wait_ready()

    def make_sandbox(self, name="box", execution="attempt-1", output=b"hello\n"):
        """A sandbox of provider local with one execution that has ended, in Mastra's layout."""
        directory = os.path.join(
            self.root, name, "mastra-app", ".mastra", "executions", execution
        )
        os.makedirs(directory)
        for file, content in {
            "status": f"exited|{execution}|0|\n".encode(),
            "stdout": output,
            "stderr": b"",
        }.items():
            with open(os.path.join(directory, file), "wb") as stream:
                stream.write(content)
        return os.path.join(self.root, name)

    # ---- jobs and replies

    @staticmethod
    def packed(job):
        return msgpack.packb(job)

    def enqueue(self, job, queue=None, **fields):
        """A plain XADD, as any producer does it. bytes are written as they are."""
        body = job if isinstance(job, bytes) else msgpack.packb(job)
        return self.client.xadd(self.key("jobs", queue), {"job": body, **fields}).decode()

    def replies(self, name=None, queue=None):
        stream = self.key(f"replies:{name}" if name else "replies", queue)
        return [read_reply(entry, fields) for entry, fields in self.client.xrange(stream)]

    def wait_replies(self, count, name=None, queue=None, deadline_s=DEADLINE_S):
        """At least so many replies, all that there are."""
        stream = self.key(f"replies:{name}" if name else "replies", queue)
        end = time.monotonic() + deadline_s
        last, found = "0", []
        while len(found) < count:
            left_ms = int((end - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise AssertionError(f"{len(found)} of {count} replies in {deadline_s:.0f} s")
            self.assert_a_worker_runs()
            answer = self.client.xread({stream: last}, block=min(left_ms, 1000))
            for _, entries in answer or []:
                found += [read_reply(entry, fields) for entry, fields in entries]
                last = entries[-1][0]
        return found

    def wait_reply(self, job_id, **where):
        """The reply of that job."""

        def look():
            found = [reply for reply in self.replies(**where) if reply.id == job_id]
            if not found:
                self.assert_a_worker_runs()
            return found

        return wait_until(look, f"a reply to {job_id}")[0]

    def assert_a_worker_runs(self):
        """Waiting for a reply that nobody will write would only take long."""
        self.assertTrue(any(worker.is_running for worker in self.workers), "no worker runs")

    def letters(self, queue=None):
        return [fields for _, fields in self.client.xrange(self.key("dead", queue))]

    def wait_letters(self, count, queue=None):
        return wait_until(
            lambda: len(self.letters(queue)) >= count and self.letters(queue),
            f"{count} dead letters",
        )

    def pending(self, consumer=None, queue=None):
        try:
            return self.client.xpending_range(
                self.key("jobs", queue), GROUP, "-", "+", 10_000, consumername=consumer
            )
        except redis.ResponseError as error:
            if "NOGROUP" in str(error):
                return []
            raise

    def consumers(self, queue=None):
        return [
            consumer["name"].decode()
            for consumer in self.client.xinfo_consumers(self.key("jobs", queue), GROUP)
        ]

    def assert_queue_is_empty(self, queue=None):
        """Every job has been answered; the last XACK may follow its reply by a moment only
        where the reply was read in the middle of the script, which cannot be."""
        self.assertEqual(0, self.client.xlen(self.key("jobs", queue)), "jobs are left")
        self.assertEqual([], self.pending(queue=queue), "entries are pending")
        self.assertEqual(0, self.client.zcard(self.key("delayed", queue)), "delayed jobs")
        self.assertEqual(0, self.client.hlen(self.key("body", queue)), "delayed bodies")

    def assert_answered_once(self, job_ids, name=None, queue=None):
        """Exactly these replies and no other, once all workers that could add one have
        stopped or are done."""
        found = collections.Counter(reply.id for reply in self.replies(name, queue))
        self.assertEqual(collections.Counter(job_ids), found)

    def stop_workers(self):
        """Drains all that run: whatever they had to say has been said afterwards."""
        running = [worker for worker in self.workers if worker.is_running]
        for worker in running:
            worker.signal(signal.SIGTERM)
        for worker in running:
            self.assertEqual(0, worker.wait(), f"{worker.name} did not end well")


class DeployTest(IntegrationTest):
    """With a sandbox "box", and what deploys make of it."""

    def setUp(self):
        super().setUp()
        self.box = os.path.join(self.root, "box")
        self.app = os.path.join(self.box, "mastra-app")
        os.mkdir(self.box)

    def tearDown(self):
        for pid in processes_below(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().tearDown()

    def execution(self, name="e1"):
        return os.path.join(self.app, ".mastra", "executions", name)

    def read(self, *path):
        with open(os.path.join(self.app, *path), "rb") as file:
            return file.read()

    def run_job(self, job):
        self.enqueue(job)
        return self.wait_reply(job["id"])

    def deployed(self, job_id="d1", **more):
        reply = self.run_job(deploy_job(job_id, **more))
        self.assertTrue(reply.ok, reply.body)
        return reply

    def refused(self, code, job):
        reply = self.run_job(job)
        self.assertFalse(reply.ok, reply.body)
        self.assertEqual(code, reply.code, reply.body)
        return reply.error

    def assert_nothing_left(self, execution="e1"):
        """No lock, archive or temporary file."""
        left = [
            os.path.relpath(path, self.app)
            for path in files_below(self.app)
            if path.endswith(".attachd") and not path.endswith("install-hash.attachd")
            or ".attachd." in path
            or path.endswith("-lock")
            or "attachd.lock" in path
        ]
        self.assertEqual([], left)
