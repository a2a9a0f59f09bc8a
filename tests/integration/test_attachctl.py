#!/usr/bin/python3
"""attachctl against a real Redis and a real attachd.

ATTACHD_BUILD_DIR names the directory with the two programs. Everything that is started
here is stopped by its pid, and every wait is for an event, within a deadline.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import msgpack
import redis

BUILD = pathlib.Path(os.environ["ATTACHD_BUILD_DIR"])
DEADLINE_S = 20
MARGIN_S = 2  # attachctl's own, EXCHANGE_MARGIN_MS
SLACK_S = 4  # what a busy machine may add


def environment(**more):
    """The tests' own, without settings of whoever runs them."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ATTACHD_")}
    return {**kept, **more}


def wait_for(condition, what):
    """Asks until the answer is true; the answers come from other processes."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        threading.Event().wait(0.01)
    raise AssertionError(f"{what} did not happen within {DEADLINE_S} s")


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class WithRedis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="attachctl-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.socket = f"{cls.directory}/redis.sock"
        cls.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", cls.socket, "--save", "",
             "--dir", cls.directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(stop, cls.server)
        cls.redis = redis.Redis(unix_socket_path=cls.socket)
        cls.addClassCleanup(cls.redis.close)
        wait_for(cls.is_up, "Redis")
        cls.url = f"unix://{cls.socket}"

    @classmethod
    def is_up(cls):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(cls.socket) == 0

    def ctl(self, *words, url=None, **options):
        options = {"capture_output": True, "timeout": DEADLINE_S, **options}
        return subprocess.run([BUILD / "attachctl", *words],
                              env=environment(ATTACHD_REDIS_URL=url or self.url), **options)

    def jobs(self, queue):
        return [msgpack.unpackb(fields[b"job"])
                for _, fields in self.redis.xrange(f"attachd:{{{queue}}}:jobs")]

    def answer_as_a_worker(self, queue, make_reply, reply_to=None):
        """Takes one job off the stream and answers it; to be joined."""
        def work():
            key = f"attachd:{{{queue}}}:jobs"
            ((_, ((entry, fields),)),) = self.redis.xread({key: "0"}, 1, DEADLINE_S * 1000)
            job = msgpack.unpackb(fields[b"job"])
            reply = {"v": 1, "id": job["id"], "entry": entry.decode(), "op": job["op"],
                     **make_reply(job)}
            replies = f"attachd:{{{queue}}}:replies" + (f":{reply_to}" if reply_to else "")
            self.redis.xadd(replies, {"id": job["id"], "ok": int(reply["ok"]),
                                      "reply": msgpack.packb(reply)})
        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)


class WithAttachd(WithRedis):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        log = pathlib.Path(cls.directory, "attachd.log")
        with log.open("wb") as stderr:
            worker = subprocess.Popen(
                [BUILD / "attachd"], stderr=stderr,
                env=environment(ATTACHD_REDIS_URL=cls.url))
        cls.addClassCleanup(stop, worker)
        wait_for(lambda: "msg=ready" in log.read_text(), "attachd's readiness")

    SANDBOX = ("--provider", "cua-fleet", "--sandbox", "box")

    def test_the_capability_error_comes_back_as_json(self):
        done = self.ctl("attach", *self.SANDBOX, "--execution-id", "run-1", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count(b"\n"), 1)
        self.assertNotIn(b"attachctl:", done.stderr)
        reply = json.loads(done.stdout)
        self.assertEqual(reply["op"], "attach")
        self.assertTrue(reply["id"].startswith("ctl-"))
        self.assertEqual(reply["error"]["code"], "capability_unavailable")
        self.assertEqual(reply["error"]["capability"], "execute_command")
        self.assertEqual(
            reply["error"]["message"],
            'Sandbox provider "cua-fleet" does not support executeCommand, which is '
            'required for worker deploys.')
        self.assertIn("info", reply["error"]["remedy"])

    def test_the_capability_error_is_a_table_for_people(self):
        done = self.ctl("status", *self.SANDBOX, "--execution-id", "run-1", text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\ncode +capability_unavailable\n")
        self.assertRegex(done.stdout, r"\ncapability +execute_command\n")
        self.assertRegex(done.stdout, r"\nremedy +rebuild")

    def test_an_error_leaves_raw_output_empty(self):
        done = self.ctl("read-output", *self.SANDBOX, "--execution-id", "run-1", "--raw")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"capability_unavailable", done.stderr)

    def test_info_needs_no_commands(self):
        done = self.ctl("info", *self.SANDBOX, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["result"]["sandbox_id"], "box")

    def test_an_unknown_provider_is_an_error_answer(self):
        done = self.ctl("info", "--provider", "nosuch", "--sandbox", "box", text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\ncode +unknown_provider\n")

    def test_a_file_is_enqueued_and_its_answer_awaited_where_it_asked(self):
        path = pathlib.Path(self.directory, "job.msgpack")
        path.write_bytes(msgpack.packb({
            "id": "from-file", "op": "info", "reply_to": "elsewhere",
            "sandbox": {"provider": "cua-fleet", "id": "box"}}))
        done = self.ctl("enqueue", str(path), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["id"], "from-file")
        self.assertEqual(self.redis.xlen("attachd:{default}:replies:elsewhere"), 1)

    def test_a_job_that_a_worker_refuses_is_enqueued_all_the_same(self):
        body = msgpack.packb({"id": "odd-op", "op": "dance"})
        done = self.ctl("enqueue", "-", "--json", input=body)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "unknown_operation")


class WithoutAttachd(WithRedis):
    def test_no_worker_is_no_answer_within_the_time(self):
        begin = time.monotonic()
        done = self.ctl("info", "--provider", "p", "--sandbox", "s", "--queue", "idle",
                        "--timeout-ms", "200", text=True)
        self.assertEqual(done.returncode, 3)
        self.assertLess(time.monotonic() - begin, 0.2 + MARGIN_S + SLACK_S)
        self.assertEqual(done.stdout, "")
        self.assertIn("no answer to job ctl-", done.stderr)
        self.assertIn('queue "idle"', done.stderr)
        (job,) = self.jobs("idle")
        self.assertEqual(job["timeout_ms"], 200)
        self.assertLess(job["deadline_ms"], time.time() * 1000)

    def test_no_wait_prints_the_id_of_a_job_without_a_deadline(self):
        words = ("info", "--provider", "p", "--sandbox", "s", "--queue", "later", "--no-wait")
        done = self.ctl(*words, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        (job,) = self.jobs("later")
        self.assertEqual(done.stdout, job["id"] + "\n")
        self.assertNotIn("deadline_ms", job)
        done = self.ctl(*words, "--json", text=True)
        printed = json.loads(done.stdout)
        entries = self.redis.xrange("attachd:{later}:jobs", printed["entry"],
                                    printed["entry"])
        self.assertEqual(msgpack.unpackb(entries[0][1][b"job"])["id"], printed["id"])

    def test_bytes_without_an_id_are_refused_and_not_enqueued(self):
        for body, reason in ((b"", b"is empty"), (b"\xc1", b"0xc1"),
                             (msgpack.packb({"op": "info"}), b"id is required"),
                             (msgpack.packb([1]), b"must be a map")):
            done = self.ctl("enqueue", "-", "--queue", "refused", input=body)
            self.assertEqual(done.returncode, 2, body)
            self.assertIn(reason, done.stderr)
        self.assertEqual(self.redis.exists("attachd:{refused}:jobs"), 0)

    def test_a_file_goes_onto_the_stream_byte_for_byte(self):
        body = msgpack.packb({"id": "as-it-is", "op": "info", "unknown": b"\x00\xff",
                              "sandbox": {"provider": "p", "id": "s"}})
        done = self.ctl("enqueue", "-", "--queue", "bytes", "--no-wait", input=body)
        self.assertEqual(done.stdout, b"as-it-is\n", done.stderr)
        ((_, fields),) = self.redis.xrange("attachd:{bytes}:jobs")
        self.assertEqual(fields, {b"job": body})

    HOSTILE = b"\x1b]0;owned\x07\r\n\xff\x00"

    def hostile(self, job):
        return {"ok": True, "result": {
            "stream": "stdout", "data": self.HOSTILE, "offset": 0, "next_offset": 14,
            "total_bytes": 14, "eof": True, "note\x1b[1m": "a\nb\u202e\u009b"}}

    def read_hostile(self, queue, *words):
        self.answer_as_a_worker(queue, self.hostile)
        done = self.ctl("read-output", "--provider", "p", "--sandbox", "s",
                        "--execution-id", "e", "--queue", queue, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_hostile_reply_cannot_steer_the_terminal(self):
        shown = self.read_hostile("hostile-table")
        self.assertNotIn(b"\x1b", shown)
        self.assertIn(b"--- stdout\n\\x1b]0;owned\\x07\\x0d\n\\xff\\x00\n", shown)

    def test_a_hostile_reply_is_one_line_of_ascii_json(self):
        printed = self.read_hostile("hostile-json", "--json")
        self.assertEqual(printed.count(b"\n"), 1)
        self.assertTrue(all(0x20 <= byte < 0x7f for byte in printed[:-1]))
        result = json.loads(printed)["result"]
        self.assertEqual(result["data_base64"], "G10wO293bmVkBw0K/wA=")
        self.assertNotIn("data", result)
        self.assertEqual(result["note\\x1b[1m"], "a\nb\u202e\u009b")

    def test_raw_gives_the_bytes_and_nothing_else(self):
        self.assertEqual(self.read_hostile("hostile-raw", "--raw"), self.HOSTILE)

    def test_an_answer_that_is_none_is_no_answer(self):
        self.answer_as_a_worker("odd", lambda job: {"ok": True})
        done = self.ctl("info", "--provider", "p", "--sandbox", "s", "--queue", "odd",
                        text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("no result", done.stderr)

    def test_a_key_of_another_type_is_told_with_its_place(self):
        self.redis.set("attachd:{taken}:jobs", "x")
        done = self.ctl("info", "--provider", "p", "--sandbox", "s", "--queue", "taken",
                        text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("WRONGTYPE", done.stderr)
        self.assertIn(self.socket, done.stderr)


class WithoutRedis(unittest.TestCase):
    def ctl(self, *words, **more):
        return subprocess.run([BUILD / "attachctl", *words], env=environment(**more),
                              capture_output=True, timeout=DEADLINE_S, text=True)

    def ask(self, url, *words):
        return self.ctl("info", "--provider", "p", "--sandbox", "s", "--timeout-ms", "300",
                        "--redis-url", url, *words)

    def test_redis_down_is_told_within_the_time_and_without_the_password(self):
        for words in ((), ("--no-wait",)):
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
                begin = time.monotonic()
                done = self.ask(f"redis://me:secret@127.0.0.1:{taken.getsockname()[1]}",
                                *words)
            self.assertEqual(done.returncode, 3)
            self.assertLess(time.monotonic() - begin, 0.3 + SLACK_S)
            self.assertIn("Connection refused", done.stderr)
            self.assertIn("ATTACHD_REDIS_URL", done.stderr)
            self.assertNotIn("secret", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_redis_that_says_nothing_is_left_within_the_time(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            begin = time.monotonic()
            done = self.ask(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        self.assertEqual(done.returncode, 3)
        self.assertLess(time.monotonic() - begin, 0.3 + SLACK_S)
        self.assertIn("cannot be reached", done.stderr)

    def test_what_is_wrong_with_the_command_line_is_told(self):
        for words in ((), ("dance",), ("info",), ("info", "--provider", "p"),
                      ("status", "--provider", "p", "--sandbox", "s"),
                      ("info", "--provider", "p", "--sandbox", ""),
                      ("info", "--provider", "p", "--sandbox", "s", "--set", "x"),
                      ("info", "--provider", "p", "--sandbox", "s", "--queue", "no name"),
                      ("info", "--provider", "p", "--sandbox", "s", "--redis-url", "http://x"),
                      ("enqueue",), ("enqueue", "/nonexistent/job"), ("help", "dance")):
            done = self.ctl(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stdout, "", words)
            self.assertRegex(done.stderr, r"(?m)^attachctl: ", words)

    def test_the_matrix_needs_nobody(self):
        done = self.ctl("providers", "--json", ATTACHD_REDIS_URL="unix:///nonexistent")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in json.loads(done.stdout)["providers"]}
        self.assertIs(rows["cua-fleet"]["capabilities"]["execute_command"], False)
        self.assertIn("cua-fleet", self.ctl("providers").stdout)

    def test_help_is_everywhere_and_goes_to_standard_output(self):
        for words in (("help",), ("--help",), ("-h",), ("help", "status"),
                      ("status", "--help"), ("help", "help"), ("enqueue", "-h")):
            done = self.ctl(*words)
            self.assertEqual(done.returncode, 0, words)
            self.assertTrue(done.stdout.startswith("usage: attachctl "), words)
            self.assertEqual(done.stderr, "")
        self.assertRegex(self.ctl("--version").stdout, r"^attachctl \d+\.\d+\.\d+\n$")

    def test_the_completion_is_a_script_that_bash_takes(self):
        done = self.ctl("completion", "bash")
        self.assertEqual(done.returncode, 0)
        offered = subprocess.run(
            ["bash", "-c", 'source /dev/stdin; PATH=$1:$PATH; '
             'COMP_WORDS=(attachctl info --provider cua); COMP_CWORD=3; _attachctl; '
             'echo "${COMPREPLY[@]}"', "bash", str(BUILD)],
            input=done.stdout, capture_output=True, text=True, env=environment(),
            timeout=DEADLINE_S, check=True)
        self.assertEqual(offered.stdout, "cua-fleet\n")

    def test_a_reader_that_has_gone_is_no_trouble(self):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run([BUILD / "attachctl", "help"], stdout=writer,
                                  stderr=subprocess.PIPE, env=environment(),
                                  timeout=DEADLINE_S)
        finally:
            os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BUILD / "attachctl", "help"], stdout=full,
                                  stderr=subprocess.PIPE, env=environment(),
                                  timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"No space left", done.stderr)

    def test_an_interrupt_ends_it(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            asking = subprocess.Popen(
                [BUILD / "attachctl", "info", "--provider", "p", "--sandbox", "s",
                 "--redis-url", f"redis://127.0.0.1:{silent.getsockname()[1]}"],
                env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                silent.settimeout(DEADLINE_S)
                connection, _ = silent.accept()
                asking.send_signal(signal.SIGINT)
                _, said = asking.communicate(timeout=DEADLINE_S)
                self.assertEqual(asking.returncode, -signal.SIGINT)
                self.assertEqual(said, b"attachctl: interrupted; nothing was enqueued\n")
                connection.close()
            finally:
                stop(asking)


del WithRedis  # a base, not a test

if __name__ == "__main__":
    unittest.main()
