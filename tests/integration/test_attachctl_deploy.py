"""attachctl deploy, relaunch, cancel, stop and destroy, with a real worker and a real terminal."""

import json
import os
import re
import signal
import subprocess
import unittest

from attachctl import AttachctlTest, Terminal
from support import WORKER_SH, processes_below, wait_until

INSTALLS = {"package.json": b"{}", "run.sh": (0o755, WORKER_SH)}
HOSTILE = r"printf 'up \033]0;owned\007\n'"


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

    def test_a_sandbox_is_stopped_and_what_it_holds_is_kept(self):
        self.start_worker(local=True)
        self.deployed()
        status, out, err = self.ctl("stop", execution=None)
        self.assertEqual((0, b""), (status, err))
        self.assertRegex(out, rb"\nanswer +ok\n")
        self.assertEqual([], processes_below(self.root))
        status, out, _ = self.ctl("status")
        self.assertEqual(0, status)
        self.assertRegex(out, rb"\nstatus +provider_unavailable\n")
        self.assertTrue(os.path.exists(self.execution()))
        status, out, _ = self.ctl("status", "--wake")
        self.assertEqual(0, status)
        self.assertNotIn(b"provider_unavailable", out)

    def test_a_sandbox_is_destroyed_with_all_it_holds(self):
        self.start_worker(local=True)
        self.deployed()
        words = ("destroy", "--attempts", "2", "--delay-ms", "1", "--job-id", "mine")
        status, out, err = self.ctl(*words, execution=None)
        self.assertEqual((0, b""), (status, err))
        self.assertRegex(out, rb"\nanswer +ok\n")
        self.assertEqual([], processes_below(self.root))
        self.assertFalse(os.path.exists(self.box))
        status, out, _ = self.ctl(*words, "--json", execution=None)
        self.assertEqual(0, status)
        self.assertTrue(json.loads(out)["duplicate"])
        self.client.delete(self.key("jobs"))
        self.ctl("destroy", "--attempts", "2", "--delay-ms", "1", "--no-wait", execution=None)
        job = self.job()
        self.assertEqual((2, 1), (job["attempts"], job["delay_ms"]))

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
