"""attachctl deploy, relaunch and cancel, with a real worker and a real terminal."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import msgpack

from support import (
    BUILD,
    CLEAN_ENVIRONMENT,
    DEADLINE_S,
    REPORTS,
    WORKER_SH,
    DeployTest,
    targz,
    wait_until,
)

ATTACHCTL = os.path.join(BUILD, "attachctl")
INSTALLS = {"package.json": b"{}", "run.sh": (0o755, WORKER_SH)}
HOSTILE = r"printf 'up \033]0;owned\007\n'"


class Terminal:
    """A terminal of so many columns, for one process' standard error."""

    def __init__(self, columns=100):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.text = b""

    def read_until(self, wanted):
        end = time.monotonic() + DEADLINE_S
        while wanted not in self.text:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.ours], [], [], max(0, left))
            if not ready:
                raise AssertionError(f"no {wanted!r} in {self.text!r}")
            self.text += os.read(self.ours, 4096)

    def read_rest(self):
        """After the process' end: all that it has written."""
        os.close(self.theirs)
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end
            while chunk := os.read(self.ours, 4096):
                self.text += chunk
        os.close(self.ours)
        return self.text


class AttachctlTest(DeployTest):
    def setUp(self):
        super().setUp()
        self.archive = os.path.join(self.directory, "app.tgz")
        self.pack({"run.sh": (0o755, WORKER_SH)})

    def pack(self, files):
        with open(self.archive, "wb") as file:
            file.write(targz(files))

    def begin(self, command, *words, execution="e1", environment=None, **options):
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        process = subprocess.Popen(
            [ATTACHCTL, command, "--provider", "local", "--sandbox", "box",
             "--execution-id", execution, *words],
            env={**CLEAN_ENVIRONMENT, "ATTACHD_REDIS_URL": self.server.url,
                 "ATTACHD_QUEUE": self.queue, **(environment or {})},
            **options,
        )
        self.own_pids.add(process.pid)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, data=None):
        out, err = process.communicate(data, timeout=DEADLINE_S)
        self.assertNotRegex((err or b"").decode(errors="replace"), REPORTS)
        return process.returncode, out, err

    def ctl(self, *words, data=None, **options):
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return self.finish(self.begin(*words, **options), data)

    def job(self):
        """What the only job on the stream says."""
        ((_, fields),) = self.client.xrange(self.key("jobs"))
        return msgpack.unpackb(fields[b"job"])


class Deploy(AttachctlTest):
    def test_a_deploy_tells_its_phases_and_shows_the_answer(self):
        self.start_worker(local=True)
        status, out, err = self.ctl(
            "deploy", "--archive", self.archive, "--env", "GREETING", "--stdin", "-",
            "--", "./run.sh", "a b", "--wake",
            data=b"input", environment={"GREETING": "hi 'you'"},
        )
        self.assertEqual(0, status, err)
        self.assertRegex(out, rb"\nanswer +ok\n")
        self.assertRegex(out, rb"\nstatus +running\n")
        self.assertRegex(
            err, rb"^upload    0 B of (\d+\.\d KiB)\nupload    \1 of \1\nstart\n$")
        wait_until(lambda: self.read(".mastra/executions/e1/stdout"), "output")
        self.assertEqual(
            b"hello hi 'you' a b --wake\n", self.read(".mastra/executions/e1/stdout")
        )
        self.assertEqual(b"input", self.read(".mastra/executions/e1/stdin"))
        self.assertNotIn(b"hi 'you'", out + err)

    def test_an_archive_comes_from_standard_input_too_and_the_answer_as_json(self):
        self.start_worker(local=True)
        app = os.path.join(self.directory, "app")
        os.mkdir(app)
        with open(os.path.join(app, "run.sh"), "wb") as file:
            file.write(WORKER_SH)
        os.chmod(file.name, 0o755)
        tar = subprocess.run(["tar", "-cz", "-C", app, "."], check=True, capture_output=True)
        status, out, err = self.ctl(
            "deploy", "--archive", "-", "--job-id", "mine", "--quiet", "--json",
            "--input", self.archive, "--input-path", "copy.tgz", "--", "./run.sh",
            data=tar.stdout,
        )
        self.assertEqual((0, b""), (status, err))
        reply = json.loads(out)
        self.assertEqual(("mine", "deploy"), (reply["id"], reply["op"]))
        with open(self.archive, "rb") as file:
            self.assertEqual(file.read(), self.read("copy.tgz"))
        # The same job id is the same job.
        status, out, _ = self.ctl(
            "deploy", "--archive", self.archive, "--job-id", "mine", "--json", "--", "./run.sh"
        )
        self.assertEqual(0, status)
        self.assertTrue(json.loads(out)["duplicate"])
        self.assertEqual(1, len(self.read("starts").splitlines()))

    def test_an_artifact_of_the_workers_own_is_named(self):
        apps = os.path.join(self.directory, "apps")
        os.makedirs(os.path.join(apps, "mine"))
        run = os.path.join(apps, "mine", "run.sh")
        with open(run, "wb") as file:
            file.write(WORKER_SH)
        os.chmod(run, 0o755)
        self.start_worker(local=True, artifact_root=apps)
        status, _, err = self.ctl("deploy", "--artifact-dir", "mine", "--", "./run.sh")
        self.assertEqual(0, status, err)
        wait_until(lambda: self.read("starts"), "the start")

    def test_limits_and_times_reach_the_program(self):
        self.start_worker(local=True)
        self.pack({"run.sh": (0o755, b"#!/bin/sh\nulimit -n\npwd\nexec sleep 600\n"),
                   "sub/x": b""})
        status, _, err = self.ctl(
            "deploy", "--archive", self.archive, "--open-files", "77",
            "--working-directory", "sub", "--execution-timeout-ms", "1500",
            "--grace-ms", "100", "--", "../run.sh",
        )
        self.assertEqual(0, status, err)
        wait_until(lambda: self.read(".mastra/executions/e1/status").startswith(b"timed_out"),
                   "the end")
        self.assertEqual(f"77\n{self.app}/sub\n".encode(),
                         self.read(".mastra/executions/e1/stdout"))

    def test_a_failed_install_is_an_error_answer_with_its_phase(self):
        self.start_worker(local=True)
        self.pack(INSTALLS)
        status, out, err = self.ctl(
            "deploy", "--archive", self.archive,
            "--install-command", f"{HOSTILE}; exit 7", "--", "./run.sh",
        )
        self.assertEqual(1, status, err)
        self.assertRegex(out, rb"\ncode +deploy_failed\n")
        self.assertRegex(out, rb"\nphase +install\n")
        self.assertRegex(out, rb"\nexit code +7\n")
        self.assertNotIn(b"\x1b", out + err)

    def test_what_is_not_there_is_told_and_nothing_is_enqueued(self):
        big = os.path.join(self.directory, "big")
        with open(big, "wb") as file:
            file.truncate(24 * 1024 * 1024 + 1)
        for words, message in (
            (("--archive", "/nonexistent"), b"cannot open /nonexistent"),
            (("--archive", big), b"--artifact-dir"),
            (("--archive", self.archive, "--env", "UNSET"), b"--env UNSET: no value"),
            (("--archive", self.archive, "--env-file", "/nonexistent"), b"cannot open"),
            (("--archive", self.archive, "--job-id", "no id"), b"id must be"),
        ):
            status, out, err = self.ctl("deploy", *words, "--", "./run.sh")
            self.assertEqual((2, b""), (status, out), words)
            self.assertIn(message, err)
        self.assertEqual(0, self.client.exists(self.key("jobs")))

    def test_without_waiting_the_id_is_printed_and_no_progress_is_asked_for(self):
        status, out, err = self.ctl(
            "deploy", "--archive", self.archive, "--no-wait", "--", "./run.sh"
        )
        self.assertEqual((0, b""), (status, err))
        job = self.job()
        self.assertEqual(job["id"] + "\n", out.decode())
        self.assertNotIn("progress", job)
        self.assertNotIn("deadline_ms", job)


class Lifecycle(AttachctlTest):
    def test_an_execution_is_launched_again_and_cancelled(self):
        self.start_worker(local=True)
        status, _, err = self.ctl("deploy", "--archive", self.archive, "--", "./run.sh", "x")
        self.assertEqual(0, status, err)
        status, out, err = self.ctl("relaunch", "--from", "e1", "--stdin", self.archive,
                                    execution="e2")
        self.assertEqual(0, status, err)
        self.assertIn(b"start\n", err)
        self.assertRegex(out, rb"\nstatus +running\n")
        wait_until(lambda: len(self.read("starts").splitlines()) == 2, "two starts")
        for execution in ("e1", "e2"):
            status, out, err = self.ctl("cancel", "--grace-ms", "4000", execution=execution)
            self.assertEqual((0, b""), (status, err))
            self.assertRegex(out, rb"\nstatus +cancelled\n")

    def test_a_long_grace_makes_the_time_longer(self):
        status, _, _ = self.ctl("cancel", "--grace-ms", "60000", "--no-wait")
        self.assertEqual(0, status)
        self.assertEqual(60000, self.job()["termination_grace_ms"])
        self.assertNotIn("timeout_ms", self.job())
        self.client.flushall()
        cancelling = self.begin("cancel", "--grace-ms", "60000")
        wait_until(lambda: self.client.xlen(self.key("jobs")), "the job")
        self.assertEqual(90000, self.job()["timeout_ms"])
        cancelling.send_signal(signal.SIGINT)
        self.assertEqual(-signal.SIGINT, self.finish(cancelling)[0])


class OnATerminal(AttachctlTest):
    def setUp(self):
        super().setUp()
        self.pack(INSTALLS)
        self.go = os.path.join(self.directory, "go")
        os.mkfifo(self.go)

    def begin_held(self, *words, **options):
        """A deploy whose installation says something, and waits."""
        return self.begin(
            "deploy", "--archive", self.archive, "--install-command",
            f"{HOSTILE}; read -r line <'{self.go}'", *words, "--", "./run.sh", **options
        )

    def let_go(self):
        with open(self.go, "w", encoding="ascii") as file:
            file.write("go\n")

    def test_a_phase_is_one_line_and_no_output_steers_it(self):
        self.start_worker(local=True)
        terminal = Terminal()
        deploying = self.begin_held(stderr=terminal.theirs)
        terminal.read_until(b"\rinstall   up \\x1b]0;owned\\x07")
        self.let_go()
        status, out, _ = self.finish(deploying)
        text = terminal.read_rest()
        self.assertEqual(0, status, text)
        self.assertRegex(out, rb"\nanswer +ok\n")
        # The terminal adds a return to each line feed.
        lines = text.split(b"\r\n")
        self.assertEqual(b"", lines.pop(), text)
        self.assertEqual(3, len(lines), text)
        for line, phase in zip(lines, (b"upload", b"install", b"start")):
            for part in line.removeprefix(b"\r").split(b"\r"):
                self.assertRegex(part, rb"^" + phase + rb"[^\x00-\x1f]*\x1b\[K$")

    def test_an_interrupted_deploy_goes_on_and_is_asked_again_by_its_id(self):
        self.start_worker(local=True)
        terminal = Terminal()
        deploying = self.begin_held(stderr=terminal.theirs)
        terminal.read_until(b"owned")
        deploying.send_signal(signal.SIGINT)
        status, out, _ = self.finish(deploying)
        text = terminal.read_rest()
        self.assertEqual((-signal.SIGINT, b""), (status, out))
        job_id = re.search(rb"interrupted; job (ctl-\w+) goes on. The same command with "
                           rb"--job-id \1 gives its answer", text).group(1).decode()
        self.let_go()
        self.wait_reply(job_id)
        status, out, err = self.finish(self.begin_held("--job-id", job_id, "--json"))
        self.assertEqual(0, status, err)
        reply = json.loads(out)
        self.assertTrue(reply["duplicate"])
        self.assertEqual("running", reply["result"]["status"]["state"])
        self.assertEqual(1, len(self.read("starts").splitlines()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
